// Exchanges that carry a part of the model: which one, that the two agents agree on it, and what happens where not.
#include "gossip/pairs/fragments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "gossip/pairs/sync_pairs.h"
#include "tests/gossip/pairs/pair_harness.h"

namespace starling::exchange_test {
namespace {

using Turns = PairOf<SyncPairs>;
using TurnAgent = TestAgentOf<SyncPairs>;
using TurnSwarm = TestSwarmOf<SyncPairs>;
using Indices = std::set<size_t>;

constexpr uint32_t kFragments = 4;
constexpr size_t kBlocks = 8;

PairAgentOptions in_fragments() {
  PairAgentOptions options;
  options.params = 16 * kBlocks;
  options.fragments = kFragments;
  return options;
}

Indices indices_of(const Bitmap& bits, size_t count) {
  Indices indices;
  for (size_t i = 0; i < count; ++i) {
    if (test_bit(bits, i)) indices.insert(i);
  }
  return indices;
}

// ---- the cut ----

TEST(Fragments, EachBlockIsInOneAndMomentumGoesWithItsParams) {
  for (size_t params : {40, 70, 400, 1000}) {
    const Layout layout = Layout::cut({{"params", params}, {"momentum", params}, {"averaged", 10}}, 10);
    const size_t of_params = (params + 9) / 10;
    for (uint32_t count : {1u, 3u, 4u}) {
      const std::vector<Bitmap> fragments = cut_fragments(layout, count);
      ASSERT_EQ(fragments.size(), count);
      std::vector<int> times(layout.blocks.size());
      for (const Bitmap& fragment : fragments) {
        ASSERT_TRUE(fits(fragment, layout.blocks.size()));
        const Indices blocks = indices_of(fragment, layout.blocks.size());
        EXPECT_FALSE(blocks.empty());
        for (size_t i : blocks) {
          ++times[i];
          EXPECT_TRUE(i >= of_params || blocks.contains(i + of_params)) << i << ": without its momentum";
        }
        const auto size = static_cast<double>(std::distance(blocks.begin(), blocks.lower_bound(of_params)));
        EXPECT_NEAR(size, static_cast<double>(of_params) / count, 1.0);
        const size_t last = *std::prev(blocks.lower_bound(of_params));
        EXPECT_EQ(*blocks.begin() + static_cast<size_t>(size) - 1, last) << "not a run";
      }
      EXPECT_EQ(times, std::vector<int>(layout.blocks.size(), 1));
    }
  }
}

TEST(Fragments, BothEndsCountAlikeFromWhatTheirIdsSay) {
  std::set<uint32_t> first;
  for (uint8_t peer = 2; peer < 60; ++peer) {
    FragmentTurns ours(test_peer(1), kFragments), theirs(test_peer(peer), kFragments);
    const uint32_t begin = ours.next_with(test_peer(peer));
    first.insert(begin);
    for (uint32_t i = 0; i < 9; ++i) {
      ASSERT_EQ(ours.next_with(test_peer(peer)), (begin + i) % kFragments);
      ASSERT_EQ(theirs.next_with(test_peer(1)), (begin + i) % kFragments);
      ours.mixed(test_peer(peer), (begin + i) % kFragments);
      theirs.mixed(test_peer(1), (begin + i) % kFragments);
    }
    ours.taken_back(test_peer(peer), begin);  // the ninth
    EXPECT_EQ(ours.next_with(test_peer(peer)), begin);
    ours.mixed(test_peer(peer), 2);
    ours.taken_back(test_peer(peer), 1);  // an earlier one: the newer counts
    EXPECT_EQ(ours.next_with(test_peer(peer)), 3u);
    ours.forget(test_peer(peer));
    EXPECT_EQ(ours.next_with(test_peer(peer)), begin);
  }
  EXPECT_EQ(first.size(), kFragments) << "where pairs meet once, some fragments would never be mixed";
}

// ---- pairs ----

// The blocks that each exchange of a pair decided on, in order.
class Decisions {
 public:
  explicit Decisions(TurnSwarm& swarm) {
    swarm.network.watch = [this](const Flight& flight) {
      if (!is<Commit>(flight)) return;
      const Commit& commit = *message_as<Commit>(flight.message);
      if (!seen_.insert(commit.xid).second) return;
      const auto pair = std::minmax(flight.from, flight.to);
      of_pair[{pair.first, pair.second}].push_back(indices_of(commit.blocks, kBlocks));
    };
  }
  std::map<std::pair<PeerId, PeerId>, std::vector<Indices>> of_pair;

