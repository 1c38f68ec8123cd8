// Many agents over a bad network: the sum is conserved, nobody stays in doubt, all come together.
#include <gtest/gtest.h>

#include <cmath>
#include <type_traits>

#include "tests/gossip/pairs/pair_harness.h"

namespace starling::exchange_test {
namespace {

constexpr NetworkOptions kBadNetwork{.loss = 0.3,
                                     .doubled = 0.2,
                                     .control_min = milliseconds(1),
                                     .control_max = milliseconds(40),
                                     .bulk_min = milliseconds(1),
                                     .bulk_max = milliseconds(60)};

struct Totals { uint64_t applied = 0, failed = 0, late = 0; };

// Agent k has a boundary every k-th beat of 25 ms and then proposes to somebody. `step` is its local step. By turns it
// takes none while an exchange is under way; what else there is to an agent by turns, TestAgent::pump() does.
template <class E>
void train(TestSwarmOf<E>& swarm, int beats, Rng& rng,
           const std::function<void(std::type_identity_t<TestAgentOf<E>>&)>& step) {
  std::vector<TestAgentOf<E>*> agents;
  for (auto& [id, agent] : swarm.agents) agents.push_back(agent.get());
  for (int beat = 1; beat <= beats; ++beat) {
    for (size_t k = 0; k < agents.size(); ++k) {
      if (beat % static_cast<int>(k % 8 + 1) != 0) continue;
      if constexpr (std::is_same_v<E, SyncPairs>) {
        if (agents[k]->pairwise->under_way()) continue;  // its trainer waits
      }
      agents[k]->stepping = false;
      agents[k]->apply();
      if (step) step(*agents[k]);
      agents[k]->boundary();
      TestAgentOf<E>& other = *agents[rng.below(static_cast<uint32_t>(agents.size()))];
      if (&other != agents[k] && !agents[k]->pairwise->under_way()) agents[k]->pairwise->propose(other.id);
      if constexpr (std::is_same_v<E, SyncPairs>) {
        if (!agents[k]->pairwise->under_way() && rng.chance(0.5)) agents[k]->begin_steps();
      }
    }
    swarm.run_for(milliseconds(25));
  }
}

// The network recovers; within two of the longest pauses between repeats nothing may be left open.
Totals settle(auto& swarm) {
  swarm.network.options = {};
  swarm.run_for(std::chrono::seconds(60));
  Totals totals;
  for (auto& [id, agent] : swarm.agents) {
    EXPECT_TRUE(agent->pairwise->idle());
    EXPECT_FALSE(agent->pairwise->in_doubt());
    EXPECT_EQ(agent->pairwise->next_deadline(), TimePoint::max());
    agent->apply();
    const PairwiseCounters& counters = agent->pairwise->counters();
    totals.applied += counters.done + counters.late;
    totals.failed += counters.failed;
    totals.late += counters.late;
  }
  EXPECT_EQ(totals.applied % 2, 0u);  // both or neither
  EXPECT_EQ(swarm.network.payloads_held(), 0u);
  return totals;
}

double distance_rms(const auto& swarm) {
  const std::vector<double> sum = swarm.weighted_sum();
  double mass = 0, squares = 0;
  for (const auto& [id, agent] : swarm.agents) mass += agent->mass;
  for (const auto& [id, agent] : swarm.agents) {
    for (size_t i = 0; i < sum.size(); ++i) {
      const double d = static_cast<double>(agent->params[i]) - sum[i] / mass;
      squares += d * d;
    }
  }
  return std::sqrt(squares / static_cast<double>(sum.size() * swarm.agents.size()));
}

// On a grid every sum is exact in double: conservation to the last bit, local steps included. Equal masses,
// and shares that are powers of two: the deltas stay on the grid.
template <class E>
void conserve_on_a_grid(uint64_t seed, CodecKind codec = CodecKind::kModulo8, uint32_t fragments = 1) {
  PairAgentOptions options;
  options.codec = codec;
  options.fragments = fragments;
  if (fragments > 1) options.block_elements = 4;  // several blocks in each
  TestSwarmOf<E> swarm(options, seed);
  Rng rng(seed + 100);
  const auto whole = [&](int range) {
    return static_cast<float>(static_cast<int>(rng.below(static_cast<uint32_t>(2 * range + 1))) - range);
  };
  for (uint8_t tag = 1; tag <= 8; ++tag) {
    for (float& x : swarm.add(tag).params) x = whole(8);
  }
  std::vector<double> expected = swarm.weighted_sum();
  swarm.network.options = kBadNetwork;
  train(swarm, 1200, rng, [&](TestAgentOf<E>& agent) {
    for (size_t i = 0; i < agent.params.size(); ++i) {  // keeps them apart, and the steps on the grid coarse
      const float move = std::abs(agent.params[i]) < 32 ? whole(1) / 4 : 0;
      agent.params[i] += move;
      expected[i] += static_cast<double>(move);
    }
  });
  const Totals totals = settle(swarm);
  EXPECT_GT(totals.applied, 100u);
  EXPECT_GT(totals.late, 10u);
  EXPECT_GT(totals.failed, 20u);  // by turns most of what is lost is repeated in time
  EXPECT_EQ(swarm.weighted_sum(), expected);
}

template <class E>
void conserve_random_floats(uint64_t seed) {
  TestSwarmOf<E> swarm({}, seed);
  Rng rng(seed + 200);
  for (uint8_t tag = 1; tag <= 8; ++tag) {
    TestAgentOf<E>& agent = swarm.add(tag);
    agent.mass = 0.25 + 3 * rng.uniform();
    for (float& x : agent.params) x = static_cast<float>(2 * rng.uniform() - 1);
  }
  double norm = 0;
  for (const auto& [id, agent] : swarm.agents) {
    for (float x : agent->params) norm += std::pow(agent->mass * static_cast<double>(x), 2);
  }
  const std::vector<double> expected = swarm.weighted_sum();
  const double apart = distance_rms(swarm);
  swarm.network.options = kBadNetwork;
  train(swarm, 2400, rng, nullptr);
  const Totals totals = settle(swarm);
  EXPECT_GT(totals.applied, 300u);
  EXPECT_LT(distance_rms(swarm), 0.05 * apart);  // they do come together

  const std::vector<double> sum = swarm.weighted_sum();
  double error = 0;
  for (size_t i = 0; i < sum.size(); ++i) error += (sum[i] - expected[i]) * (sum[i] - expected[i]);
  EXPECT_LT(std::sqrt(error / norm), 1e-8 * std::sqrt(totals.applied));
}

// Agents cut off in the middle of everything wait, decide nothing alone, and finish when the link is back.
template <class E>
void end_all_doubts(uint64_t seed) {
  TestSwarmOf<E> swarm({}, seed);
  Rng rng(seed + 300);
  for (uint8_t tag = 1; tag <= 6; ++tag) {
    for (float& x : swarm.add(tag).params) x = static_cast<float>(rng.below(64));
  }
  const std::vector<double> expected = swarm.weighted_sum();
  bool was_in_doubt = false;
  for (int cut = 0; cut < 10; ++cut) {
    swarm.network.options = {.control_min = milliseconds(1), .control_max = milliseconds(30)};
    swarm.network.drop = nullptr;
    train(swarm, 10, rng, nullptr);
    swarm.network.drop = [](const Flight&) { return true; };
    swarm.network.clear();
    train(swarm, 200, rng, nullptr);  // five seconds of nothing but timeouts
    for (auto& [id, agent] : swarm.agents) was_in_doubt |= agent->pairwise->in_doubt();
  }
  swarm.network.drop = nullptr;
  EXPECT_TRUE(was_in_doubt);
  EXPECT_GT(settle(swarm).applied, 10u);
  const std::vector<double> sum = swarm.weighted_sum();
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i], expected[i], 1e-3);
}

