// What goes wrong on the way: lost, late and damaged messages, peers that restart, late completions.
#include <gtest/gtest.h>

#include <limits>

#include "gossip/limits.h"
#include "tests/gossip/pairs/pair_harness.h"

namespace starling::exchange_test {
namespace {

TEST(PairwiseFaults, LostBlocksLeaveTheExchangeAndTheOthersMix) {
  Pair pair;
  pair.swarm.network.drop = [&](const Flight& flight) {
    if (!is<BlockPayload>(flight)) return false;
    const uint32_t index = message_as<BlockPayload>(flight.message)->index;
    return index == (flight.from == pair.a.id ? 1u : 2u);
  };
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(1000));
  for (TestAgent* agent : {&pair.a, &pair.b}) {
    const ExchangeReport report = only_report(*agent);
    EXPECT_EQ(report.outcome, ExchangeOutcome::kLate);
    EXPECT_EQ(report.blocks_mixed, 2u);
    agent->apply();
    EXPECT_EQ(agent->params[0], 2);
    EXPECT_EQ(agent->params[16], agent == &pair.a ? 1 : 3);
    EXPECT_EQ(agent->params[32], agent == &pair.a ? 1 : 3);
    EXPECT_EQ(agent->params[48], 2);
  }
}

TEST(PairwiseFaults, APartnerSlowerThanTheDeadlineCostsNothing) {
  PairAgentOptions options;
  options.deadline_max = milliseconds(100);
  Pair pair(options);
  pair.swarm.network.options = {.control_min = milliseconds(60),
                                .control_max = milliseconds(60),
                                .bulk_min = milliseconds(60),
                                .bulk_max = milliseconds(60)};
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(2000));
  EXPECT_TRUE(pair.swarm.all_idle());
  EXPECT_EQ(only_report(pair.a).outcome, ExchangeOutcome::kFailed);
  EXPECT_EQ(only_report(pair.b).outcome, ExchangeOutcome::kFailed);
  EXPECT_EQ(pair.a.apply() + pair.b.apply(), 0u);
}

TEST(PairwiseFaults, WhatComesTooLateMovesTheDeadline) {
  Pair pair;
  const auto meet = [&](int times) {
    const uint64_t before = pair.a.pairwise->counters().done;
    for (int i = 0; i < times; ++i) {
      pair.publish();
      EXPECT_TRUE(pair.a.pairwise->propose(pair.b.id));
      pair.swarm.run_for(milliseconds(300));
    }
    return pair.a.pairwise->counters().done - before;
  };
  EXPECT_EQ(meet(20), 20u);  // 20 ms each: waits 28 ms from then on
  pair.swarm.network.options = {.control_min = milliseconds(20),
                                .control_max = milliseconds(20),
                                .bulk_min = milliseconds(20),
                                .bulk_max = milliseconds(20)};
  EXPECT_LT(meet(10), 10u);  // now they take 40 ms
  meet(20);
  EXPECT_EQ(meet(10), 10u);
}

TEST(PairwiseFaults, ALostCommitIsRepeatedUntilAcknowledged) {
  Pair pair;
  int commits = 0, acks = 0;
  pair.swarm.network.drop = [&](const Flight& flight) {
    if (is<Commit>(flight)) return ++commits <= 3;
    if (is<CommitAck>(flight)) return ++acks <= 2;
    return false;
  };
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(100));
  EXPECT_TRUE(pair.b.pairwise->in_doubt());
  EXPECT_FALSE(pair.a.pairwise->idle());
  EXPECT_FALSE(pair.a.pairwise->propose(pair.b.id));  // its last word to this peer is still open
  pair.swarm.run_for(std::chrono::seconds(10));
  EXPECT_TRUE(pair.swarm.all_idle());
  EXPECT_FALSE(pair.b.pairwise->in_doubt());
  EXPECT_EQ(pair.a.apply(), 1u);
  EXPECT_EQ(pair.b.apply(), 1u);
  expect_all(pair.b, 2);
  EXPECT_EQ(commits, 6);
}