 private:
  std::set<ExchangeId> seen_;
};

class FragmentPairs : public testing::TestWithParam<uint8_t> {};

TEST_P(FragmentPairs, EveryBlockIsInOneOfAnyFourExchangesOfAPair) {
  TurnSwarm swarm(in_fragments(), GetParam());
  Rng rng(GetParam());
  std::vector<TurnAgent*> agents;
  for (uint8_t tag = 1; tag <= GetParam(); ++tag) {
    agents.push_back(&swarm.add(tag));
    for (float& x : agents.back()->params) x = static_cast<float>(rng.below(64));
    agents.back()->boundary();
  }
  const std::vector<double> sum = swarm.weighted_sum();
  Decisions decisions(swarm);
  for (int beat = 0; beat < 120; ++beat) {
    for (TurnAgent* agent : agents) {  // often two at once, so that proposals cross
      TurnAgent* other = agents[rng.below(static_cast<uint32_t>(agents.size()))];
      if (other != agent && !agent->pairwise->under_way() && rng.chance(0.7)) agent->pairwise->propose(other->id);
    }
    swarm.run_for(milliseconds(40));
  }
  swarm.run_for(std::chrono::seconds(2));
  EXPECT_TRUE(swarm.all_idle());
  EXPECT_EQ(decisions.of_pair.size(), agents.size() * (agents.size() - 1) / 2);
  uint64_t crossed = 0;
  for (TurnAgent* agent : agents) {
    crossed += agent->pairwise->counters().crossed;
    agent->apply();
  }
  EXPECT_GT(crossed, 4u) << "no proposals crossed: this shows too little";
  for (const auto& [pair, exchanges] : decisions.of_pair) {
    ASSERT_GT(exchanges.size(), 8u);
    for (size_t first = 0; first + kFragments <= exchanges.size(); ++first) {
      Indices blocks;
      for (size_t i = first; i < first + kFragments; ++i) {
        EXPECT_EQ(exchanges[i].size(), kBlocks / kFragments);
        blocks.insert(exchanges[i].begin(), exchanges[i].end());
      }
      EXPECT_EQ(blocks.size(), kBlocks) << "exchanges " << first << " to " << first + 3;
    }
  }
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(swarm.weighted_sum()[i], sum[i], 1e-4) << "beyond rounding";
}

INSTANTIATE_TEST_SUITE_P(Agents, FragmentPairs, testing::Values(2, 4));

TEST(FragmentTurn, SendsAQuarterAndMovesNothingElse) {
  Turns pair(in_fragments());
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(200));
  const ExchangeReport report = only_report(pair.a);
  EXPECT_EQ(report.outcome, ExchangeOutcome::kDone);
  EXPECT_EQ(report.blocks_mixed, kBlocks / kFragments);
  EXPECT_EQ(report.blocks_total, kBlocks / kFragments);
  EXPECT_EQ(report.payload_bytes_sent, 4 * pair.a.params.size() / kFragments);
  EXPECT_EQ(report.payload_bytes_received, 4 * pair.a.params.size() / kFragments);
  EXPECT_EQ(pair.a.pairwise->block_tally().due, kBlocks / kFragments);
  EXPECT_EQ(pair.a.pairwise->block_tally().counted, kBlocks / kFragments);
  EXPECT_EQ(std::count(pair.a.params.begin(), pair.a.params.end(), 2.0f), 32);
  EXPECT_EQ(std::count(pair.a.params.begin(), pair.a.params.end(), 1.0f), 96);
}

// One end has forgotten what was (a decision that it does not know has the same effect). The blocks that crossed are of
// two fragments: the proposer's number counts, its blocks are those of the exchange, and the other sends them anew.
TEST(FragmentTurn, ProposalsOfTwoFragmentsThatCrossAreOneExchangeAllTheSame) {
  for (uint8_t forgetful : {1, 2}) {
    Turns pair(in_fragments());
    Decisions decisions(pair.swarm);
    pair.publish();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(200));
    pair.publish();
    const std::vector<double> sum = pair.swarm.weighted_sum();
    if (forgetful == 1) pair.a.pairwise->forget(pair.b.id, 0);
    if (forgetful == 2) pair.b.pairwise->forget(pair.a.id, 0);
    uint64_t asked_again = 0;
    const auto decisions_too = pair.swarm.network.watch;
    pair.swarm.network.watch = [&](const Flight& flight) {
      asked_again += is<Missing>(flight);
      decisions_too(flight);
    };
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));
    pair.swarm.run_for(milliseconds(31));  // three latencies: the proposal, its blocks, the decision
    EXPECT_EQ(pair.a.pairwise->counters().done, 2u);
    EXPECT_EQ(pair.b.pairwise->counters().done, 2u);
    EXPECT_EQ(asked_again, 0u) << "the acceptor took what it had sent for what was asked for";
    EXPECT_EQ(pair.a.pairwise->counters().crossed + pair.b.pairwise->counters().crossed, 1u)
        << "of who gave its own up; the other one's payload did not cross anything";
    pair.swarm.run_for(milliseconds(270));
    EXPECT_TRUE(pair.swarm.all_idle());
    EXPECT_EQ(pair.a.pairwise->counters().failed + pair.b.pairwise->counters().failed, 0u);
    pair.a.apply();
    pair.b.apply();
    EXPECT_EQ(pair.swarm.weighted_sum(), sum);
    // Now both know the same again: the next two cross as one, after one latency, with the next fragment.
    pair.publish();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));
    pair.swarm.run_for(milliseconds(12));
    EXPECT_FALSE(pair.a.pairwise->under_way());
    EXPECT_FALSE(pair.b.pairwise->under_way());
    pair.swarm.run_for(milliseconds(300));
    const std::vector<Indices>& exchanges = decisions.of_pair.begin()->second;
    ASSERT_EQ(exchanges.size(), 3u);
    for (const Indices& blocks : exchanges) EXPECT_EQ(blocks.size(), kBlocks / kFragments);
    EXPECT_NE(exchanges[2], exchanges[1]);
    EXPECT_EQ(*exchanges[2].begin() % kBlocks, (*exchanges[1].begin() + 2) % kBlocks);
  }
}