// A member that replays, under its own name, all it could have overheard moves nobody else's exchange.
template <class E>
void withstand_an_eavesdropper(uint64_t seed) {
  TestSwarmOf<E> swarm({}, seed);
  Rng rng(seed + 400);
  for (uint8_t tag = 1; tag <= 4; ++tag) {
    for (float& x : swarm.add(tag).params) x = static_cast<float>(rng.below(64));
  }
  const std::vector<double> expected = swarm.weighted_sum();
  const PeerId eavesdropper = test_peer(99);
  std::vector<Flight> overheard;
  swarm.network.options = {.control_min = milliseconds(1), .control_max = milliseconds(30)};
  swarm.network.watch = [&](const Flight& flight) {
    if (flight.from == eavesdropper || flight.to == eavesdropper) return;
    overheard.push_back(flight);
    overheard.back().from = eavesdropper;
  };
  for (int i = 0; i < 150; ++i) {
    train(swarm, 2, rng, nullptr);
    rng.shuffle(overheard);
    for (Flight& flight : overheard) {
      if (rng.chance(0.5)) std::swap(flight.from, flight.to);
      if (flight.to == eavesdropper) flight.to = test_peer(static_cast<uint8_t>(1 + rng.below(4)));
      flight.from = eavesdropper;
      if (TestNetwork::decodes(flight)) {
        swarm.network.send(flight);
      } else {
        swarm.deliver(flight);  // the exchange must not depend on what the decoder refuses
      }
    }
    overheard.clear();
  }
  EXPECT_GT(settle(swarm).applied, 50u);
  const std::vector<double> sum = swarm.weighted_sum();
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i], expected[i], 1e-3);
}

