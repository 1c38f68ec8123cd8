// Pairs by turns: the payloads that an agent holds for exchanges that are not decided, own ones and received ones.
#include "gossip/pairs/sync_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <vector>

#include "tests/gossip/pairs/pair_harness.h"

namespace starling::exchange_test {
namespace {

using TurnAgent = TestAgentOf<SyncPairs>;
using TurnSwarm = TestSwarmOf<SyncPairs>;

constexpr size_t kPayload = 64 * sizeof(float);  // what an agent of the harness publishes: fp32
constexpr size_t kOfOneExchange = 2 * kPayload;  // its own payload and the peer's

// REQUIRES: nothing is on its way.
size_t held_by(TurnSwarm& swarm, TurnAgent& agent) {
  EXPECT_EQ(swarm.network.payload_bytes_in_flight(), 0u);
  return agent.published_bytes_held() + swarm.network.bytes_held_by(agent.id);
}

// Two exchanges in doubt, and what it offers next: however often the peer asks, and however long it owes a decision.
TEST(TurnMemory, OneThatNeverCommitsIsHeldTwoExchanges) {
  TurnSwarm swarm({});
  TurnAgent& agent = swarm.add(1);
  TurnAgent& owing = swarm.add(2);
  agent.boundary();
  owing.boundary();
  swarm.network.drop = [](const Flight& flight) { return is<Commit>(flight); };
  EXPECT_EQ(held_by(swarm, agent), kPayload);
  size_t most = 0;
  for (int i = 0; i < 300; ++i) {
    (void)owing.pairwise->propose(agent.id);
    swarm.run_for(milliseconds(45));
    owing.pump();
    most = std::max(most, held_by(swarm, agent));
  }
  EXPECT_EQ(most, 2 * kOfOneExchange + kPayload);
  EXPECT_EQ(held_by(swarm, owing), kPayload) << "who has decided holds nothing";
  swarm.run_for(std::chrono::seconds(10));
  EXPECT_EQ(agent.pairwise->pairs_status().doubts_parked, 2u);
  EXPECT_EQ(held_by(swarm, agent), 2 * kOfOneExchange + kPayload);
  swarm.network.drop = nullptr;
  swarm.run_for(std::chrono::seconds(60));
  agent.pump();
  EXPECT_EQ(held_by(swarm, agent), kPayload);
}

// Ids cost nothing, so there is a bound for all peers together: beyond it the oldest doubt is broken.
TEST(TurnMemory, ManyThatNeverCommitAreHeldABoundedNumberOfExchanges) {
  constexpr uint8_t kPeers = 40;
  TurnSwarm swarm({});
  TurnAgent& agent = swarm.add(1);
  agent.boundary();
  swarm.network.drop = [](const Flight& flight) { return is<Commit>(flight); };
  size_t most = 0;
  for (uint8_t tag = 2; tag < 2 + kPeers; ++tag) {
    TurnAgent& owing = swarm.add(tag);
    owing.boundary();
    for (int i = 0; i < 10; ++i) {  // longer than any is barred
      (void)owing.pairwise->propose(agent.id);
      swarm.run_for(std::chrono::seconds(1));
      owing.pump();
      most = std::max(most, held_by(swarm, agent));
    }
  }
  EXPECT_GT(agent.pairwise->counters().doubts_broken, 0u);
  EXPECT_LE(most, (kInDoubtMax + kParkedDoubtsMax) * kOfOneExchange + kPayload);
  EXPECT_GT(most, kParkedDoubtsMax * kOfOneExchange);
}

// Blocks come before the proposal that they belong to, and those of one that waits are held for it: for all together no
// more than so many bytes.
TEST(TurnMemory, BlocksThatComeEarlyAreBoundedInAll) {
  constexpr size_t kParams = TurnAdmission::kEagerBytesMax / sizeof(float);
  PairOf<SyncPairs> pair({.params = kParams, .block_elements = kParams});
  pair.publish();
  const std::vector<std::byte> block(TurnAdmission::kEagerBytesMax);
  for (uint8_t tag = 10; tag < 40; ++tag) {
    const BlockPayload first{.xid = {test_peer(tag), 1, 1}, .index = 0};
    pair.swarm.deliver({test_peer(tag), pair.b.id, 1, first, shared_copy(block)});
  }
  EXPECT_EQ(pair.swarm.network.bytes_held_by(pair.b.id), TurnAdmission::kEarlyBytesMax);
  pair.swarm.run_for(std::chrono::seconds(1));
  EXPECT_EQ(pair.swarm.network.bytes_held_by(pair.b.id), 0u) << "not for longer than the longest deadline";
}

// Lost frames keep exchanges open and in doubt for longer: within the same bounds, and nothing stays.
TEST(TurnMemory, LostFramesKeepNoPayloadForGood) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    TurnSwarm swarm({}, seed);
    Rng rng(seed);
    swarm.network.options.loss = 0.3;
    std::vector<TurnAgent*> agents;
    for (uint8_t tag = 1; tag <= 4; ++tag) agents.push_back(&swarm.add(tag));
    for (TurnAgent* agent : agents) agent->boundary();
    size_t most = 0;
    for (int beat = 0; beat < 2000; ++beat) {
      for (TurnAgent* agent : agents) (void)agent->pairwise->propose(agents[rng.below(4)]->id);
      swarm.run_for(milliseconds(10));
      if (swarm.network.payload_bytes_in_flight() > 0) continue;
      for (TurnAgent* agent : agents) most = std::max(most, held_by(swarm, *agent));
    }
    // In doubt, in an own exchange, asked by each of the three others, and what it offers next.
    EXPECT_LE(most, kInDoubtMax * kOfOneExchange + kPayload + 3 * kPayload + kPayload);
    EXPECT_GT(most, 2 * kOfOneExchange) << "hardly any was in doubt";
    std::printf("seed %llu: %.1f payloads at most\n", static_cast<unsigned long long>(seed),
                static_cast<double>(most) / kPayload);
    swarm.network.options.loss = 0;
    swarm.run_for(std::chrono::seconds(60));
    EXPECT_TRUE(swarm.all_idle());
    for (TurnAgent* agent : agents) {
      agent->pump();
      EXPECT_EQ(held_by(swarm, *agent), kPayload);
    }
  }
}

}  // namespace
}  // namespace starling::exchange_test
