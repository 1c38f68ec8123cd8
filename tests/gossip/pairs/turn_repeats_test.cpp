// Pairs by turns: what a lost or late message costs.
#include "gossip/pairs/sync_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/gossip/pairs/pair_harness.h"

namespace starling::exchange_test {
namespace {

using Turns = PairOf<SyncPairs>;

// On a link of 10 ms, whose round trips are known: a message is repeated after 25 ms, and the answer takes 20 more.
constexpr milliseconds kWithoutLoss{20}, kRepeatedAfter{25}, kRoundTrip{20};

template <typename Lost>
void expect_one_repeat() {
  Turns pair;
  for (int i = 0; i < 10; ++i) {  // the usual duration is known
    pair.publish();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(300));
  }
  std::fill(pair.a.params.begin(), pair.a.params.end(), 1.0f);
  std::fill(pair.b.params.begin(), pair.b.params.end(), 3.0f);
  pair.publish();
  pair.a.pairwise->take_reports();
  int lost = 0;
  pair.swarm.network.drop = [&](const Flight& flight) { return is<Lost>(flight) && lost++ == 0; };
  const TimePoint began = pair.swarm.clock.now();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  const auto under_way = [&] { return pair.a.pairwise->under_way() || pair.b.pairwise->under_way(); };
  while (under_way() && pair.swarm.clock.now() - began < milliseconds(2000)) pair.swarm.run_for(milliseconds(1));
  EXPECT_LE(pair.swarm.clock.now() - began, kWithoutLoss + kRepeatedAfter + kRoundTrip) << "far below any deadline";
  pair.swarm.run_for(milliseconds(300));
  EXPECT_EQ(lost > 0, true);
  expect_all(pair.a, 2);
  expect_all(pair.b, 2);
  EXPECT_EQ(pair.a.pairwise->counters().failed, 0u);
  EXPECT_TRUE(pair.swarm.all_idle());
}
TEST(SyncPairs, ALostProposeCostsOneRepeat) { expect_one_repeat<Propose>(); }
TEST(SyncPairs, ALostAcceptCostsOneRepeat) { expect_one_repeat<Accept>(); }
TEST(SyncPairs, ALostVoteCostsOneRepeat) { expect_one_repeat<Have>(); }
TEST(SyncPairs, ALostCommitCostsOneRepeat) { expect_one_repeat<Commit>(); }
TEST(SyncPairs, ALostBlockCostsOneRepeat) { expect_one_repeat<BlockPayload>(); }

// Of the acceptor's stream likewise, and of the last block, which no other follows.
TEST(SyncPairs, WhoeverLacksABlockAsksForIt) {
  for (const bool of_proposer : {true, false}) {
    Turns pair;
    pair.publish();
    int lost = 0, asked = 0;
    pair.swarm.network.drop = [&](const Flight& flight) {
      const BlockPayload* block = message_as<BlockPayload>(flight.message);
      return block != nullptr && block->index == 3 && (flight.from == pair.a.id) == of_proposer && lost++ == 0;
    };
    pair.swarm.network.watch = [&](const Flight& flight) { asked += is<Missing>(flight); };
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(300));
    expect_all(pair.a, 2);
    expect_all(pair.b, 2);
    EXPECT_EQ(asked, 1);
    EXPECT_EQ(pair.b.pairwise->counters().taken_back, 0u);
  }
}

// Ten exchanges, which take 220 ms, 200 of which are B's steps. Then the two hold 1 and 3.
void exchange_beside_steps(Turns& pair) {
  for (int i = 0; i < 10; ++i) {
    pair.publish();
    if (i > 0) pair.b.begin_steps();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(200));
    if (i > 0) pair.b.end_steps();
    pair.swarm.run_for(milliseconds(300));
  }
  std::fill(pair.a.params.begin(), pair.a.params.end(), 1.0f);
  std::fill(pair.b.params.begin(), pair.b.params.end(), 3.0f);
  pair.publish();
}

// How long exchanges take with all the waiting says nothing about how long an answer may take.
TEST(SyncPairs, ALostProposeIsRepeatedAfterARoundTrip) {
  Turns pair;
  ASSERT_NO_FATAL_FAILURE(exchange_beside_steps(pair));
  int lost = 0;
  pair.swarm.network.drop = [&](const Flight& flight) { return is<Propose>(flight) && lost++ == 0; };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(80));  // a round trip was 20 ms, and is taken for at most 20 * (17/16)^10 = 37
  expect_all(pair.a, 2);
  EXPECT_EQ(pair.a.pairwise->counters().failed, 0u);
}

// Waiting for the turn has one clock, the turn another that begins with its first sign: whoever answers late is not cut
// off in the middle, and whoever answers at once and is silent then is not waited for as long as for a turn.
TEST(SyncPairs, ATurnHasAClockOfItsOwn) {
  for (const bool late : {true, false}) {
    Turns pair;
    ASSERT_NO_FATAL_FAILURE(exchange_beside_steps(pair));  // a proposal waits for 500 ms then
    if (late) {
      pair.b.begin_steps();
      pair.swarm.network.more_delay = [](const Flight& flight) { return milliseconds(is<Have>(flight) ? 40 : 0); };
    } else {
      pair.swarm.network.drop = [&](const Flight& flight) { return flight.from == pair.b.id && !is<Accept>(flight); };
    }
    const TimePoint began = pair.swarm.clock.now();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    if (late) {
      pair.swarm.run_for(milliseconds(470));
      pair.b.end_steps();
      pair.b.pump();
    }
    const auto takes = [&] { return pair.swarm.clock.now() - began; };
    while (pair.a.pairwise->under_way() && takes() < milliseconds(2000)) pair.swarm.run_for(milliseconds(1));
    if (late) {
      EXPECT_GT(pair.swarm.clock.now() - began, milliseconds(500));
      EXPECT_EQ(pair.a.pairwise->counters().failed, 0u);
      expect_all(pair.a, 2);
    } else {
      EXPECT_LT(pair.swarm.clock.now() - began, milliseconds(250));
      EXPECT_EQ(pair.a.pairwise->counters().undecided, 1u);
    }
  }
}

