// Frames no honest member sends: each is counted and ignored, none is applied or kept.
#include <gtest/gtest.h>

#include <limits>

#include "tests/gossip/group/group_rounds.h"

namespace starling::exchange_test {
namespace {

// The victim is rank 0 of three; blocks 0, 3, 6, ... are its own, block 1 belongs to rank 1.
struct Victim {
  Victim() : swarm(3, {.params = 24}) {
    swarm.network.drop = [](const Flight&) { return true; };  // the others are played by hand
    EXPECT_TRUE(agent.boundary());
    id = group_id(agent.group());
  }
  uint64_t ignored() const { return agent.exchange->block_tally().ignored_messages; }
  void send(const RoundBlock& block, uint8_t from = 2, size_t bytes = 16) {
    swarm.deliver({test_peer(from), agent.id, 1, block, shared_copy(std::vector<std::byte>(bytes))});
  }
  void expect_ignored(const RoundBlock& block, uint8_t from = 2) {
    const uint64_t before = ignored();
    send(block, from);
    EXPECT_EQ(ignored(), before + 1);
    EXPECT_EQ(swarm.network.payloads_held(), 0u);
  }
  GroupSwarm swarm;
  GroupAgent& agent = swarm.at(1);
  uint64_t id = 0;
};

TEST(GroupHostile, WrongFramesAreCountedAndIgnored) {
  Victim victim;
  const RoundBlock contribution{.group = victim.id, .round = 1, .phase = 0, .index = 0};
  const RoundBlock average{.group = victim.id, .round = 1, .phase = 1, .index = 1, .counted = 0b111};
  const auto wrong = [](RoundBlock block, auto change) {
    change(block);
    return block;
  };
  victim.expect_ignored(contribution, 1);  // itself
  victim.expect_ignored(contribution, 9);  // not a member
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const RoundBlock& good : {contribution, average}) {
    victim.expect_ignored(wrong(good, [](RoundBlock& b) { b.group = 0; }));
    victim.expect_ignored(wrong(good, [](RoundBlock& b) { b.group ^= 1; }));
    victim.expect_ignored(wrong(good, [](RoundBlock& b) { b.round = 0; }));
    victim.expect_ignored(wrong(good, [](RoundBlock& b) { b.round = UINT64_MAX; }));
    victim.expect_ignored(wrong(good, [](RoundBlock& b) { b.phase = 2; }));
    victim.expect_ignored(wrong(good, [](RoundBlock& b) { b.phase ^= 1; }));  // then of another owner
    victim.expect_ignored(wrong(good, [](RoundBlock& b) { b.index = 2; }));   // of another owner
    victim.expect_ignored(wrong(good, [](RoundBlock& b) { b.index = 1000; }));
    victim.expect_ignored(wrong(good, [](RoundBlock& b) { b.index = UINT32_MAX; }));
    victim.expect_ignored(wrong(good, [](RoundBlock& b) { b.mass = -1; }));
    victim.expect_ignored(wrong(good, [&](RoundBlock& b) { b.mass = nan; }));
    victim.expect_ignored(wrong(good, [](RoundBlock& b) { b.counted ^= 0b1010; }));
  }
  victim.expect_ignored(wrong(average, [](RoundBlock& b) { b.counted = 0b101; }));  // not the owner's own
  victim.expect_ignored(average, 3);                                                // not its owner
  const uint64_t before = victim.ignored();
  victim.swarm.deliver({test_peer(2), victim.agent.id, 1, Query{}, {}});
  EXPECT_EQ(victim.ignored(), before + 1);