class LossySwarm : public testing::TestWithParam<uint64_t> {};
class LossyTurns : public testing::TestWithParam<uint64_t> {};

TEST_P(LossySwarm, ConservesTheSumExactlyOnAGrid) { conserve_on_a_grid<AsyncPairs>(GetParam()); }
TEST_P(LossyTurns, ConservesTheSumExactlyOnAGrid) { conserve_on_a_grid<SyncPairs>(GetParam()); }
TEST_P(LossySwarm, InFragmentsTooTheSumIsExact) { conserve_on_a_grid<AsyncPairs>(GetParam(), CodecKind::kModulo4, 4); }
TEST_P(LossyTurns, InFragmentsTooTheSumIsExact) { conserve_on_a_grid<SyncPairs>(GetParam(), CodecKind::kModulo4, 4); }
TEST_P(LossySwarm, ConservesRandomFloatsOfDifferentMassesToRounding) { conserve_random_floats<AsyncPairs>(GetParam()); }
TEST_P(LossyTurns, ConservesRandomFloatsOfDifferentMassesToRounding) { conserve_random_floats<SyncPairs>(GetParam()); }
TEST_P(LossySwarm, NobodyStaysInDoubtOnceALongCutIsOver) { end_all_doubts<AsyncPairs>(GetParam()); }
TEST_P(LossyTurns, NobodyStaysInDoubtOnceALongCutIsOver) { end_all_doubts<SyncPairs>(GetParam()); }
TEST_P(LossySwarm, AnEavesdropperWhoRepliesDisturbsNobody) { withstand_an_eavesdropper<AsyncPairs>(GetParam()); }
TEST_P(LossyTurns, AnEavesdropperWhoRepliesDisturbsNobody) { withstand_an_eavesdropper<SyncPairs>(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Seeds, LossySwarm, testing::Values(1, 2, 3, 4));
INSTANTIATE_TEST_SUITE_P(Seeds, LossyTurns, testing::Values(1, 2, 3, 4));

// The same seed, the same run: nothing depends on addresses, hashes or the wall clock.
template <class E>
void repeat_a_run() {
  std::vector<std::vector<double>> results;
  for (int run = 0; run < 2; ++run) {
    TestSwarmOf<E> swarm({}, 5);
    Rng rng(6);
    for (uint8_t tag = 1; tag <= 8; ++tag) {
      for (float& x : swarm.add(tag).params) x = static_cast<float>(rng.uniform());
    }
    swarm.network.options = kBadNetwork;
    train(swarm, 100, rng, nullptr);
    std::vector<double> all;
    for (auto& [id, agent] : swarm.agents) all.insert(all.end(), agent->params.begin(), agent->params.end());
    results.push_back(all);
  }
  EXPECT_EQ(results[0], results[1]);
}
TEST(Swarm, IsDeterministic) { repeat_a_run<AsyncPairs>(); }
TEST(Swarm, ByTurnsIsDeterministic) { repeat_a_run<SyncPairs>(); }

}  // namespace
}  // namespace starling::exchange_test
