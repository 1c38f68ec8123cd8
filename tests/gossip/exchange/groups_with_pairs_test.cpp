// Groups joined by pairs: a proposal is served whatever the acceptor's group does meanwhile, and both halves are
// applied or neither.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "tests/gossip/exchange/round_harness.h"
#include "tests/support/seeds.h"

namespace starling::exchange_test {
namespace {

using JoinedGroups = RoundSwarm<GroupsWithPairs>;

bool of_pair(const Delta& delta) { return delta.coefficient != 1; }   // a group's average replaces the own block

// What pairs moved, by agent: the number of deltas, and the sum over all agents, element by element.
struct PairMoves {
  explicit PairMoves(JoinedGroups& swarm) {
    for (auto& [id, agent] : swarm.agents) {
      total.assign(agent->params.size(), 0);
      agent->on_applied = [this, a = agent.get()](const Delta& delta, const std::vector<float>& before) {
        if (!of_pair(delta)) return;
        ++deltas[a->id];
        for (size_t i = 0; i < before.size(); ++i) {
          total[i] += a->mass * (static_cast<double>(a->params[i]) - static_cast<double>(before[i]));
        }
      };
    }
  }
  size_t count() const {
    size_t sum = 0;
    for (const auto& [id, n] : deltas) sum += n;
    return sum;
  }
  std::map<PeerId, size_t> deltas;
  std::vector<double> total;
};

// Agents 1 and 2 are in a round of pairs while 3 and 4 are in a round of their group.
TEST(GroupsWithPairs, AProposalServedFromTheGroupsSnapshotSurvivesTheNextBoundary) {
  JoinedGroups swarm(4, {.group_size = 2, .pairs_every = 3});
  swarm.randomize(1);
  PairMoves moves(swarm);
  for (int round = 0; round < 2; ++round) {
    for (uint8_t tag : {1, 2}) ASSERT_TRUE(swarm.at(tag).boundary());
    swarm.run_for(std::chrono::seconds(1));
  }
  for (uint8_t tag : {3, 4}) ASSERT_TRUE(swarm.at(tag).boundary());
  swarm.network.drop = [](const Flight& flight) { return is<Commit>(flight); };
  ASSERT_TRUE(swarm.at(1).boundary());
  swarm.run_for(milliseconds(150));
  for (uint8_t tag : {3, 4}) ASSERT_TRUE(swarm.at(tag).boundary());   // one of them is in doubt
  swarm.run_for(milliseconds(150));
  EXPECT_EQ(swarm.at(3).exchange->idle() + swarm.at(4).exchange->idle(), 1);
  swarm.network.drop = nullptr;
  swarm.run_for(std::chrono::seconds(3));
  for (auto& [id, agent] : swarm.agents) {
    EXPECT_TRUE(agent->exchange->idle());
    agent->apply();
  }
  EXPECT_EQ(moves.deltas[test_peer(1)], 1u);
  EXPECT_EQ(moves.deltas[test_peer(3)] + moves.deltas[test_peer(4)], 1u);
  for (double moved : moves.total) EXPECT_NEAR(moved, 0, 1e-5);
}

// The group's average replaces this agent's deviation, so a pair may take the snapshot whole. A second one must not.
TEST(GroupsWithPairs, AGroupsSnapshotServesOneForeignProposalWholeAndTellsTheNextWhen) {
  JoinedGroups swarm(4, {.group_size = 2, .pairs_every = 3});
  std::vector<double> offers;
  std::vector<Duration> busy;
  swarm.network.watch = [&](const Flight& flight) {
    const Accept* accept = message_as<Accept>(flight.message);
    const Busy* told = message_as<Busy>(flight.message);
    if (accept != nullptr) offers.push_back(accept->offer);
    if (told != nullptr) busy.push_back(milliseconds(told->free_in_ms));
    EXPECT_FALSE(is<Propose>(flight)) << "not in rounds of the group";
  };
  for (int round = 0; round < 2; ++round) {
    for (uint8_t tag : {3, 4}) ASSERT_TRUE(swarm.at(tag).boundary());
    for (uint8_t other : {9, 8}) {
      const Propose propose{.xid = {test_peer(other), 1, round + 1u}, .deadline_ms = 500, .credit = 4};
      swarm.deliver({test_peer(other), test_peer(3), 1, propose, {}});
      swarm.run_for(milliseconds(20));
    }
    swarm.run_for(milliseconds(60));   // the blocks of the strangers never come
  }
  EXPECT_EQ(offers, (std::vector<double>{1, 1}));
  ASSERT_EQ(busy.size(), 2u);
  EXPECT_EQ(busy.back(), milliseconds(80)) << "rounds take 100 ms, and 20 have passed";
}

// A proposal that comes while the next snapshot is being encoded waits for it.
TEST(GroupsWithPairs, RetractLetsAProposalWaitForTheNextSnapshot) {
  JoinedGroups swarm(4, {.group_size = 2, .pairs_every = 3});
  PairMoves moves(swarm);
  for (int round = 0; round < 2; ++round) {
    for (uint8_t tag : {1, 2}) ASSERT_TRUE(swarm.at(tag).boundary());
    swarm.run_for(std::chrono::seconds(1));
  }
  for (uint8_t tag : {3, 4}) ASSERT_TRUE(swarm.at(tag).boundary());
  swarm.run_for(std::chrono::seconds(1));
  for (uint8_t tag : {3, 4}) swarm.at(tag).exchange->retract();
  ASSERT_TRUE(swarm.at(1).boundary());
  swarm.run_for(milliseconds(20));
  for (uint8_t tag : {3, 4}) swarm.at(tag).exchange->publish(swarm.at(tag).encode());
  swarm.run_for(std::chrono::seconds(1));
  for (auto& [id, agent] : swarm.agents) agent->apply();
  EXPECT_EQ(moves.deltas[test_peer(1)], 1u);
  EXPECT_EQ(moves.count(), 2u);
}

// Averages over arrivals do not conserve the sum when frames are lost; pairs must, also those that a group's snapshot
// served.
TEST(GroupsWithPairs, PairsConserveTheSumUnderLoss) {
  for (uint64_t rng_seed = 1; rng_seed <= seed_count(4); ++rng_seed) {
    JoinedGroups swarm(12, {.deadline_max = milliseconds(100), .group_size = 4, .compute = milliseconds(10)}, rng_seed);
    swarm.network.options = {.loss = 0.2, .doubled = 0.1, .control_min = milliseconds(1),
                             .control_max = milliseconds(15), .bulk_min = milliseconds(1),
                             .bulk_max = milliseconds(15)};
    swarm.randomize(rng_seed);
    PairMoves moves(swarm);
    Rng rng(rng_seed);
    for (auto& [id, agent] : swarm.agents) {
      agent->mass = 0.5 + rng.uniform();
      agent->local_step = [&rng](auto& a) {
        for (float& x : a.params) x += static_cast<float>(rng.uniform() - 0.5);
      };
    }
    swarm.run_freely(std::chrono::seconds(20));
    swarm.network.options = {};
    for (auto& [id, agent] : swarm.agents) agent->exchange->publish(nullptr);
    swarm.run_for(std::chrono::seconds(60));
    for (auto& [id, agent] : swarm.agents) {
      EXPECT_TRUE(agent->exchange->idle());
      agent->apply();
    }
    EXPECT_GT(moves.count(), 300u);
    EXPECT_EQ(moves.count() % 2, 0u);
    for (double moved : moves.total) EXPECT_NEAR(moved, 0, 1e-3) << "seed " << rng_seed;
  }
}

// In a round of pairs there is no average, so the snapshot serves two, of whom this agent may be one.
TEST(GroupsWithPairs, ARoundOfPairsServesTwoExchangesWhole) {
  JoinedGroups swarm(4, {.group_size = 2, .pairs_every = 3});
  for (int round = 0; round < 2; ++round) {
    for (uint8_t tag : {1, 2, 3, 4}) ASSERT_TRUE(swarm.at(tag).boundary());
    swarm.run_for(std::chrono::seconds(1));
  }
  const PeerId self = test_peer(1);
  std::vector<double> offers;
  uint64_t busy = 0;
  swarm.network.watch = [&](const Flight& flight) {
    if (flight.from != self) return;
    if (const Accept* accept = message_as<Accept>(flight.message)) offers.push_back(accept->offer);
    if (const Propose* propose = message_as<Propose>(flight.message)) offers.push_back(propose->offer);
    busy += is<Busy>(flight);
  };
  ASSERT_TRUE(swarm.at(1).boundary());
  for (uint8_t other : {9, 8}) {
    swarm.deliver({test_peer(other), self, 1, Propose{.xid = {test_peer(other), 1, 1}, .deadline_ms = 500, .credit = 4},
                   {}});
  }
  EXPECT_EQ(offers, (std::vector<double>{1, 1}));
  EXPECT_EQ(busy, 1u);
}

struct Mixing {
  double apart = 0;   // rms of what the groups' means are away from the mean of all, at the boundaries of one agent
  double gain = 0;    // mean over the pair exchanges
  double farthest = 0;   // of any agent from 0, at the end
  uint64_t rounds = 0;
};

// Groups that pull to -1 and 1 in turns. Each begins so many rounds late and takes so many times as long to compute.
struct Groups {
  size_t size = 4;
  std::vector<double> late_rounds{0, 0};   // by group
  int slower = 1;                          // those that pull to 1
};

Mixing mix(const Groups& groups) {
  constexpr Duration kRound = milliseconds(18);   // 10 ms of steps, two phases of 4 ms
  const size_t count = groups.late_rounds.size();
  JoinedGroups swarm(count * groups.size, {.params = 32, .far = GroupGuard::kFarOfFew, .group_size = groups.size,
                                           .pairs_every = 8, .compute = milliseconds(10)});
  swarm.network.options = {.control_min = milliseconds(4), .control_max = milliseconds(4), .bulk_min = milliseconds(4),
                           .bulk_max = milliseconds(4)};
  Mixing mixing;
  const auto group_of = [&](const auto& agent) { return (agent.id.bytes[0] - 1u) / groups.size; };
  for (auto& [id, agent] : swarm.agents) {
    const bool second = group_of(*agent) % 2 == 1;
    const float target = second ? 1.0f : -1.0f;
    agent->next_boundary = swarm.clock.now() + from_seconds(groups.late_rounds[group_of(*agent)] * seconds(kRound));
    agent->local_step = [target](auto& a) {
      for (float& x : a.params) x += 0.05f * (target - x);
    };
    if (second) agent->compute *= groups.slower;
  }
  const auto squares_apart = [&] {
    std::vector<double> means(count);
    double all = 0;
    for (auto& [id, agent] : swarm.agents) {
      means[group_of(*agent)] += static_cast<double>(agent->params[0]) / static_cast<double>(groups.size);
    }
    for (double mean : means) all += mean / static_cast<double>(count);
    double squares = 0;
    for (double mean : means) squares += std::pow(mean - all, 2) / static_cast<double>(count);
    return squares;
  };
  swarm.run_freely(std::chrono::seconds(5));
  size_t samples = 0;
  const auto step = swarm.at(1).local_step;
  swarm.at(1).local_step = [&](auto& a) {
    mixing.apart += squares_apart();
    ++samples;
    step(a);
  };
  swarm.run_freely(std::chrono::seconds(20));
  mixing.apart = std::sqrt(mixing.apart / static_cast<double>(samples));
  PairwiseCounters pairs;
  for (auto& [id, agent] : swarm.agents) {
    mixing.rounds += agent->reports.size();
    mixing.farthest = std::max(mixing.farthest, static_cast<double>(std::abs(agent->params[0])));
    const PairwiseCounters own = agent->exchange->status().pairs;
    pairs.done += own.done + own.late;
    pairs.gain_permille += own.gain_permille;
  }
  mixing.gain = static_cast<double>(pairs.gain_permille) / (1000 * static_cast<double>(pairs.done));
  return mixing;
}

// Groups in step are in their rounds of pairs at once, so each agent may take part in two exchanges. Between groups out
// of step only one of the two sides is in one. Served by nobody, two groups would be 1 away from their mean.
TEST(GroupsWithPairs, GroupsOutOfStepMixToo) {
  const Mixing in_step = mix({});
  EXPECT_LT(in_step.apart, 0.175);
  EXPECT_EQ(in_step.gain, 1);
  for (const double late_rounds : {2.5, 4.0, 6.0}) {
    const Mixing late = mix({.late_rounds = {0, late_rounds}});
    std::printf("%.1f rounds late: groups apart by %.3f (in step %.3f), gain %.2f (%.2f), %llu reports (%llu)\n",
                late_rounds, late.apart, in_step.apart, late.gain, in_step.gain,
                static_cast<unsigned long long>(late.rounds), static_cast<unsigned long long>(in_step.rounds));
    EXPECT_EQ(late.gain, 1) << "no round of pairs meets one of the others";
    EXPECT_LT(late.apart, 0.25) << late_rounds;
    EXPECT_GT(static_cast<double>(late.rounds), 0.95 * static_cast<double>(in_step.rounds)) << late_rounds;
  }
}

// Of many groups, some are always in a round of their own.
TEST(GroupsWithPairs, ManyGroupsOutOfStepMixAsInStep) {
  constexpr double kLate[] = {0, 2.5, 4, 6};
  Groups groups{.size = 8, .late_rounds = {0, 0, 0, 0}};
  const Mixing in_step = mix(groups);
  const auto expect_the_same = [&](const std::string& what) {
    const Mixing late = mix(groups);
    std::printf("%s: apart by %.3f (in step %.3f), %llu reports (%llu)\n", what.c_str(), late.apart, in_step.apart,
                static_cast<unsigned long long>(late.rounds), static_cast<unsigned long long>(in_step.rounds));
    EXPECT_LT(late.apart, 1.15 * in_step.apart) << what;
    EXPECT_GT(static_cast<double>(late.rounds), 0.95 * static_cast<double>(in_step.rounds)) << what;
  };
  for (size_t i = 1; i < std::min<size_t>(4, seed_count(4)); ++i) {   // none of these under sanitizers
    groups.late_rounds = {0, kLate[i], 0, kLate[i]};
    expect_the_same(std::to_string(kLate[i]) + " rounds late");
  }
  groups.late_rounds.assign(std::begin(kLate), std::end(kLate));
  expect_the_same("each another time late");
}

// Exchanges at full weight of snapshots that became old would throw agents beyond what anybody pulls to.
TEST(GroupsWithPairs, AGroupEightTimesSlowerThrowsNobodyOut) {
  for (const int slower : {2, 8}) {
    const Mixing mixing = mix({.late_rounds = {0, 2.5}, .slower = slower});
    std::printf("%d times slower: groups apart by %.3f, gain %.2f, the farthest at %.3f\n", slower, mixing.apart,
                mixing.gain, mixing.farthest);
    EXPECT_LT(mixing.farthest, 1);
    EXPECT_LT(mixing.apart, 1);
  }
}

}  // namespace
}  // namespace starling::exchange_test
