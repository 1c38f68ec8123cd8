// Messages no honest peer sends: every one is counted and ignored or refused, none is ever applied.
#include <gtest/gtest.h>

#include <limits>

#include "gossip/limits.h"
#include "tests/gossip/pairs/pair_harness.h"

namespace starling::exchange_test {
namespace {

template <class E>
class Hostile {
 public:
  Hostile(uint64_t rng_seed, const TestAgentOf<E>& victim) : rng_(rng_seed), victim_(victim) {}

  PeerId some_peer() { return test_peer(static_cast<uint8_t>(200 + rng_.below(3))); }

  // Somewhat plausible, so that it gets past the first checks: real names, counters about to be used.
  Flight next() {
    if (rng_.chance(0.002)) ++generation_;
    ++sent_;
    Flight flight{some_peer(), victim_.id, generation_ - rng_.below(2), {}, {}};
    ExchangeId xid{flight.from, flight.generation, sent_ / 20 + rng_.below(3)};
    if (rng_.chance(0.5)) {
      const uint64_t newest = victim_.pairwise->counters().initiated;
      xid = {victim_.id, victim_.generation, newest - std::min<uint64_t>(newest, rng_.below(3))};
    }
    if (rng_.chance(0.05)) xid.proposer = some_peer();
    if (rng_.chance(0.02)) xid.generation = rng_.next_u64();
    switch (rng_.below(11)) {
      case 0: flight.message = Propose{xid, number(), number(), rng_.below(9), rng_.below(200), rng_.below(9)}; break;
      case 1: flight.message = Accept{xid, number(), number(), rng_.below(9), rng_.below(9)}; break;
      case 2: flight.message = Busy{xid, rng_.below(100)}; break;
      case 3:
        flight.message = BlockPayload{xid, rng_.below(6), static_cast<uint8_t>(rng_.chance(0.9) ? 0 : 2)};
        flight.payload = bad_payload();
        break;
      case 4: flight.message = Credit{xid, static_cast<uint32_t>(rng_.next_u64())}; break;
      case 5: flight.message = Have{xid, bitmap(), number()}; break;
      case 6: flight.message = Commit{xid, bitmap(), number()}; break;
      case 7: flight.message = Abort{xid}; break;
      case 8: flight.message = CommitAck{xid}; break;
      case 9: flight.message = Missing{xid, bitmap()}; break;
      default: flight.message = Query{xid}; break;
    }
    return flight;
  }

 private:
  double number() {
    const double infinity = std::numeric_limits<double>::infinity();
    const double numbers[] = {1, 1, 1, 0.5, 0.25, 0, -1, 1e300, 1e-300, infinity, infinity - infinity};
    return rng_.chance(0.5) ? 1 : numbers[rng_.below(std::size(numbers))];
  }
  Bitmap bitmap() {
    Bitmap bits(rng_.chance(0.8) ? 1 : rng_.below(4));
    for (uint8_t& byte : bits) byte = static_cast<uint8_t>(rng_.chance(0.7) ? 0x0F : rng_.next_u64());
    return bits;
  }
  SharedBytes bad_payload() {  // not finite, or of the wrong size: may never be applied
    const bool not_finite = rng_.chance(0.5);
    const size_t size = not_finite ? 64 : rng_.below(200) * 8 + 4;
    return shared_copy(std::vector<std::byte>(size, std::byte{0xFF}));
  }

