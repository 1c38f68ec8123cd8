#include "gossip/membership/update_queue.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

PeerRecord record_of(uint8_t number) {
  PeerRecord record;
  record.id.bytes[0] = number;
  return record;
}

size_t times_sent(bool urgent, uint32_t sent_max) {
  UpdateQueue queue;
  queue.put_alive(record_of(1), urgent);
  size_t times = 0;
  while (!queue.empty()) {
    Updates updates;
    queue.fill(updates, 8, sent_max, {});
    times += updates.alive.size();
  }
  return times;
}

// On a link of 20 kB/s four members' records took more than their exchanges.
TEST(UpdateQueue, PassesAStatusOnHalfAsOftenAsOtherNews) {
  EXPECT_EQ(times_sent(true, 8), 8u);
  EXPECT_EQ(times_sent(false, 8), 4u);
  EXPECT_EQ(times_sent(false, 3), 2u);
  EXPECT_EQ(times_sent(false, 1), 1u);
}

TEST(UpdateQueue, AStatusKeepsTheUrgencyOfTheNewsThatItReplaces) {
  UpdateQueue queue;
  queue.put_alive(record_of(1), false);
  queue.put_alive(record_of(2), true);
  queue.put_alive(record_of(2), false);
  Updates updates;
  queue.fill(updates, 1, 4, {});
  ASSERT_EQ(updates.alive.size(), 1u);
  EXPECT_EQ(updates.alive.front().id, record_of(2).id);
}

}  // namespace
}  // namespace starling
