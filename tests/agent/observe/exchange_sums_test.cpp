// Sums of exchanges in the place of a line each.
#include "agent/observe/exchange_sums.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/fake_clock.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Told final : public Observer {
 public:
  void on(const Event& event) override { events.push_back(event); }
  std::vector<Event> events;
};

ExchangeEnded exchange(const char* peer, const char* outcome, double ms, std::optional<double> distance = {}) {
  ExchangeEnded event;
  event.peer = peer;
  event.outcome = outcome;
  event.ms = ms;
  event.distance = distance;
  event.bytes_out = 100;
  event.bytes_in = 10;
  event.blocks = 3;
  event.blocks_total = 4;
  return event;
}

TEST(ExchangeSums, HoldWhatTheExchangesOfASecondHeld) {
  FakeClock clock;
  Told told;
  ExchangeSums sums(clock, told, seconds(1));
  ExchangeEnded first = exchange("b", "done", 2, 0.5);
  first.initiated = true;
  first.scale = 0.5;
  sums.on(first);
  clock.advance(milliseconds(400));
  sums.on(exchange("a", "late", 6, 0.25));
  sums.on(exchange("b", "failed", 500));
  ExchangeEnded last = exchange("b", "busy", 1);
  last.steps = 77;
  sums.on(last);
  sums.on(MemberChanged{});
  EXPECT_EQ(told.events.size(), 1u) << "less than a second";
  clock.advance(milliseconds(600));
  sums.on(AgentStatus{});
  ASSERT_EQ(told.events.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<AgentStatus>(told.events[2])) << "which counts what the sums hold";
  const auto& sum = std::get<ExchangesSummed>(told.events[1]);
  EXPECT_DOUBLE_EQ(sum.seconds, 1);
  EXPECT_EQ(std::vector({sum.done, sum.late, sum.failed, sum.busy, sum.initiated, sum.clipped}),
            (std::vector<uint64_t>{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(sum.ms, 4) << "of what ended mixed";
  EXPECT_EQ(sum.ms_max, 6);
  EXPECT_EQ(sum.distance, 0.375) << "of those known";
  EXPECT_EQ(std::vector({sum.bytes_out, sum.bytes_in, sum.blocks, sum.blocks_total, sum.steps}),
            (std::vector<uint64_t>{400, 40, 12, 16, 77}));
  ASSERT_EQ(sum.with.size(), 2u);
  EXPECT_EQ(sum.with[0].peer, "a");
  EXPECT_EQ(sum.with[0].late, 1u);
  EXPECT_EQ(sum.with[1].peer, "b");
  EXPECT_EQ(std::vector({sum.with[1].done, sum.with[1].late, sum.with[1].failed, sum.with[1].busy}),
            (std::vector<uint64_t>{1, 0, 1, 1}));
  sums.on(exchange("b", "late", 1));
  sums.on(Finished{});
  ASSERT_EQ(told.events.size(), 5u);
  const auto& next = std::get<ExchangesSummed>(told.events[3]);
  ASSERT_EQ(next.with.size(), 1u) << "each line counts from nothing";
  EXPECT_EQ(std::vector({next.with[0].done, next.with[0].late, next.done, next.late}),
            (std::vector<uint64_t>{0, 1, 0, 1}));
}

// A toy of 1000 steps a second.
TEST(ExchangeSums, AreALineASecondHoweverManyExchangesThereWere) {
  FakeClock clock;
  Told told;
  ExchangeSums sums(clock, told, seconds(1));
  constexpr int kExchanges = 10000;
  for (int i = 0; i < kExchanges; ++i, clock.advance(milliseconds(1))) sums.on(exchange("a", "done", 1));
  sums.on(Finished{});
  EXPECT_EQ(told.events.size(), 11u) << "the rest comes before the last event";
  uint64_t done = 0;
  for (const Event& event : told.events) {
    if (const auto* sum = std::get_if<ExchangesSummed>(&event)) done += sum->done;
  }
  EXPECT_EQ(done, kExchanges);
}

TEST(ExchangeSums, OfNoTimeAreTheExchangesThemselves) {
  FakeClock clock;
  Told told;
  ExchangeSums sums(clock, told, Duration::zero());
  sums.on(exchange("a", "done", 1));
  sums.on(exchange("b", "busy", 1));
  ASSERT_EQ(told.events.size(), 2u);
  EXPECT_EQ(std::get<ExchangeEnded>(told.events[1]).peer, "b");
}

}  // namespace
}  // namespace starling