TEST(PairwiseFaults, AVoteThatIsLostEndsInAnAbortOnRequest) {
  Pair pair;
  bool healed = false;
  pair.swarm.network.drop = [&](const Flight& flight) { return is<Have>(flight) || (is<Abort>(flight) && !healed); };
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(1400));
  EXPECT_TRUE(pair.a.pairwise->idle());
  EXPECT_TRUE(pair.b.pairwise->in_doubt());  // asks in vain, and decides nothing
  healed = true;
  pair.swarm.run_for(std::chrono::seconds(3));
  EXPECT_TRUE(pair.swarm.all_idle());
  EXPECT_EQ(pair.a.apply() + pair.b.apply(), 0u);
}

TEST(PairwiseFaults, ARestartedProposerEndsTheDoubtAndExchangesAnew) {
  Pair pair;
  pair.swarm.network.drop = [&](const Flight& flight) { return is<Commit>(flight); };
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(100));
  ASSERT_TRUE(pair.b.pairwise->in_doubt());
  pair.swarm.network.drop = nullptr;
  TestAgent& a = pair.swarm.add(1, 2);
  a.params.assign(64, 5);
  a.boundary();
  ASSERT_TRUE(a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(std::chrono::seconds(5));
  EXPECT_TRUE(pair.swarm.all_idle());
  EXPECT_EQ(pair.b.apply(), 1u);
  EXPECT_EQ(a.apply(), 1u);
  // The old life's offer is free again: the new exchange ran at full weight.
  expect_all(pair.b, 4);
  expect_all(a, 4);
}

// The news of the restart comes after the first exchange with the new life: that one goes on.
TEST(PairwiseFaults, NewsOfARestartEndsOnlyWhatTheLifeBeforeBegan) {
  for (const bool a_decides : {true, false}) {
    Pair pair;
    TestAgent& decider = a_decides ? pair.a : pair.b;
    TestAgent& voter = a_decides ? pair.b : pair.a;
    pair.publish();
    pair.swarm.network.drop = [](const Flight& flight) { return is<Commit>(flight); };
    ASSERT_TRUE(decider.pairwise->propose(voter.id));
    pair.swarm.run_for(milliseconds(100));
    ASSERT_TRUE(voter.pairwise->in_doubt());
    pair.a.pairwise->forget(pair.b.id, pair.b.generation);
    pair.b.pairwise->forget(pair.a.id, pair.a.generation);
    EXPECT_TRUE(voter.pairwise->in_doubt());
    EXPECT_FALSE(decider.pairwise->idle());
    pair.swarm.network.drop = nullptr;
    pair.swarm.run_for(std::chrono::seconds(2));
    EXPECT_TRUE(pair.swarm.all_idle());
    EXPECT_EQ(pair.a.apply(), 1u);
    EXPECT_EQ(pair.b.apply(), 1u);
  }
}

// Proposers that are cut off after the vote, more than places: where one is needed, the oldest doubt whose decision is
// late is parked, others are voted on, and the parked ones still end with the proposers' word.
TEST(PairwiseFaults, ADoubtThatLastsGivesUpItsPlaceAndIsDecidedAllTheSame) {
  TestSwarm swarm({});
  TestAgent& acceptor = swarm.add(1);
  std::fill(acceptor.params.begin(), acceptor.params.end(), 1.0f);
  constexpr uint8_t kProposers = kInDoubtMax + kParkedDoubtsMax;
  for (uint8_t tag = 2; tag < 2 + kProposers; ++tag) {
    TestAgent& proposer = swarm.add(tag);
    std::fill(proposer.params.begin(), proposer.params.end(), static_cast<float>(tag));
  }
  const std::vector<double> expected = swarm.weighted_sum();
  const PeerId from = acceptor.id;
  const auto propose = [&](uint8_t tag) {
    acceptor.boundary();
    swarm.agents.at(test_peer(tag))->boundary();
    ASSERT_TRUE(swarm.agents.at(test_peer(tag))->pairwise->propose(from));
    swarm.run_for(milliseconds(600));  // past the deadline the doubt gives back its offer
  };
  for (uint8_t i = 0; i < kProposers; ++i) propose(static_cast<uint8_t>(2 + i));  // they get to know each other
  EXPECT_EQ(acceptor.pairwise->counters().done, kProposers);
  swarm.network.drop = [&](const Flight& flight) { return is<Commit>(flight) || is<Query>(flight); };
  for (uint8_t i = 0; i < kProposers; ++i) {
    propose(static_cast<uint8_t>(2 + i));
    EXPECT_EQ(acceptor.pairwise->pairs_status().doubts_parked, i < kInDoubtMax ? 0u : i + 1 - kInDoubtMax);
  }
  EXPECT_EQ(acceptor.pairwise->counters().accepted, 2u * kProposers);
  EXPECT_EQ(acceptor.pairwise->counters().doubts_broken, 0u);
  swarm.network.drop = nullptr;
  swarm.run_for(std::chrono::seconds(60));
  EXPECT_TRUE(swarm.all_idle());
  for (auto& [id, agent] : swarm.agents) EXPECT_EQ(agent->apply(), agent.get() == &acceptor ? kProposers : 1u);
  const std::vector<double> sum = swarm.weighted_sum();
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i], expected[i], 1e-3);
}

