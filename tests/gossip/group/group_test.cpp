// The arithmetic of the group exchange, with known losses.
#include "gossip/group/group.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "gossip/limits.h"
#include "tests/gossip/group/group_rounds.h"

namespace starling::exchange_test {
namespace {

// Four members (tags 1-4 = ranks 0-3), four blocks of one param; member of rank r owns block r. Values 0, 3, 6, 12.
//   to the owners, lost: block 0 of rank 2; block 2 of ranks 0 and 3; block 3 of ranks 0, 1 and 2
//   averages: (0+3+12)/3 = 5, (0+3+6+12)/4 = 5.25, (3+6)/2 = 4.5, 12
//   back, lost: average 0 to rank 1, average 1 to rank 3, average 3 to rank 0: these keep 3, 12 and 0
TEST(Group, AveragesWhatArrivesAndKeepsItsOwnBlockWhereNothingComes) {
  GroupSwarm swarm(4, {.params = 4, .block_elements = 1});
  const float values[] = {0, 3, 6, 12};
  for (uint8_t tag = 1; tag <= 4; ++tag) swarm.at(tag).params.assign(4, values[tag - 1]);
  using Drop = std::tuple<int, int, int, int>;  // phase, block, from rank, to rank
  const std::set<Drop> drops = {{0, 0, 2, 0}, {0, 2, 0, 2}, {0, 2, 3, 2}, {0, 3, 0, 3}, {0, 3, 1, 3},
                                {0, 3, 2, 3}, {1, 0, 0, 1}, {1, 1, 1, 3}, {1, 3, 3, 0}};
  std::map<uint32_t, uint32_t> counted;
  swarm.network.drop = [&](const Flight& flight) {
    const RoundBlock& block = *round_block(flight);
    if (block.phase == 1) counted[block.index] = block.counted;
    return drops.contains(Drop{block.phase, block.index, flight.from.bytes[0] - 1, flight.to.bytes[0] - 1});
  };
  swarm.round();
  const float expected[4][4] = {{5, 5.25f, 4.5f, 0}, {3, 5.25f, 4.5f, 12}, {5, 5.25f, 4.5f, 12}, {5, 12, 4.5f, 12}};
  for (uint8_t tag = 1; tag <= 4; ++tag) {
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(swarm.at(tag).params[i], expected[tag - 1][i], 1e-5) << +tag << i;
  }
  EXPECT_EQ(counted, (std::map<uint32_t, uint32_t>{{0, 0b1011}, {1, 0b1111}, {2, 0b0110}, {3, 0b1000}}));

  const ExchangeReport& report = swarm.at(1).reports.at(0);
  EXPECT_EQ(report.outcome, ExchangeOutcome::kLate);
  EXPECT_EQ(report.blocks_mixed, 3u);
  EXPECT_EQ(report.blocks_total, 4u);
  EXPECT_EQ(report.payload_bytes_sent, 24u);      // three contributions and three averages
  EXPECT_EQ(report.payload_bytes_received, 16u);  // two of three, and two of three
  EXPECT_NEAR(report.distance, std::sqrt((5 * 5 + 5.25 * 5.25 + 4.5 * 4.5) / 3), 1e-5);
  EXPECT_TRUE(report.peer.is_zero());
  EXPECT_TRUE(report.initiated);

  // What is missing is known to be lost when the next round begins.
  swarm.network.drop = nullptr;
  swarm.round();
  uint64_t missing = 0;
  for (auto& [id, agent] : swarm.agents) {
    expect_adds_up(agent->exchange->block_tally());
    missing += agent->exchange->block_tally().missing;
    EXPECT_EQ(agent->exchange->counters().rounds, 2u);
    EXPECT_EQ(agent->exchange->block_tally().due, 12u);  // 3 + 3 a round
  }
  EXPECT_EQ(missing, drops.size());
}

class GroupSizes : public testing::TestWithParam<std::tuple<size_t, CodecKind>> {};

TEST_P(GroupSizes, WithoutLossEveryMemberHasTheExactMean) {
  const auto [n, codec] = GetParam();
  for (const size_t params : {size_t{1}, size_t{7}, size_t{64}, size_t{333}}) {
    GroupSwarm swarm(n, {.codec = codec, .params = params, .block_elements = 4}, n);
    swarm.randomize(n);
    std::vector<double> mean(params);
    for (auto& [id, agent] : swarm.agents) {
      for (size_t i = 0; i < params; ++i) mean[i] += static_cast<double>(agent->params[i]) / static_cast<double>(n);
    }
    swarm.round();
    const double tolerance = codec == CodecKind::kFp32 ? 4e-6 : 0.1;
    for (auto& [id, agent] : swarm.agents) {
      for (size_t i = 0; i < params; ++i) ASSERT_NEAR(static_cast<double>(agent->params[i]), mean[i], tolerance);
      EXPECT_EQ(agent->reports.at(0).outcome, ExchangeOutcome::kDone);
      EXPECT_LE(agent->reports.at(0).duration, milliseconds(20));  // two latencies
      EXPECT_TRUE(agent->exchange->idle());
      EXPECT_EQ(agent->exchange->next_deadline(), TimePoint::max());
      const BlockTally tally = agent->exchange->block_tally();
      EXPECT_EQ(agent->exchange->counters().rounds_whole, 1u);
      EXPECT_EQ(tally.due, tally.counted);
      EXPECT_EQ(tally.ignored_messages, 0u);
      expect_adds_up(tally);
    }
    EXPECT_EQ(swarm.network.payloads_held(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GroupSizes,
                         testing::Combine(testing::Range<size_t>(2, 17),
                                          testing::Values(CodecKind::kFp32, CodecKind::kBf16)));

TEST(Group, MassesAreWeightsAndNoneCountsMoreThanEightTimesTheMedian) {
  GroupSwarm swarm(3, {.params = 8, .block_elements = 4});
  const float values[] = {0, 4, 12};
  const double masses[] = {1, 2, 1};
  for (uint8_t tag = 1; tag <= 3; ++tag) {
    swarm.at(tag).params.assign(8, values[tag - 1]);
    swarm.at(tag).mass = masses[tag - 1];
  }
  swarm.round();
  for (auto& [id, agent] : swarm.agents) EXPECT_NEAR(agent->params[7], 5, 1e-5);  // (0 + 8 + 12) / 4

  for (uint8_t tag = 1; tag <= 3; ++tag) swarm.at(tag).params.assign(8, values[tag - 1]);
  swarm.at(2).mass = 1;
  swarm.at(3).mass = 1e9;
  swarm.round();
  for (auto& [id, agent] : swarm.agents) EXPECT_NEAR(agent->params[0], 10, 1e-5);  // (0 + 4 + 8 * 12) / 10
}

TEST(Group, TheOwnersOwnAverageIsTheBytesItSent) {
  GroupSwarm swarm(3, {.codec = CodecKind::kBf16, .params = 12, .block_elements = 4});
  swarm.randomize(3);
  std::map<uint32_t, SharedBytes> sent;
  swarm.network.watch = [&](const Flight& flight) {
    if (round_block(flight)->phase == 1) sent[round_block(flight)->index] = flight.payload;
  };
  for (auto& [id, agent] : swarm.agents) agent->boundary();
  swarm.run_for(milliseconds(100));
  for (auto& [id, agent] : swarm.agents) {
    const std::vector<Delta> deltas = agent->exchange->take_decided().deltas;
    ASSERT_EQ(deltas.size(), 1u);
    for (uint32_t i = 0; i < 3; ++i) {
      ASSERT_EQ(deltas[0].peer[i].size, sent[i].size);
      EXPECT_EQ(std::memcmp(deltas[0].peer[i].data, sent[i].data, sent[i].size), 0);
    }
  }
}

TEST(Group, StepsTakenMeanwhileAreKept) {
  GroupSwarm swarm(2, {.params = 8});
  swarm.at(1).params.assign(8, 1);
  swarm.at(2).params.assign(8, 3);
  for (auto& [id, agent] : swarm.agents) agent->boundary();
  for (float& x : swarm.at(1).params) x += 10;
  swarm.run_for(milliseconds(100));
  for (auto& [id, agent] : swarm.agents) agent->apply();
  EXPECT_EQ(swarm.at(1).params[0], 12);
  EXPECT_EQ(swarm.at(2).params[0], 2);
}

// Rank 1 sends block 0 so late that the owner (rank 0) has averaged without it; its next one is lost. The late one, 4,
// counts in round 2 beside the owner's 0: (0 + 4) / 2.
TEST(Group, ALateContributionCountsInTheNextRound) {
  GroupSwarm swarm(2, {.params = 2, .block_elements = 1, .deadline_max = milliseconds(50)});
  std::optional<Flight> delayed;
  swarm.network.drop = [&](const Flight& flight) {
    const RoundBlock& block = *round_block(flight);
    const bool ours = block.phase == 0 && block.index == 0;
    if (ours && !delayed) delayed = flight;
    return ours;
  };
  swarm.at(2).params.assign(2, 4);
  swarm.round();
  EXPECT_EQ(swarm.at(1).params[0], 0);
  EXPECT_EQ(swarm.at(1).params[1], 2);
  swarm.deliver(*delayed);
  const auto tally = [&] { return swarm.at(1).exchange->block_tally(); };
  EXPECT_EQ(tally().late, 1u);
  EXPECT_EQ(tally().old, 0u);
  EXPECT_EQ(tally().ignored_messages, 0u);
  swarm.at(2).params.assign(2, 100);
  swarm.round();
  EXPECT_EQ(tally().old, 1u);
  EXPECT_EQ(swarm.at(1).params[0], 2);
  swarm.round();
  EXPECT_EQ(tally().missing, 0u);  // in round 2 the late one counted; of round 3 it is not known yet
  swarm.round();
  EXPECT_EQ(tally().missing, 1u);
  EXPECT_EQ(tally().late, 1u);
  EXPECT_EQ(tally().old, 1u);  // once only
  expect_adds_up(tally());
}

TEST(Group, ALateContributionDoesNotCountBesideANewOneNorAfterTwoRounds) {
  for (const bool skip_a_round : {false, true}) {
    GroupSwarm swarm(2, {.params = 2, .block_elements = 1, .deadline_max = milliseconds(50)});
    std::optional<Flight> delayed;
    bool lossy = true;
    swarm.network.drop = [&](const Flight& flight) {
      const bool ours = round_block(flight)->phase == 0 && round_block(flight)->index == 0;
      if (ours && !delayed) delayed = flight;
      return ours && lossy;
    };
    swarm.at(2).params.assign(2, 4);
    swarm.round();
    swarm.deliver(*delayed);
    lossy = false;
    if (skip_a_round) {
      swarm.round();
      lossy = true;
      swarm.round();
    } else {
      swarm.round();
    }
    EXPECT_EQ(swarm.at(1).exchange->block_tally().old, 0u);
  }
}

// The contribution of the round before comes while the next round waits for the same sender.
TEST(Group, AContributionAWholeRoundLateStillCounts) {
  GroupSwarm swarm(2, {.params = 2, .block_elements = 1, .deadline_max = milliseconds(50)});
  std::optional<Flight> delayed;
  swarm.network.drop = [&](const Flight& flight) {
    const bool ours = round_block(flight)->phase == 0 && round_block(flight)->index == 0;
    if (ours && !delayed) delayed = flight;
    return ours;
  };
  swarm.at(2).params.assign(2, 4);
  swarm.round();
  for (auto& [id, agent] : swarm.agents) agent->boundary();
  swarm.deliver(*delayed);
  swarm.deliver(*delayed);  // the second time it is nothing new
  swarm.run_for(milliseconds(200));
  swarm.at(1).apply();
  EXPECT_EQ(swarm.at(1).params[0], 2);
  EXPECT_EQ(swarm.at(1).exchange->block_tally().old, 1u);
  EXPECT_EQ(swarm.at(1).exchange->block_tally().ignored_messages, 1u);
  expect_adds_up(swarm.at(1).exchange->block_tally());
}

TEST(Group, ALateAverageIsDroppedAndCounted) {
  GroupSwarm swarm(2, {.params = 2, .block_elements = 1, .deadline_max = milliseconds(50)});
  std::optional<Flight> delayed;
  swarm.network.drop = [&](const Flight& flight) {
    const bool it = round_block(flight)->phase == 1 && round_block(flight)->index == 0;
    if (it) delayed = flight;
    return it;
  };
  swarm.at(2).params.assign(2, 4);
  swarm.round();
  EXPECT_EQ(swarm.at(2).params[0], 4);
  EXPECT_EQ(swarm.at(2).reports.at(0).outcome, ExchangeOutcome::kLate);
  swarm.deliver(*delayed);
  swarm.at(2).apply();
  EXPECT_EQ(swarm.at(2).params[0], 4);
  EXPECT_EQ(swarm.at(2).exchange->block_tally().late, 1u);
  EXPECT_EQ(swarm.network.payloads_held(), 0u);
  expect_adds_up(swarm.at(2).exchange->block_tally());
}

TEST(Group, ARoundInWhichNothingComesFailsAndChangesNothing) {
  GroupSwarm swarm(3, {.params = 8});
  swarm.network.options.loss = 1;
  swarm.randomize(1);
  const std::vector<float> before = swarm.at(1).params;
  swarm.round();
  EXPECT_EQ(swarm.at(1).params, before);
  EXPECT_EQ(swarm.at(1).reports.at(0).outcome, ExchangeOutcome::kFailed);
  EXPECT_EQ(swarm.at(1).reports.at(0).blocks_mixed, 0u);
  EXPECT_LT(swarm.at(1).reports.at(0).distance, 0);
}

// Injected losses are known at once: nobody waits for what was dropped on purpose. Nearly as many as asked for.
TEST(Group, InjectedLossIsCountedAndNotWaitedFor) {
  GroupSwarm swarm(8, {.inject_loss = 0.3});
  swarm.randomize(1);
  const double before = swarm.spread();
  uint64_t due = 0, injected = 0;
  for (int i = 0; i < 40; ++i) swarm.round();
  for (auto& [id, agent] : swarm.agents) {
    const BlockTally tally = agent->exchange->block_tally();
    due += tally.due;
    injected += tally.injected;
    EXPECT_EQ(tally.missing + tally.late, 0u);
    expect_adds_up(tally);
    for (const ExchangeReport& report : agent->reports) EXPECT_EQ(report.duration, milliseconds(20));
  }
  EXPECT_EQ(due, 40u * 8 * 28);  // 7 peers x 2 own blocks, and 14 averages
  EXPECT_NEAR(static_cast<double>(injected) / static_cast<double>(due), 0.3, 0.02);
  EXPECT_LT(swarm.spread(), before / 1000);
}

TEST(Group, WithoutSnapshotOrMembersNothingBegins) {
  GroupSwarm swarm(2, {});
  GroupAgent& agent = swarm.at(1);
  EXPECT_FALSE(agent.exchange->begin());  // no snapshot
  agent.list = {agent.id};
  EXPECT_FALSE(agent.boundary());
  agent.list = {test_peer(2), test_peer(3)};
  EXPECT_FALSE(agent.boundary());  // not in it
  agent.list.clear();
  for (uint8_t tag = 1; tag <= kGroupMax + 1; ++tag) agent.list.push_back(test_peer(tag));
  EXPECT_FALSE(agent.boundary());
  EXPECT_TRUE(agent.exchange->idle());
  agent.list.pop_back();
  EXPECT_TRUE(agent.boundary());
  EXPECT_FALSE(agent.exchange->begin());  // under way
  EXPECT_TRUE(agent.exchange->under_way());
  EXPECT_FALSE(agent.exchange->idle());
}

TEST(Group, WhoSharesNothingMoreServesItsOpenRound) {
  GroupSwarm swarm(2, {.params = 8});
  swarm.at(2).params.assign(8, 2);
  for (auto& [id, agent] : swarm.agents) agent->boundary();
  swarm.at(1).exchange->publish(nullptr);
  swarm.run_for(milliseconds(100));
  for (auto& [id, agent] : swarm.agents) agent->apply();
  EXPECT_EQ(swarm.at(1).params[0], 1);
  EXPECT_EQ(swarm.at(2).params[7], 1);
  EXPECT_FALSE(swarm.at(1).exchange->begin());
  EXPECT_TRUE(swarm.at(1).exchange->idle());
}

// More blocks than the first credit: credits flow, and no more is in flight than they allow.
TEST(Group, LargeModelsFlowUnderCredits) {
  GroupSwarm swarm(3, {.params = 64 << 18, .block_elements = 1 << 18, .deadline_max = std::chrono::seconds(5)});
  swarm.at(3).params.assign(swarm.at(3).params.size(), 3);
  uint64_t credits = 0;
  swarm.network.drop = [&](const Flight& flight) {
    return is<RoundCredit>(flight) && ++credits % 3 == 0;  // those are said again
  };
  swarm.round();
  for (auto& [id, agent] : swarm.agents) {
    EXPECT_NEAR(agent->params.back(), 1, 1e-6);
    EXPECT_NEAR(agent->params.front(), 1, 1e-6);
    EXPECT_EQ(agent->reports.at(0).outcome, ExchangeOutcome::kDone);
  }
  EXPECT_GT(credits, 10u);
  EXPECT_LE(swarm.network.in_flight_bytes_max, 3 * 2 * kCreditBytes);  // per receiver and phase
}

TEST(Group, IdsOfListsDiffer) {
  const std::vector<Participant> two = {{test_peer(1), 1}, {test_peer(2), 1}};
  const std::vector<Participant> other = {{test_peer(1), 1}, {test_peer(3), 1}};
  const std::vector<Participant> heavier = {{test_peer(1), 1}, {test_peer(2), 5}};
  EXPECT_NE(group_id(two), group_id(other));
  EXPECT_EQ(group_id(two), group_id(heavier));
  EXPECT_NE(group_id({}), 0u);
}

}  // namespace
}  // namespace starling::exchange_test
