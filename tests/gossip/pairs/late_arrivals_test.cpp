#include "gossip/pairs/late_arrivals.h"

#include <gtest/gtest.h>

#include "tests/gossip/exchange/harness.h"

namespace starling::exchange_test {
namespace {

constexpr TimePoint kBegin{std::chrono::hours(1)};

ProposedExchange exchange(uint64_t number) {
  ProposedExchange made{PairExchange{.xid = {test_peer(1), 1, number},
                                     .peer = test_peer(2),
                                     .started_at = kBegin,
                                     .deadline_at = kBegin + milliseconds(100),
                                     .deadline = milliseconds(100),
                                     .blocks = PeerBlocks(make_bitmap(1), 1, 1)}};
  return made;
}

// How long exchanges took, as so many alike tell; nullopt: nothing is known of them yet.
std::optional<Duration> told_by(LateArrivals& late, const std::function<void(const ProposedExchange&)>& happens) {
  for (uint64_t i = 0; i < AdaptiveDeadline::kSamplesMin; ++i) {
    const ProposedExchange one = exchange(i);
    late.ended(one, one.deadline_at);
    happens(one);
  }
  EXPECT_EQ(late.next_deadline(), kBegin + milliseconds(200)) << "each is watched for a second deadline";
  late.tick(kBegin + milliseconds(199));
  EXPECT_FALSE(late.deadline().known());
  late.tick(kBegin + milliseconds(200));
  EXPECT_EQ(late.next_deadline(), TimePoint::max());
  return late.deadline().so_far();
}

TEST(LateArrivals, WhatComesAfterTheDeadlineTellsHowLongItShouldHaveBeen) {
  LateArrivals late(milliseconds(20), milliseconds(500));
  EXPECT_EQ(told_by(late,
                    [&](const ProposedExchange& one) {
                      late.arrived(one.xid, one.peer, kBegin + milliseconds(130));
                      late.arrived(one.xid, one.peer, kBegin + milliseconds(150));  // the last one counts
                    }),
            milliseconds(150));
}

TEST(LateArrivals, OnlyThePeerOfTheExchangeCounts) {
  for (const bool another_peer : {true, false}) {
    LateArrivals late(milliseconds(20), milliseconds(500));
    EXPECT_EQ(told_by(late,
                      [&](const ProposedExchange& one) {
                        const ExchangeId other{one.xid.proposer, one.xid.generation, one.xid.counter + 1000};
                        late.arrived(another_peer ? one.xid : other, another_peer ? test_peer(3) : one.peer,
                                     kBegin + milliseconds(150));
                      }),
              milliseconds(200))
        << "nothing came: twice the deadline";
  }
}

TEST(LateArrivals, WhatCameInTimeIsKnownAtOnceAndOfAForgottenPeerNothing) {
  LateArrivals late(milliseconds(20), milliseconds(500));
  for (uint64_t i = 0; i < AdaptiveDeadline::kSamplesMin; ++i) late.ended(exchange(i), kBegin + milliseconds(60));
  EXPECT_EQ(late.deadline().so_far(), milliseconds(60));
  LateArrivals forgetful(milliseconds(20), milliseconds(500));
  forgetful.ended(exchange(1), kBegin + milliseconds(100));
  forgetful.forget(test_peer(3));
  EXPECT_NE(forgetful.next_deadline(), TimePoint::max());
  forgetful.forget(test_peer(2));
  EXPECT_EQ(forgetful.next_deadline(), TimePoint::max());
}

}  // namespace
}  // namespace starling::exchange_test