// Silence for an hour costs some hundred frames, and the first sign of life ends it at once.
TEST(PairwiseFaults, RepeatsToASilentPeerBackOffAndASignOfLifeBringsThemBack) {
  Pair pair;
  int commits = 0, queries = 0;
  bool cut = false;
  pair.swarm.network.drop = [&](const Flight& flight) {
    commits += is<Commit>(flight);
    queries += is<Query>(flight);
    return cut || is<Commit>(flight);
  };
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(50));
  ASSERT_TRUE(pair.b.pairwise->in_doubt());
  cut = true;
  pair.swarm.run_for(std::chrono::hours(1));
  EXPECT_TRUE(pair.b.pairwise->in_doubt());
  EXPECT_GT(commits, 100);
  EXPECT_LT(commits, 150);
  EXPECT_GT(queries, 100);
  EXPECT_LT(queries, 150);
  pair.swarm.network.drop = nullptr;
  pair.swarm.deliver({pair.b.id, pair.a.id, 1, Credit{{pair.b.id, 1, 1}, 1}, {}});  // of some other exchange
  pair.swarm.run_for(milliseconds(100));
  EXPECT_TRUE(pair.swarm.all_idle());
  EXPECT_EQ(pair.a.apply() + pair.b.apply(), 2u);
}

// Who shares no more is about to leave and asks at once, however long its partner was silent.
TEST(PairwiseFaults, WhoStopsSharingAsksAtOnce) {
  Pair pair;
  bool cut = true;
  pair.swarm.network.drop = [&](const Flight& flight) { return cut && (is<Commit>(flight) || is<Query>(flight)); };
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(std::chrono::minutes(10));
  ASSERT_TRUE(pair.b.pairwise->in_doubt());
  cut = false;
  pair.a.pairwise->publish(nullptr);
  pair.swarm.run_for(milliseconds(100));
  EXPECT_TRUE(pair.swarm.all_idle());
}

TEST(PairwiseFaults, ForgettingAPeerEndsAllThatWaitsForIt) {
  Pair pair;
  pair.swarm.network.drop = [&](const Flight& flight) { return is<CommitAck>(flight) || is<Commit>(flight); };
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(100));
  pair.a.pairwise->forget(pair.b.id, kEveryLife);
  pair.b.pairwise->forget(pair.a.id, kEveryLife);
  EXPECT_TRUE(pair.swarm.all_idle());
  EXPECT_FALSE(pair.b.pairwise->in_doubt());
  EXPECT_EQ(pair.a.pairwise->next_deadline(), TimePoint::max());
  EXPECT_EQ(pair.b.pairwise->next_deadline(), TimePoint::max());
  pair.swarm.network.drop = nullptr;
  pair.a.boundary();
  pair.b.boundary();
  EXPECT_TRUE(pair.a.pairwise->propose(pair.b.id));
}

