// The arithmetic and the patience of the neighborhood exchange.
#include "gossip/neighborhood/neighborhood.h"

#include <gtest/gtest.h>

#include "tests/gossip/neighborhood/neighbor_rounds.h"

namespace starling::exchange_test {
namespace {

using std::chrono::seconds;
using Ring = RoundSwarm<Neighborhood>;

// D-PSGD on f_i(x) = (x - t_i)^2 / 2 in twenty lines: x_i <- sum_j w_ij x_j, then a gradient step; ring of n.
std::vector<float> reference(size_t n, const std::vector<float>& targets, float rate, int rounds) {
  std::vector<float> x(n, 0.0f);
  for (int round = 0; round < rounds; ++round) {
    const std::vector<float> before = x;
    for (size_t i = 0; i < n; ++i) {
      std::vector<size_t> neighbors = {(i + n - 1) % n, (i + 1) % n};
      std::sort(neighbors.begin(), neighbors.end());
      neighbors.erase(std::unique(neighbors.begin(), neighbors.end()), neighbors.end());
      const auto w = static_cast<float>(1.0 / (1.0 + static_cast<double>(neighbors.size())));
      for (size_t j : neighbors) x[i] += w * (before[j] - before[i]);
      x[i] -= rate * (x[i] - targets[i]);
    }
  }
  return x;
}

TEST(Neighborhood, IsTextbookDpsgdBitForBit) {
  for (size_t n : {2, 3, 4, 7, 8}) {
    Ring swarm(n, {.params = 1, .block_elements = 1});
    std::vector<float> targets;
    for (size_t i = 0; i < n; ++i) targets.push_back(0.37f * static_cast<float>(i * i) - 1.9f);
    for (int round = 0; round < 50; ++round) {
      swarm.round();
      size_t i = 0;  // by id, which is by tag
      for (auto& [id, agent] : swarm.agents) {
        agent->params[0] -= 0.1f * (agent->params[0] - targets[i++]);
      }
    }
    const std::vector<float> expected = reference(n, targets, 0.1f, 50);
    size_t i = 0;
    for (auto& [id, agent] : swarm.agents) EXPECT_EQ(agent->params[0], expected[i++]) << n << " agents";
  }
}

TEST(Neighborhood, AMissingNeighborCountsWithItsLastPayloadAndThenNotAtAll) {
  Ring swarm(3, {.params = 1, .block_elements = 1, .deadline_max = milliseconds(50)});
  const auto set_all = [&] {
    for (uint8_t tag = 1; tag <= 3; ++tag) swarm.at(tag).params[0] = tag == 3 ? 30.0f : 0.0f;
  };
  set_all();
  swarm.round();
  EXPECT_FLOAT_EQ(swarm.at(1).params[0], 10);
  swarm.network.drop = [](const Flight& flight) { return flight.from == test_peer(3); };
  for (uint64_t round = 1; round <= Neighborhood::kAgeMax; ++round) {
    set_all();
    swarm.round();
    EXPECT_FLOAT_EQ(swarm.at(1).params[0], 10) << "the last payload counts in round " << round;
    EXPECT_EQ(swarm.at(1).reports.back().outcome, ExchangeOutcome::kLate);
  }
  set_all();
  swarm.round();
  EXPECT_FLOAT_EQ(swarm.at(1).params[0], 0) << "its weight stays with us";
  EXPECT_EQ(swarm.at(1).exchange->block_tally().missing, 1u);
  EXPECT_EQ(swarm.at(1).exchange->block_tally().old, Neighborhood::kAgeMax);
  EXPECT_EQ(swarm.at(1).reports.back().outcome, ExchangeOutcome::kFailed);
}

// D-PSGD on quadratics, 16 agents on a ring; 4 are always late, or never heard. How far the mean ends from the optimum.
double squared_bias(bool heard_late) {
  constexpr Duration kDeadline = milliseconds(15);
  Ring swarm(16, {.params = 1, .block_elements = 1, .deadline_min = kDeadline, .deadline_max = kDeadline});
  const auto is_late = [](const PeerId& id) { return id.bytes[0] % 4 == 0; };
  swarm.network.drop = [&](const Flight& flight) { return !heard_late && is_late(flight.from); };
  swarm.network.more_delay = [&](const Flight& flight) {
    return is_late(flight.from) ? milliseconds(10) : Duration::zero();
  };
  std::map<PeerId, float> target;
  double optimum = 0;
  for (auto& [id, agent] : swarm.agents) {
    target[id] = is_late(id) ? 4.0f : -1.0f;  // what they know matters
    optimum += static_cast<double>(target[id]) / 16;
  }
  double bias = 0;
  for (int round = 0; round < 600; ++round) {
    swarm.round();
    double mean = 0;
    for (auto& [id, agent] : swarm.agents) {
      agent->params[0] -= 0.05f * (agent->params[0] - target[id]);
      mean += static_cast<double>(agent->params[0]) / 16;
    }
    if (round >= 500) bias += (mean - optimum) / 100;
  }
  return bias * bias;
}

TEST(Neighborhood, WhoIsAlwaysLateIsHeardAllTheSame) {
  const double late = squared_bias(true), never = squared_bias(false);
  EXPECT_GT(never, 1e-2) << "weight to self: the mean leaves out what they know";
  EXPECT_LE(late, 1e-4 * never) << late << " against " << never;
}

TEST(Neighborhood, OneLostBlockCostsThatBlockOnly) {
  Ring swarm(3, {.params = 4, .block_elements = 1, .deadline_max = milliseconds(50)});
  for (uint8_t tag = 1; tag <= 3; ++tag) swarm.at(tag).params.assign(4, static_cast<float>(3 * tag));
  swarm.network.drop = [](const Flight& flight) {
    const auto* block = message_as<RoundBlock>(flight.message);
    return block && block->index == 2 && flight.from == test_peer(2) && flight.to == test_peer(1);
  };
  swarm.round();
  EXPECT_FLOAT_EQ(swarm.at(1).params[0], 6);
  EXPECT_FLOAT_EQ(swarm.at(1).params[2], 5);  // 3 + (9 - 3) / 3
  EXPECT_FLOAT_EQ(swarm.at(2).params[2], 6);
  EXPECT_EQ(swarm.at(1).reports[0].blocks_mixed, 3u);
}

// Nobody waits for the straggler: the others keep their pace, and it is drawn along by last payloads.
TEST(Neighborhood, AStragglerDoesNotSetThePace) {
  Ring swarm(8, {.deadline_min = milliseconds(1), .deadline_max = milliseconds(500), .compute = milliseconds(20)});
  swarm.network.options = {.control_min = milliseconds(1), .control_max = milliseconds(2)};
  swarm.at(4).compute = milliseconds(80);
  swarm.randomize(3);
  swarm.run_freely(seconds(10));  // the deadlines learn
  const uint64_t before = swarm.at(1).exchange->rounds();
  const uint64_t neighbor_before = swarm.at(3).exchange->rounds();
  swarm.run_freely(seconds(10));
  EXPECT_GT(swarm.at(1).exchange->rounds() - before, 420u);  // 10 s / 22 ms = 454
  EXPECT_GT(swarm.at(3).exchange->rounds() - neighbor_before, 420u);
  EXPECT_LT(swarm.spread(), 1e-3);
}

TEST(Neighborhood, NewcomersCatchUpWithWhoCountedAlone) {
  Ring swarm(5, {.deadline_max = milliseconds(500), .compute = milliseconds(10)});
  swarm.network.options = {.control_min = milliseconds(1), .control_max = milliseconds(3)};
  swarm.at(1).list = {test_peer(1)};
  for (uint8_t tag = 2; tag <= 5; ++tag) swarm.at(tag).paused = true;
  swarm.run_freely(seconds(3));  // its boundaries count on, there is nobody to exchange with
  EXPECT_GT(swarm.at(1).exchange->round(), 200u);
  for (uint8_t tag = 2; tag <= 5; ++tag) swarm.at(tag).paused = false;
  swarm.set_lists();
  swarm.randomize(8);
  swarm.run_freely(seconds(3));
  for (uint8_t tag = 1; tag <= 5; ++tag) {
    EXPECT_NEAR(static_cast<double>(swarm.at(tag).exchange->round()),
                static_cast<double>(swarm.at(1).exchange->round()), 3);
    EXPECT_EQ(swarm.at(tag).reports.back().outcome, ExchangeOutcome::kDone);
    EXPECT_LE(swarm.at(tag).reports.back().duration, milliseconds(30));
    EXPECT_GT(swarm.at(tag).exchange->rounds(), 150u);
  }
}

TEST(Neighborhood, CreditsCarryAModelLargerThanTheWindow) {
  RoundAgentOptions options{.params = 12 << 20, .block_elements = 1 << 18, .deadline_max = seconds(5)};
  Ring swarm(2, options);  // 48 blocks of 1 MiB against a window of 8
  for (float& x : swarm.at(2).params) x = 1;
  swarm.round(seconds(20));
  EXPECT_EQ(swarm.at(1).params.front(), 0.5f);
  EXPECT_EQ(swarm.at(1).params.back(), 0.5f);
  EXPECT_EQ(swarm.at(1).reports[0].outcome, ExchangeOutcome::kDone);
}

TEST(Neighborhood, GraphsThatChangeEveryRoundAgreeOnTheRound) {
  Ring swarm(9, {.topology = {.kind = TopologyKind::kMatching}, .compute = milliseconds(10)});
  swarm.network.options = {.control_min = milliseconds(1), .control_max = milliseconds(3)};
  swarm.randomize(5);
  const double before = swarm.spread();
  swarm.run_freely(seconds(5));
  EXPECT_LT(swarm.spread(), before / 1000);
}

// Beyond the largest number all blocks are ignored, for ever.
TEST(Neighborhood, ARoundThatNobodyReachesMovesNobody) {
  Ring swarm(3, {.params = 4, .block_elements = 2});
  swarm.round();
  auto& agent = swarm.at(1);
  const SharedBytes payload = SharedBytes::take(std::vector<std::byte>(8));
  for (const uint64_t round : {uint64_t{1} << 40, uint64_t{1} << 62}) {
    agent.exchange->handle(test_peer(2), 1, RoundBlock{0, round, 0, 0, 1, 0}, payload);
    agent.worker.run_completions();
  }
  for (int i = 0; i < 3; ++i) swarm.round();
  for (uint8_t tag = 1; tag <= 3; ++tag) EXPECT_EQ(swarm.at(tag).exchange->round(), 4u);
  EXPECT_EQ(swarm.at(3).reports.back().outcome, ExchangeOutcome::kDone) << "it hears both";
}

TEST(Neighborhood, StrangersWrongSizesAndOtherRoundsAreIgnored) {
  Ring swarm(3, {.params = 4, .block_elements = 2});
  Rng rng(9);
  auto& agent = swarm.at(1);
  const SharedBytes good = SharedBytes::copy_of(std::vector<std::byte>(8));
  for (int i = 0; i < 20000; ++i) {
    const RoundBlock block{
        rng.below(2), rng.next_u64() >> rng.below(64), static_cast<uint8_t>(rng.below(2)), rng.below(4), 1, 0};
    const SharedBytes payload = rng.below(2) ? good : SharedBytes::copy_of(std::vector<std::byte>(rng.below(20) + 1));
    agent.exchange->handle(test_peer(static_cast<uint8_t>(9 + rng.below(100))), 1, block, payload);
    agent.exchange->handle(test_peer(2), 1, RoundCredit{rng.below(2), rng.next_u64(), 0, rng.below(9)}, {});
    agent.worker.run_completions();
  }
  EXPECT_EQ(agent.exchange->block_tally().ignored_messages, 40000u);
  std::vector<std::byte> nan(8, std::byte{0xff});
  agent.exchange->handle(test_peer(2), 1, RoundBlock{0, 1, 0, 0, 1, 0}, SharedBytes::take(std::move(nan)));
  const SharedBytes short_one = SharedBytes::copy_of(std::vector<std::byte>(7));
  agent.exchange->handle(test_peer(2), 1, RoundBlock{0, 1, 0, 1, 1, 0}, short_one);
  agent.worker.run_completions();
  EXPECT_EQ(agent.exchange->block_tally().due, 0u);  // of no round yet
  swarm.round();
  for (float x : agent.params) EXPECT_EQ(x, 0);
  EXPECT_EQ(agent.exchange->block_tally().refused, 2u);
  EXPECT_EQ(agent.exchange->block_tally().counted, 2u);  // the other neighbor's
  expect_adds_up(agent.exchange->block_tally());
}

}  // namespace
}  // namespace starling::exchange_test