  Rng rng_;
  const TestAgentOf<E>& victim_;
  uint64_t generation_ = 2, sent_ = 0;
};

class Fuzzed : public testing::TestWithParam<uint64_t> {};
class FuzzedTurns : public testing::TestWithParam<uint64_t> {};

template <class E>
void withstand_anything(uint64_t rng_seed) {
  TestSwarmOf<E> swarm({}, rng_seed);
  TestAgentOf<E>& victim = swarm.add(1);
  victim.boundary();
  Hostile<E> hostile(rng_seed, victim);
  Rng rng(rng_seed + 1000);
  for (int i = 0; i < 90'000; ++i) {  // who lets exchanges end undecided is refused for a while
    if (rng.chance(0.01)) (void)victim.pairwise->propose(hostile.some_peer());
    if (rng.chance(0.03)) {
      ASSERT_EQ(victim.boundary(), 0u);
    }
    if (rng.chance(0.005)) victim.pairwise->forget(hostile.some_peer(), kEveryLife);
    swarm.deliver(hostile.next());
    if (rng.chance(0.1)) swarm.run_for(milliseconds(rng.below(100)));
  }
  swarm.run_for(std::chrono::seconds(10));
  EXPECT_TRUE(victim.pairwise->take_decided().deltas.empty());
  EXPECT_FALSE(victim.pairwise->in_doubt());
  EXPECT_TRUE(victim.pairwise->idle());
  EXPECT_EQ(swarm.network.payloads_held(), 0u);

  // The fuzz reached the depths it is meant for.
  const PairwiseCounters& counters = victim.pairwise->counters();
  const uint64_t less = std::is_same_v<E, SyncPairs> ? 2 : 1;
  EXPECT_GT(counters.accepted, 50u / less);
  EXPECT_GT(counters.initiated, 50u);
  EXPECT_GT(counters.blocks_refused, 20u / less);
  EXPECT_GT(counters.busy_received, 5u);
  EXPECT_GT(victim.pairwise->block_tally().ignored_messages, 1000u);

  // And it left the agent able to work.
  TestAgentOf<E>& friend_of_it = swarm.add(2);
  friend_of_it.params.assign(64, 4);
  friend_of_it.boundary();
  victim.boundary();
  ASSERT_TRUE(victim.pairwise->propose(friend_of_it.id));
  swarm.run_for(std::chrono::seconds(1));
  victim.apply();
  EXPECT_EQ(victim.params[0], 2);
}

TEST_P(Fuzzed, NothingCrashesAndNothingIsApplied) { withstand_anything<AsyncPairs>(GetParam()); }
TEST_P(FuzzedTurns, NothingCrashesAndNothingIsApplied) { withstand_anything<SyncPairs>(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Seeds, Fuzzed, testing::Range<uint64_t>(1, 9));
INSTANTIATE_TEST_SUITE_P(Seeds, FuzzedTurns, testing::Range<uint64_t>(1, 9));

// Proposers that get votes and never decide hold a bounded number of doubts, and nobody else pays.
TEST(Hostile, DoubtsAreBoundedPerAgent) {
  TestSwarm swarm({});
  TestAgent& victim = swarm.add(1);
  for (uint64_t counter = 1; counter <= 40; ++counter) {
    victim.boundary();
    const PeerId from = test_peer(static_cast<uint8_t>(100 + counter));
    const ExchangeId xid{from, 1, counter};
    swarm.deliver({from, victim.id, 1, Propose{.xid = xid, .deadline_ms = 500, .credit = 4}, {}});
    for (uint32_t i = 0; i < 4; ++i) {
      swarm.deliver({from, victim.id, 1, BlockPayload{xid, i, 0}, shared_copy(std::vector<std::byte>(64))});
    }
    swarm.run_for(milliseconds(100));
  }
  EXPECT_TRUE(victim.pairwise->in_doubt());
  EXPECT_LE(swarm.network.payloads_held(), 4 * (kInDoubtMax + kParkedDoubtsMax));
  const PairwiseCounters counters = victim.pairwise->counters();
  EXPECT_LE(counters.accepted - counters.doubts_broken, kInDoubtMax + kParkedDoubtsMax);
  EXPECT_EQ(counters.busy_sent, 40 - counters.accepted);
  for (uint8_t i = 1; i <= 40; ++i) victim.pairwise->forget(test_peer(100 + i), kEveryLife);
  EXPECT_TRUE(victim.pairwise->idle());

  TestAgent& honest = swarm.add(2);
  honest.boundary();
  victim.boundary();
  ASSERT_TRUE(honest.pairwise->propose(victim.id));
  swarm.run_for(std::chrono::seconds(1));
  EXPECT_EQ(victim.apply(), 1u);
}

// Proposers that never decide and never come back: their doubts are parked, within a bound, and what is broken beyond
// it is counted. Others exchange on.
TEST(Hostile, ParkedDoubtsAreBoundedAndTheOldestIsBroken) {
  TestSwarm swarm({});
  TestAgent& victim = swarm.add(1);
  constexpr size_t kProposers = 20;
  for (uint64_t counter = 1; counter <= kProposers; ++counter) {
    victim.boundary();
    const PeerId from = test_peer(static_cast<uint8_t>(100 + counter));
    const ExchangeId xid{from, 1, counter};
    swarm.deliver({from, victim.id, 1, Propose{.xid = xid, .deadline_ms = 100, .credit = 4}, {}});
    for (uint32_t i = 0; i < 4; ++i) {
      swarm.deliver({from, victim.id, 1, BlockPayload{xid, i, 0}, shared_copy(std::vector<std::byte>(64))});
    }
    swarm.run_for(std::chrono::seconds(10));
  }
  EXPECT_EQ(victim.pairwise->counters().accepted, kProposers);
  EXPECT_EQ(victim.pairwise->counters().doubts_broken, kProposers - kParkedDoubtsMax);
  EXPECT_EQ(victim.pairwise->pairs_status().doubts_parked, kParkedDoubtsMax);
  EXPECT_EQ(swarm.network.payloads_held(), 4 * kParkedDoubtsMax) << "a broken doubt lets go of its payloads";
  victim.boundary();
  TestAgent& honest = swarm.add(2);
  honest.boundary();
  ASSERT_TRUE(honest.pairwise->propose(victim.id));
  swarm.run_for(std::chrono::seconds(1));
  EXPECT_EQ(victim.apply(), 1u);
  for (size_t i = 1; i <= kProposers; ++i) {
    const size_t held = victim.pairwise->pairs_status().doubts_parked;
    victim.pairwise->forget(test_peer(static_cast<uint8_t>(100 + i)), kEveryLife);
    const bool was_held = i > kProposers - kParkedDoubtsMax;
    EXPECT_EQ(held - victim.pairwise->pairs_status().doubts_parked, was_held ? 1u : 0u) << i;
  }
}

}  // namespace
}  // namespace starling::exchange_test