  victim.send(contribution);
  victim.send(average);
  EXPECT_EQ(victim.ignored(), before + 1);
  victim.send(contribution);
  victim.send(average);
  EXPECT_EQ(victim.ignored(), before + 3);  // twice
}

TEST(GroupHostile, BadPayloadsDoNotCount) {
  Victim victim;
  const RoundBlock contribution{.group = victim.id, .round = 1, .phase = 0, .index = 0};
  const RoundBlock average{.group = victim.id, .round = 1, .phase = 1, .index = 1, .counted = 0b11};
  victim.send(contribution, 2, 15);  // judged with its block
  victim.send(average, 2, 0);
  EXPECT_EQ(victim.agent.exchange->block_tally().refused, 1u);
  victim.send(contribution, 3, 17);  // too large for any payload; and the block is complete
  EXPECT_EQ(victim.agent.exchange->block_tally().refused, 3u);
  std::vector<std::byte> infinite(16, std::byte{0xFF});
  for (RoundBlock block : {contribution, average}) {
    block.index += 3;
    victim.swarm.deliver({test_peer(2), victim.agent.id, 1, block, shared_copy(infinite)});
  }
  EXPECT_EQ(victim.agent.exchange->block_tally().refused, 4u);  // the other one is judged with its block
  victim.swarm.run_for(std::chrono::seconds(2));
  EXPECT_EQ(victim.agent.exchange->block_tally().refused, 5u);
  EXPECT_EQ(victim.ignored(), 0u);
  victim.agent.apply();
  for (float x : victim.agent.params) EXPECT_EQ(x, 0);
  EXPECT_EQ(victim.swarm.network.payloads_held(), 0u);
}

// A member may say any round it likes: it moves nobody but itself.
TEST(GroupHostile, HugeRoundsDoNotMoveTheOthers) {
  Victim victim;
  for (const uint64_t round : {uint64_t{5}, uint64_t{1} << 40, uint64_t{1} << 62, UINT64_MAX - 1, UINT64_MAX}) {
    for (const uint32_t index : {0, 1, 2}) victim.send({.group = victim.id, .round = round, .index = index});
  }
  EXPECT_LE(victim.swarm.network.payloads_held(), 3u);  // of the newest round only
  victim.swarm.run_for(std::chrono::seconds(2));
  ASSERT_TRUE(victim.agent.boundary());
  EXPECT_EQ(victim.agent.exchange->round(), 2u);
}

// Blocks of a round to come are held for each sender within its first credit, whatever it says.
TEST(GroupHostile, EarlyBlocksAreBounded) {
  GroupSwarm swarm(3, {.params = 3 << 22, .block_elements = 1 << 17});  // 512 KiB each: 8 to a credit of two senders
  GroupAgent& victim = swarm.at(1);
  const uint64_t id = group_id(victim.group());
  const SharedBytes payload = shared_copy(std::vector<std::byte>(4 << 17));
  for (uint64_t round = 1; round <= 30; ++round) {
    for (uint32_t index = 0; index < victim.layout.blocks.size(); ++index) {
      for (const uint8_t phase : {0, 1}) {
        const RoundBlock block{.group = id, .round = round, .phase = phase, .index = index, .counted = phase * 7u};
        victim.exchange->handle(test_peer(2), 1, block, payload);
        victim.exchange->handle(test_peer(9), 1, block, payload);
      }
    }
  }
  EXPECT_EQ(payload.owner.use_count(), 1 + 2 * 8);  // each phase once
  victim.exchange->forget(test_peer(2), kEveryLife);
  EXPECT_EQ(payload.owner.use_count(), 1);
}

class GroupFuzzed : public testing::TestWithParam<uint64_t> {};

TEST_P(GroupFuzzed, NothingCrashesAndMemoryIsBounded) {
  GroupSwarm swarm(4, {.params = 64, .deadline_max = milliseconds(60)}, GetParam());
  GroupAgent& victim = swarm.at(1);
  Rng rng(GetParam());
  const uint64_t group = group_id(victim.group());
  victim.list.pop_back();
  const uint64_t other_group = group_id(victim.group());
  victim.list.push_back(test_peer(4));
  swarm.at(4).paused = true;
  const auto hostile = [&] {
    Flight flight{test_peer(static_cast<uint8_t>(3 + rng.below(3))), victim.id, 1, {}, {}};
    const uint64_t groups[] = {group, group, group, other_group, 0, rng.next_u64()};
    const uint64_t now = victim.exchange->round();
    const uint64_t rounds[] = {now, now, now, now + 1, now - 1, now + 2, rng.next_u64()};
    const uint64_t g = groups[rng.below(6)], r = rounds[rng.below(7)];
    const auto phase = static_cast<uint8_t>(rng.below(20) == 0 ? 2 : rng.below(2));
    if (rng.chance(0.3)) {
      flight.message = RoundCredit{g, r, phase, static_cast<uint32_t>(rng.next_u64())};
      return flight;
    }
    const double masses[] = {1, 1, 1, 1e12, 1e-12, 0, -1, std::numeric_limits<double>::infinity()};
    flight.message = RoundBlock{g, r, phase, rng.below(20), masses[rng.below(8)], phase * rng.below(32)};
    const size_t bytes = rng.chance(0.1) ? rng.below(100) : 16;
    const auto fill = static_cast<std::byte>(rng.chance(0.5) ? 0xFF : 0);  // not finite, or zeros
    flight.payload = shared_copy(std::vector<std::byte>(bytes, fill));
    return flight;
  };
  for (int i = 0; i < 20'000; ++i) {
    swarm.deliver(hostile());
    if (rng.chance(0.02)) swarm.run_freely(milliseconds(rng.below(50)));
    if (rng.chance(0.002)) victim.exchange->forget(test_peer(static_cast<uint8_t>(2 + rng.below(3))), kEveryLife);
    if (rng.chance(0.002) && victim.list.size() > 3) {
      victim.list.pop_back();
    } else if (rng.chance(0.01)) {
      victim.list = {test_peer(1), test_peer(2), test_peer(3), test_peer(4)};
    }
    ASSERT_LE(swarm.network.payloads_held(), 4u * 4 * 16);
  }
  for (float x : victim.params) ASSERT_EQ(x, 0);  // all that passed was zero
  EXPECT_GT(victim.exchange->counters().rounds, 30u);
  EXPECT_GT(victim.exchange->block_tally().refused, 20u);
  EXPECT_GT(victim.exchange->block_tally().ignored_messages, 1000u);
  expect_adds_up(victim.exchange->block_tally());

  // And it left the agent able to work.
  swarm.at(4).paused = false;
  swarm.network.clear();
  swarm.set_lists();
  swarm.run_freely(std::chrono::seconds(2));
  const uint64_t whole = victim.exchange->counters().rounds_whole;
  swarm.at(2).params.assign(64, 8);
  swarm.run_freely(std::chrono::seconds(1));
  EXPECT_GT(victim.exchange->counters().rounds_whole, whole + 10);
  EXPECT_NEAR(victim.params[0], 2, 1e-4);
  EXPECT_LT(swarm.spread(), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Seeds, GroupFuzzed, testing::Range<uint64_t>(1, 7));

}  // namespace
}  // namespace starling::exchange_test