// A turn usually takes no time, since the blocks are here. Where some are lost it takes a round trip more.
TEST(SyncPairs, ATurnHasTimeForARepeatOnALongLink) {
  Turns pair;
  pair.swarm.network.options = {.control_min = milliseconds(50),
                                .control_max = milliseconds(50),
                                .bulk_min = milliseconds(50),
                                .bulk_max = milliseconds(50)};
  for (int i = 0; i < 10; ++i) {
    pair.publish();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(600));
  }
  std::fill(pair.a.params.begin(), pair.a.params.end(), 1.0f);
  std::fill(pair.b.params.begin(), pair.b.params.end(), 3.0f);
  for (const bool of_proposer : {true, false}) {
    pair.publish();
    int lost = 0;
    pair.swarm.network.drop = [&](const Flight& flight) {
      return is<BlockPayload>(flight) && (flight.from == pair.a.id) == of_proposer && lost++ == 0;
    };
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(600));
    expect_all(pair.a, 2);
    expect_all(pair.b, 2);
    std::fill(pair.a.params.begin(), pair.a.params.end(), 1.0f);
    std::fill(pair.b.params.begin(), pair.b.params.end(), 3.0f);
  }
  EXPECT_EQ(pair.a.pairwise->counters().late + pair.a.pairwise->counters().failed, 0u);
}

// The question, or what answers it, may be lost as well. Of the last block, which no other overtakes, likewise.
TEST(SyncPairs, WhatIsLostAgainIsAskedForAgain) {
  for (const uint32_t index : {1u, 3u}) {
    for (const bool question : {true, false}) {
      Turns pair;
      pair.publish();
      int blocks = 0, questions = 0;
      pair.swarm.network.drop = [&](const Flight& flight) {
        if (is<Missing>(flight)) return question && questions++ == 0;
        const BlockPayload* block = message_as<BlockPayload>(flight.message);
        const bool its_turn = block != nullptr && block->index == index && flight.from == pair.a.id;
        return its_turn && blocks++ < (question ? 1 : 2);
      };
      ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
      pair.swarm.run_for(milliseconds(300));
      expect_all(pair.a, 2);
      expect_all(pair.b, 2);
      EXPECT_EQ(pair.b.pairwise->counters().taken_back, 0u);
    }
  }
}

// A block that never comes is asked for a few times. The others count.
TEST(SyncPairs, ABlockThatStaysLostIsAskedForAFewTimes) {
  Turns pair;
  pair.publish();
  int asked = 0;
  pair.swarm.network.drop = [&](const Flight& flight) {
    return is<BlockPayload>(flight) && message_as<BlockPayload>(flight.message)->index == 1;
  };
  pair.swarm.network.watch = [&](const Flight& flight) { asked += is<Missing>(flight); };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(2000));
  EXPECT_EQ(pair.a.params[0], 2);
  EXPECT_EQ(pair.a.params[16], 1);
  EXPECT_EQ(pair.b.params[16], 3);
  EXPECT_GE(asked, 2) << "each of the two";
  EXPECT_LE(asked, 6);
}

// A link that has become thin, or is busy with other blocks, loses none. Whoever waits for them asks for the last one
// alone, since those before it may be on their way as well. All of them, sent again, would fill the link for as long
// again, and the next exchange would find it full.
TEST(SyncPairs, BlocksThatAreLateAreNotSentAgain) {
  PairOf<SyncPairs> pair({.params = 256, .block_elements = 16});
  for (int i = 0; i < 10; ++i) {  // they are known to come without a gap
    pair.publish();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(300));
  }
  std::fill(pair.a.params.begin(), pair.a.params.end(), 1.0f);
  std::fill(pair.b.params.begin(), pair.b.params.end(), 3.0f);
  pair.publish();
  pair.swarm.network.options.bulk_min = pair.swarm.network.options.bulk_max = milliseconds(90);
  int sent = 0;
  pair.swarm.network.watch = [&](const Flight& flight) { sent += is<BlockPayload>(flight); };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(600));
  expect_all(pair.a, 2);
  expect_all(pair.b, 2);
  EXPECT_GT(sent, 2 * 16) << "they were late enough to be asked for";
  EXPECT_LE(sent, 2 * 16 + 6);
}

// Whoever asks again and again gets each block three times: a small message must not draw megabytes without end.
TEST(SyncPairs, BlocksAreSentAgainAFewTimes) {
  Turns pair;
  pair.publish();
  int sent = 0;
  pair.swarm.network.drop = [&](const Flight& flight) { return is<Have>(flight); };
  pair.swarm.network.watch = [&](const Flight& flight) {
    sent += is<BlockPayload>(flight) && flight.from == pair.a.id;
  };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  for (int i = 0; i < 20; ++i) {
    pair.swarm.run_for(milliseconds(5));
    pair.swarm.deliver({pair.b.id, pair.a.id, 1, Missing{{pair.a.id, 1, 1}, {0x0F}}, {}});
    pair.swarm.deliver({pair.b.id, pair.a.id, 1, Missing{{pair.a.id, 1, 1}, {0xFF, 0xFF}}, {}});
  }
  EXPECT_EQ(sent, 4 + 3 * 4);
}

}  // namespace
}  // namespace starling::exchange_test