// Layers differ by orders of magnitude in how far apart they are. With one memory of distances for all fragments, the
// farthest would be clipped each time.
TEST(FragmentTurn, TheGuardComparesAFragmentWithItself) {
  PairAgentOptions options = in_fragments();
  options.clip = 3;
  options.drift = 8;
  Turns pair(options);
  for (int i = 0; i < 60; ++i) {
    for (size_t k = 0; k < pair.a.params.size(); ++k) pair.b.params[k] = pair.a.params[k] + (k < 96 ? 0.25f : 64.0f);
    pair.publish();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(100));
  }
  EXPECT_EQ(pair.a.pairwise->counters().done, 60u);
  EXPECT_EQ(pair.a.pairwise->counters().clipped, 0u);
}

// ---- foreign bytes ----

TEST(FragmentTurn, AFragmentThatThereIsNotIsIgnored) {
  Turns pair(in_fragments());
  pair.publish();
  const uint64_t before = pair.b.pairwise->block_tally().ignored_messages;
  for (uint32_t fragment : {kFragments, 100u, UINT32_MAX}) {
    Propose propose{.xid = {pair.a.id, 1, 1}, .deadline_ms = 200, .credit = 8, .payload = 1, .fragment = fragment};
    pair.swarm.deliver({pair.a.id, pair.b.id, 1, propose, {}});
  }
  EXPECT_EQ(pair.b.pairwise->block_tally().ignored_messages, before + 3);
  EXPECT_FALSE(pair.b.pairwise->under_way());
}

// A member asks for all blocks, and sends all: it gets the fragment, and the rest of its own is ignored.
TEST(FragmentTurn, BlocksOfOtherFragmentsAreNeitherSentNorTaken) {
  Turns pair(in_fragments());
  pair.publish();
  Indices sent;
  pair.swarm.network.watch = [&](const Flight& flight) {
    if (is<BlockPayload>(flight) && flight.from == pair.b.id) {
      sent.insert(message_as<BlockPayload>(flight.message)->index);
    }
  };
  const ExchangeId xid{pair.a.id, 1, 1};
  pair.swarm.deliver(
      {pair.a.id, pair.b.id, 1, Propose{.xid = xid, .deadline_ms = 400, .credit = 8, .payload = 1, .fragment = 2}, {}});
  Bitmap everything = make_bitmap(kBlocks);
  for (size_t i = 0; i < kBlocks; ++i) set_bit(everything, i);
  pair.swarm.deliver({pair.a.id, pair.b.id, 1, Missing{xid, everything}, {}});
  EXPECT_EQ(sent, (Indices{4, 5}));
  const uint64_t before = pair.b.pairwise->block_tally().ignored_messages;
  const SharedBytes block = shared_copy(std::as_bytes(std::span(pair.a.params).first(16)));
  for (uint32_t i = 0; i < kBlocks; ++i) {
    if (i / 2 != 2) pair.swarm.deliver({pair.a.id, pair.b.id, 1, BlockPayload{xid, i, 0}, block});
  }
  EXPECT_EQ(pair.b.pairwise->block_tally().ignored_messages, before + 6);
}

}  // namespace
}  // namespace starling::exchange_test