TEST(PairwiseFaults, BlocksThatAreNotFiniteOrOfTheWrongSizeAreLeftOut) {
  Pair pair;
  pair.swarm.network.damage = [&](Flight& flight) {
    const auto* block = message_as<BlockPayload>(flight.message);
    if (block == nullptr || flight.from != pair.a.id) return;
    std::vector<std::byte> bad(64);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(bad.data() + 8, &nan, 4);
    if (block->index == 0) flight.payload = shared_copy(bad);
    if (block->index == 2) flight.payload = shared_copy(Bytes(bad).first(60));
  };
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(300));
  EXPECT_EQ(pair.b.pairwise->counters().blocks_refused, 2u);
  const ExchangeReport report = only_report(pair.b);
  EXPECT_EQ(report.blocks_mixed, 2u);
  EXPECT_EQ(report.outcome, ExchangeOutcome::kDone);  // nothing came late
  pair.b.apply();
  EXPECT_EQ(pair.b.params[0], 3);
  EXPECT_EQ(pair.b.params[16], 2);
  EXPECT_EQ(pair.b.params[32], 3);
}

TEST(PairwiseFaults, APayloadThatIsAllBadIsRefusedBeforeAnyVote) {
  Pair pair;
  pair.swarm.network.damage = [&](Flight& flight) {
    if (flight.from == pair.a.id && is<BlockPayload>(flight)) {
      flight.payload = shared_copy(flight.payload.span().first(12));
    }
  };
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(100));  // well within the deadline: it was told
  EXPECT_TRUE(pair.swarm.all_idle());
  EXPECT_EQ(only_report(pair.a).outcome, ExchangeOutcome::kFailed);
  EXPECT_EQ(only_report(pair.b).outcome, ExchangeOutcome::kFailed);
  EXPECT_EQ(pair.a.apply() + pair.b.apply(), 0u);
}

TEST(PairwiseFaults, KeepsNoPayloadOnceItIsIdle) {
  Pair pair;
  pair.swarm.network.options = {.loss = 0.3,
                                .doubled = 0.2,
                                .control_max = milliseconds(60),
                                .bulk_min = milliseconds(1),
                                .bulk_max = milliseconds(60)};
  for (int i = 0; i < 80; ++i) {  // until the first is decided, turns in vain bar both for a while
    pair.publish();
    (i % 2 == 0 ? pair.a : pair.b).pairwise->propose((i % 2 == 0 ? pair.b : pair.a).id);
    pair.swarm.run_for(milliseconds(500));
  }
  EXPECT_GT(pair.a.pairwise->counters().done + pair.a.pairwise->counters().late, 5u);
  pair.swarm.network.options = {};
  pair.swarm.run_for(std::chrono::seconds(5));
  ASSERT_TRUE(pair.swarm.all_idle());
  pair.a.apply();
  pair.b.apply();
  EXPECT_EQ(pair.swarm.network.payloads_held(), 0u);
  EXPECT_EQ(pair.a.pairwise->next_deadline(), TimePoint::max());
}

TEST(PairwiseFaults, CompletionsOfTheDeadTouchNothing) {
  Pair pair;
  LateWorker worker;
  const PairwiseOptions options{{.self = pair.b.id, .param_blocks = 4}, 1};
  auto late =
      std::make_unique<AsyncPairs>(options, pair.b.layout, *pair.b.codec, worker, pair.swarm.clock, pair.b.port);
  pair.publish();
  auto snapshot = std::make_shared<Snapshot>();
  for (int i = 0; i < 4; ++i) snapshot->blocks.push_back(shared_copy(std::vector<std::byte>(64)));
  late->publish(snapshot);

  const auto feed = [&](uint64_t counter) {
    const ExchangeId xid{pair.a.id, 1, counter};
    late->handle(pair.a.id, 1, Propose{.xid = xid, .deadline_ms = 100, .credit = 4}, {});
    for (uint32_t i = 0; i < 4; ++i) {
      late->handle(pair.a.id, 1, BlockPayload{xid, i, 0}, shared_copy(std::vector<std::byte>(64)));
    }
    return xid;
  };
  const ExchangeId first = feed(1);
  EXPECT_EQ(worker.waiting(), 4u);
  late->handle(pair.a.id, 1, Abort{first}, {});
  worker.run_completions();
  EXPECT_TRUE(late->idle());
  feed(2);
  late.reset();
  worker.run_completions();
}

}  // namespace
}  // namespace starling::exchange_test
