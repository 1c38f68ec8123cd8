// What goes wrong on the way: lost, late, doubled and reordered frames, members that die, pause or join.
#include <gtest/gtest.h>

#include <set>

#include "tests/gossip/group/group_rounds.h"

namespace starling::exchange_test {
namespace {

using std::chrono::seconds;

NetworkOptions bad_network(double loss) {
  return {.loss = loss, .doubled = 0.1, .control_min = milliseconds(1), .control_max = milliseconds(60)};
}

class GroupUnderLoss : public testing::TestWithParam<size_t> {};

TEST_P(GroupUnderLoss, RoundsGoOnNobodyWaitsForEverAndSpreadShrinks) {
  GroupSwarm swarm(GetParam(), {.deadline_max = milliseconds(100)}, GetParam());
  swarm.network.options = bad_network(0.3);
  swarm.randomize(GetParam());
  const double before = swarm.spread();
  swarm.run_freely(seconds(20));
  for (auto& [id, agent] : swarm.agents) {
    const BlockTally tally = agent->exchange->block_tally();
    EXPECT_GT(agent->exchange->counters().rounds, 80u);  // 30 ms + at most 200 ms each
    expect_adds_up(tally);
    // About 73 % arrive at all, some of these when everybody has gone on.
    EXPECT_GT(static_cast<double>(tally.counted), 0.4 * static_cast<double>(tally.due));
    EXPECT_GT(tally.missing, 0u);
    EXPECT_GT(tally.ignored_messages, 0u);  // the doubled ones
  }
  EXPECT_LE(swarm.longest, milliseconds(300));  // two deadlines, and one more for those behind
  EXPECT_LT(swarm.spread(), before / 100);
}

INSTANTIATE_TEST_SUITE_P(Sizes, GroupUnderLoss, testing::Values<size_t>(2, 3, 8, 16));

TEST(GroupFaults, TheSameSeedGivesTheSameRun) {
  const auto run = [](uint64_t rng_seed) {
    GroupSwarm swarm(7, {.inject_loss = 0.1}, rng_seed);
    swarm.network.options = bad_network(0.2);
    swarm.randomize(1);
    swarm.run_freely(seconds(5));
    return swarm.digest();
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(GroupFaults, NoPayloadIsKeptForLong) {
  GroupSwarm swarm(5, {});
  swarm.network.options = bad_network(0.3);
  swarm.randomize(1);
  for (int i = 0; i < 20; ++i) {
    swarm.run_freely(milliseconds(500));
    // Per agent its contributions, averages, early and late ones: each at most a model (16 blocks).
    EXPECT_LE(swarm.network.payloads_held(), 5u * 4 * 16);
  }
  swarm.network.clear();
  swarm.network.options = {};
  for (auto& [id, agent] : swarm.agents) agent->exchange->publish(nullptr);
  swarm.run_for(seconds(2));
  for (auto& [id, agent] : swarm.agents) EXPECT_TRUE(agent->exchange->idle());
}

// Members that own no block of a small model send each other nothing. That is no silence when one becomes an owner.
TEST(GroupFaults, AModelOfFewerBlocksThanMembersIsMixedInEachRound) {
  for (size_t params : {4, 12}) {  // 1 block, 3 blocks
    GroupSwarm swarm(4, {.params = params, .compute = milliseconds(60)});
    const Duration latency = milliseconds(50);
    swarm.network.options = {0, 0, latency, latency, latency, latency};
    swarm.randomize(1);
    swarm.run_freely(seconds(10));
    for (auto& [id, agent] : swarm.agents) {
      const BlockTally tally = agent->exchange->block_tally();
      EXPECT_GT(tally.due, 50u);
      EXPECT_GE(tally.counted + 2, tally.due) << tally.late << " late, " << tally.missing << " missing";  // at the end
    }
  }
}

// Nobody waits for who is known to be dead; its blocks are counted as lost with it. Here all the others are.
TEST(GroupFaults, MembersThatDieInARoundAreNotWaitedFor) {
  GroupSwarm swarm(4, {});
  swarm.randomize(2);
  for (auto& [id, agent] : swarm.agents) agent->boundary();
  swarm.network.clear();
  for (uint8_t tag = 1; tag <= 3; ++tag) EXPECT_TRUE(swarm.at(tag).exchange->under_way());
  swarm.run_for(milliseconds(50));
  for (uint8_t tag = 1; tag <= 3; ++tag) {
    for (uint8_t dead = 1; dead <= 4; ++dead) {
      if (dead != tag) swarm.at(tag).exchange->forget(test_peer(dead), kEveryLife);
    }
    swarm.at(tag).worker.run_completions();
    EXPECT_FALSE(swarm.at(tag).exchange->under_way());
    swarm.at(tag).apply();
    EXPECT_EQ(swarm.at(tag).reports.at(0).outcome, ExchangeOutcome::kFailed);
    EXPECT_EQ(swarm.at(tag).reports.at(0).duration, milliseconds(50));
    const BlockTally tally = swarm.at(tag).exchange->block_tally();
    EXPECT_EQ(tally.dead, 3u * 4 + 12);
    EXPECT_EQ(tally.due, tally.dead);
    EXPECT_TRUE(swarm.at(tag).exchange->idle());
  }
}

TEST(GroupFaults, TheOthersGoOnWithoutADeadMember) {
  GroupSwarm swarm(4, {});
  swarm.randomize(2);
  swarm.run_freely(milliseconds(500));
  swarm.at(4).paused = true;
  swarm.run_freely(seconds(1));  // its blocks are waited for
  const double rounds = static_cast<double>(swarm.at(1).exchange->counters().rounds_whole);
  for (uint8_t tag = 1; tag <= 3; ++tag) {
    swarm.at(tag).list.pop_back();  // the fourth
    swarm.at(tag).exchange->forget(test_peer(4), kEveryLife);
  }
  swarm.run_freely(seconds(1));
  EXPECT_GT(static_cast<double>(swarm.at(1).exchange->counters().rounds_whole), rounds + 15);
  swarm.agents.erase(test_peer(4));
  EXPECT_LT(swarm.spread(), 1e-5);
}

// The members learn of the joiner at different times: for a while two lists, two group ids, are in use.
TEST(GroupFaults, AJoinerChangesTheListMidRun) {
  GroupSwarm swarm(4, {});
  swarm.network.options = bad_network(0.05);
  swarm.randomize(3);
  swarm.run_freely(seconds(2));
  EXPECT_LT(swarm.spread(), 0.1);
  const uint64_t round_before = swarm.at(1).exchange->round();
  swarm.add(5).params.assign(64, 30);
  std::vector<PeerId> all;
  for (const auto& [id, agent] : swarm.agents) all.push_back(id);
  swarm.at(5).list = all;
  for (uint8_t tag = 1; tag <= 4; ++tag) {
    swarm.run_freely(milliseconds(333));
    swarm.at(tag).list = all;
  }
  swarm.run_freely(seconds(4));
  swarm.network.options = {};
  swarm.run_freely(seconds(2));
  EXPECT_LT(swarm.spread(), 1e-4);
  std::set<uint64_t> rounds;
  for (auto& [id, agent] : swarm.agents) {
    rounds.insert(agent->exchange->round());
    expect_adds_up(agent->exchange->block_tally());
    EXPECT_GT(agent->exchange->counters().rounds_whole, 10u);
  }
  EXPECT_GT(*rounds.begin(), round_before);  // the joiner counts with the others
  EXPECT_LE(*rounds.rbegin() - *rounds.begin(), 1u);
}

TEST(GroupFaults, WhoWasPausedJumpsToTheRoundOfTheOthers) {
  GroupSwarm swarm(5, {.deadline_max = milliseconds(50)});
  swarm.randomize(4);
  swarm.run_freely(seconds(1));
  swarm.at(2).paused = true;
  swarm.run_freely(seconds(3));
  swarm.at(2).params.assign(64, 20);
  EXPECT_GT(swarm.at(1).exchange->round(), swarm.at(2).exchange->round() + 10);
  swarm.at(2).paused = false;
  swarm.run_freely(seconds(2));
  const auto newest = static_cast<int64_t>(swarm.at(1).exchange->round());
  EXPECT_LE(std::abs(newest - static_cast<int64_t>(swarm.at(2).exchange->round())), 1);
  EXPECT_LT(swarm.spread(), 1e-4);
}

// It counted further elsewhere: as soon as it hears the others it falls back, instead of exchanging alone for ever.
TEST(GroupFaults, WhoIsFarAheadOfAllFallsBack) {
  GroupSwarm swarm(4, {.deadline_max = milliseconds(50)});
  auto snapshot = swarm.at(3).encode();
  snapshot->round = 1'000'000;
  swarm.at(3).exchange->publish(snapshot);
  EXPECT_TRUE(swarm.at(3).exchange->begin());
  EXPECT_EQ(swarm.at(3).exchange->round(), 1'000'000u);
  swarm.run_freely(seconds(2));
  for (auto& [id, agent] : swarm.agents) {
    EXPECT_LT(agent->exchange->round(), 100u);
    EXPECT_GT(agent->exchange->counters().rounds_whole, 10u);
  }
}

// A trainer five times as fast as the others stays with them: what it does meanwhile it says again.
TEST(GroupFaults, AFastMemberStaysWithTheGroup) {
  GroupSwarm swarm(4, {.deadline_max = milliseconds(60)});
  for (auto& [id, agent] : swarm.agents) agent->compute = milliseconds(300);
  swarm.at(1).compute = milliseconds(20);
  swarm.randomize(5);
  swarm.run_freely(seconds(20));
  EXPECT_LT(swarm.spread(), 0.01);
  EXPECT_LE(swarm.at(1).exchange->round(), swarm.at(2).exchange->round() + 1);
}

// Delays of 10 to 50 ms against a deadline that two fifths of them miss: all rounds end by it. Three of seven begin
// most of a round before the others. All the same they are in step soon; no more is missed than the links are late.
TEST(GroupFaults, WhereRoundsEndByTheDeadlineThoseAheadWaitForMost) {
  constexpr Duration kDeadline = milliseconds(34);
  GroupSwarm swarm(7, {.deadline_min = kDeadline, .deadline_max = kDeadline, .compute = milliseconds(20)});
  swarm.network.options = {.control_min = milliseconds(10), .control_max = milliseconds(50)};
  for (uint8_t tag = 1; tag <= 7; ++tag) {
    swarm.at(tag).next_boundary = swarm.clock.now() + milliseconds(tag <= 3 ? 0 : 75);
  }
  swarm.run_freely(seconds(1));
  const auto tally = [&] {
    BlockTally sum;
    for (auto& [id, agent] : swarm.agents) sum += agent->exchange->block_tally();
    return sum;
  };
  const BlockTally before = tally();
  swarm.run_freely(seconds(3));
  const BlockTally after = tally();
  EXPECT_GT(after.due - before.due, 3'000u);
  EXPECT_NEAR(static_cast<double>(after.counted - before.counted) / static_cast<double>(after.due - before.due), 0.6,
              0.03);
  EXPECT_LE(swarm.longest, 3 * kDeadline);
}

// Its deadlines all pass while it stands still: no round ends before its own blocks are averaged.
TEST(GroupFaults, WhoStoodStillAheadOfTheOthersAveragesBeforeItEnds) {
  GroupSwarm swarm(3, {.deadline_max = milliseconds(50)});
  swarm.round();
  GroupAgent& agent = swarm.at(1);
  ASSERT_TRUE(agent.boundary());
  swarm.network.clear();
  swarm.clock.advance(seconds(5));
  agent.exchange->tick();
  agent.worker.run_completions();
  EXPECT_TRUE(agent.exchange->under_way());
  EXPECT_LE(agent.exchange->next_deadline(), swarm.clock.now());
  agent.exchange->forget(test_peer(2), kEveryLife);
  agent.exchange->forget(test_peer(3), kEveryLife);
  agent.exchange->tick();
  agent.worker.run_completions();
  EXPECT_FALSE(agent.exchange->under_way());
  EXPECT_TRUE(agent.exchange->idle());
}

// The dead are in the list until the membership is sure. Meanwhile they cost one round its deadlines, not every round.
TEST(GroupFaults, OneThatFallsSilentIsWaitedForOnce) {
  GroupSwarm swarm(4,
                   {.deadline_min = milliseconds(50), .deadline_max = milliseconds(100), .compute = milliseconds(20)});
  swarm.run_freely(seconds(1));
  const uint64_t before = swarm.at(1).exchange->round();
  swarm.network.drop = [](const Flight& flight) { return flight.from == test_peer(4); };
  swarm.run_freely(seconds(1));
  const uint64_t without = swarm.at(1).exchange->round() - before;
  EXPECT_GT(without, before * 7 / 10);
  swarm.network.drop = nullptr;
  swarm.run_freely(seconds(1));  // back again: it counts again
  const uint64_t whole = swarm.at(1).exchange->counters().rounds_whole;
  swarm.run_freely(seconds(1));
  EXPECT_GT(swarm.at(1).exchange->counters().rounds_whole - whole, before / 2);
}

// The fourth sends nothing in time: what it owns in a round is averaged by nobody, but never the same for long.
TEST(GroupFaults, WhoIsNeverHeardKeepsNoBlockFromTheOthers) {
  GroupSwarm swarm(4, {.deadline_max = milliseconds(50)});
  swarm.network.drop = [](const Flight& flight) { return flight.from == test_peer(4); };
  swarm.randomize(9);
  for (int i = 0; i < 16; ++i) swarm.round();  // each of them owns every block for a while
  for (uint8_t tag = 2; tag <= 3; ++tag) {
    for (size_t i = 0; i < 64; ++i) EXPECT_NEAR(swarm.at(tag).params[i], swarm.at(1).params[i], 1e-5) << i;
  }
}

// It begins one round of the others' five, when their averages have been sent already, and takes these.
TEST(GroupFaults, ASlowMemberTakesTheAveragesOfTheRoundItJumpsTo) {
  GroupSwarm swarm(5, {.deadline_max = milliseconds(50)});
  for (uint8_t tag = 1; tag <= 4; ++tag) swarm.at(tag).params.assign(64, 3);
  swarm.round();
  for (int i = 0; i < 5; ++i) {
    for (uint8_t tag = 1; tag <= 4; ++tag) EXPECT_TRUE(swarm.at(tag).boundary());
    swarm.run_for(milliseconds(250));
    for (uint8_t tag = 1; tag <= 4; ++tag) swarm.at(tag).apply();
  }
  swarm.at(5).params.assign(64, 30);
  const BlockTally before = swarm.at(5).exchange->block_tally();
  EXPECT_TRUE(swarm.at(5).boundary());
  EXPECT_EQ(swarm.at(5).exchange->round(), swarm.at(1).exchange->round());
  swarm.run_for(milliseconds(250));
  swarm.at(5).apply();
  const BlockTally after = swarm.at(5).exchange->block_tally();
  EXPECT_EQ(after.averages_counted - before.averages_counted, 13u);  // all but the three it owns
  const float others = swarm.at(1).params[0];
  const auto taken = std::count_if(swarm.at(5).params.begin(), swarm.at(5).params.end(),
                                   [&](float x) { return std::abs(x - others) < 1e-4f; });
  EXPECT_EQ(taken, 13 * 4);
}

TEST(GroupFaults, DeadlinesFollowASlowerNetwork) {
  GroupSwarm swarm(4, {.deadline_min = milliseconds(5), .deadline_max = milliseconds(500)});
  for (int i = 0; i < 10; ++i) swarm.round();
  swarm.network.options = {.control_min = milliseconds(60), .control_max = milliseconds(60)};
  for (int i = 0; i < 30; ++i) {
    swarm.round();
    swarm.run_for(milliseconds(200));  // what is late arrives
  }
  const uint64_t whole = swarm.at(1).exchange->counters().rounds_whole;
  for (int i = 0; i < 10; ++i) swarm.round();
  EXPECT_EQ(swarm.at(1).exchange->counters().rounds_whole, whole + 10);
}

TEST(GroupFaults, CompletionsOfTheDeadTouchNothing) {
  GroupSwarm swarm(2, {.params = 8});
  GroupAgent& agent = swarm.at(1);
  LateWorker worker;
  const GroupOptions options{{.self = agent.id}};
  auto group = std::make_unique<Group>(options, 0, agent.layout, *agent.codec, worker, swarm.clock, agent.port, agent);
  group->publish(agent.encode());
  ASSERT_TRUE(group->begin());
  const uint64_t id = group_id(agent.group());
  const SharedBytes payload = shared_copy(std::vector<std::byte>(16));
  group->handle(test_peer(2), 1, RoundBlock{.group = id, .round = 1, .index = 0}, payload);
  group->handle(test_peer(2), 1, RoundBlock{.group = id, .round = 1, .phase = 1, .index = 1, .counted = 3}, payload);
  EXPECT_EQ(worker.waiting(), 2u);
  group.reset();
  worker.run_completions();
}

// Jobs that take longer than the deadlines: what came in time still counts.
TEST(GroupFaults, ASlowWorkerLosesNothing) {
  GroupSwarm swarm(2, {.params = 8, .deadline_max = milliseconds(50)});
  GroupAgent& agent = swarm.at(1);
  LateWorker worker;
  const GroupOptions options{{.self = agent.id, .deadline_max = milliseconds(50)}};
  Group group(options, 0, agent.layout, *agent.codec, worker, swarm.clock, agent.port, agent);
  group.publish(agent.encode());
  ASSERT_TRUE(group.begin());
  const uint64_t id = group_id(agent.group());
  const SharedBytes payload = shared_copy(std::vector<std::byte>(16));
  group.handle(test_peer(2), 1, RoundBlock{.group = id, .round = 1, .index = 0}, payload);
  group.handle(test_peer(2), 1, RoundBlock{.group = id, .round = 1, .phase = 1, .index = 1, .counted = 3}, payload);
  swarm.clock.advance(seconds(1));
  group.tick();
  EXPECT_TRUE(group.under_way());
  EXPECT_EQ(group.next_deadline(), TimePoint::max());  // nothing to do but to wait for the worker
  worker.run_completions();
  EXPECT_FALSE(group.under_way());
  EXPECT_TRUE(group.idle());
  EXPECT_EQ(group.take_reports().at(0).outcome, ExchangeOutcome::kDone);
}

}  // namespace
}  // namespace starling::exchange_test
