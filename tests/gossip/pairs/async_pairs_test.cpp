#include "gossip/pairs/async_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "gossip/limits.h"
#include "tests/gossip/pairs/pair_harness.h"

namespace starling::exchange_test {
namespace {

TEST(AsyncPairs, BothApplyOppositeDeltasAndReport) {
  Pair pair;
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  EXPECT_TRUE(pair.a.pairwise->under_way());
  EXPECT_FALSE(pair.a.pairwise->propose(pair.b.id));  // under way
  pair.swarm.run_for(milliseconds(200));
  EXPECT_FALSE(pair.a.pairwise->under_way());
  EXPECT_TRUE(pair.swarm.all_idle());
  EXPECT_EQ(pair.a.apply(), 1u);
  EXPECT_EQ(pair.b.apply(), 1u);
  expect_all(pair.a, 2);
  expect_all(pair.b, 2);

  const ExchangeReport a = only_report(pair.a), b = only_report(pair.b);
  EXPECT_TRUE(a.initiated);
  EXPECT_FALSE(b.initiated);
  for (const ExchangeReport* report : {&a, &b}) {
    EXPECT_EQ(report->outcome, ExchangeOutcome::kDone);
    EXPECT_EQ(report->blocks_mixed, 4u);
    EXPECT_EQ(report->blocks_total, 4u);
    EXPECT_EQ(report->payload_bytes_sent, 256u);
    EXPECT_EQ(report->payload_bytes_received, 256u);
    EXPECT_DOUBLE_EQ(report->distance, 2);
    EXPECT_EQ(report->scale, 1);
    EXPECT_EQ(report->peer_round, 1u);
  }
  EXPECT_EQ(a.peer, pair.b.id);
  EXPECT_EQ(pair.a.pairwise->counters().done, 1u);
  EXPECT_EQ(pair.b.pairwise->counters().accepted, 1u);
  EXPECT_EQ(pair.a.pairwise->next_deadline(), TimePoint::max());
}

// A small model's blocks go along with the proposal; a large one's wait for the ACCEPT: one round trip more.
TEST(AsyncPairs, TakesTheLatenciesItShould) {
  for (const bool small : {true, false}) {
    PairAgentOptions options;
    options.params = small ? 64 : 32 * 1024;
    options.block_elements = options.params / 4;
    Pair pair(options);
    pair.publish();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(200));
    EXPECT_EQ(only_report(pair.a).duration, milliseconds(small ? 20 : 40));
    EXPECT_EQ(only_report(pair.b).duration, milliseconds(small ? 20 : 40));  // begun one later
  }
}

TEST(AsyncPairs, BlocksMayOvertakeTheirProposal) {
  Pair pair;
  pair.swarm.network.options.control_min = pair.swarm.network.options.control_max = milliseconds(30);
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(400));
  EXPECT_EQ(only_report(pair.b).blocks_mixed, 4u);
}

TEST(AsyncPairs, MassDividesTheDifference) {
  Pair pair;
  pair.b.mass = 3;
  pair.publish();
  ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));
  pair.swarm.run_for(milliseconds(200));
  pair.publish();
  expect_all(pair.a, 2.5f);  // the weighted mean of 1 and 3, three times
  expect_all(pair.b, 2.5f);
}

TEST(AsyncPairs, WithoutASnapshotNothingIsProposedAndProposersHearBusy) {
  Pair pair;
  EXPECT_FALSE(pair.a.pairwise->propose(pair.b.id));
  pair.a.boundary();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(200));
  const ExchangeReport report = only_report(pair.a);
  EXPECT_EQ(report.outcome, ExchangeOutcome::kBusy);
  EXPECT_GT(report.free_in, Duration::zero());  // not worth asking again at once
  EXPECT_EQ(pair.a.pairwise->counters().busy_received, 1u);
  EXPECT_EQ(pair.a.pairwise->counters().failed, 0u);
}

TEST(AsyncPairs, SharingNothingEndsWhatIsUnderWayAndBeginsNoMore) {
  Pair pair;
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(5));
  pair.a.pairwise->publish(nullptr);
  EXPECT_FALSE(pair.a.pairwise->propose(test_peer(3)));
  pair.swarm.run_for(milliseconds(200));
  EXPECT_EQ(pair.a.apply(), 1u);
  EXPECT_EQ(pair.b.apply(), 1u);
  ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));
  pair.swarm.run_for(milliseconds(200));
  EXPECT_EQ(pair.b.pairwise->counters().busy_received, 1u);
}

// Between two snapshots a proposal waits instead of being turned away, and nobody needs the old one's bytes.
TEST(AsyncPairs, ProposalsWaitForTheSnapshotThatFollows) {
  Pair pair;
  pair.publish();
  pair.b.pairwise->retract();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(30));
  EXPECT_EQ(pair.b.pairwise->counters().accepted, 0u);
  EXPECT_EQ(pair.b.pairwise->counters().busy_sent, 0u);
  EXPECT_FALSE(pair.b.pairwise->propose(pair.a.id)) << "nothing to share just now";
  pair.b.boundary();
  pair.swarm.run_for(milliseconds(200));
  EXPECT_EQ(pair.a.apply(), 1u);
  EXPECT_EQ(pair.b.apply(), 1u);
  expect_all(pair.a, 2);
  expect_all(pair.b, 2);
}

TEST(AsyncPairs, NoMoreThanSomeProposalsWait) {
  Pair pair;
  pair.publish();
  pair.b.pairwise->retract();
  for (uint8_t tag = 10; tag < 60; ++tag) {
    const ExchangeId xid{test_peer(tag), 1, 1};
    pair.b.pairwise->handle(test_peer(tag), 1, Propose{.xid = xid, .deadline_ms = 500, .credit = 4}, {});
  }
  EXPECT_EQ(pair.b.pairwise->counters().busy_sent, 50u - 16u);
  pair.b.pairwise->publish(nullptr);  // no snapshot after all
  EXPECT_EQ(pair.b.pairwise->counters().busy_sent, 50u);
  EXPECT_TRUE(pair.b.pairwise->idle());
}

TEST(AsyncPairs, ALargeSnapshotIsServedBeforeTheNext) {
  PairAgentOptions options;
  options.params = 2 << 20;  // 8 MiB as fp32; small ones do not matter
  options.block_elements = 1 << 18;
  options.codec = CodecKind::kFp32;
  Pair pair(options);
  pair.publish();
  EXPECT_FALSE(pair.b.pairwise->serving_until());
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(15));
  EXPECT_TRUE(pair.b.pairwise->serving_until());
  EXPECT_FALSE(pair.a.pairwise->serving_until()) << "its own it knows of";
  pair.swarm.run_for(milliseconds(300));
  EXPECT_FALSE(pair.b.pairwise->serving_until());
}

TEST(AsyncPairs, ASnapshotServesThreeExchangesWithHalvingShares) {
  TestSwarm swarm({});
  TestAgent& center = swarm.add(10);
  for (uint8_t tag = 1; tag <= 4; ++tag) swarm.add(tag).params.assign(64, 8);
  for (auto& [id, agent] : swarm.agents) agent->boundary();
  for (auto& [id, agent] : swarm.agents) {
    if (id == center.id) continue;
    ASSERT_TRUE(agent->pairwise->propose(center.id));
    swarm.run_for(milliseconds(1));
  }
  swarm.run_for(milliseconds(400));
  EXPECT_EQ(center.pairwise->counters().accepted, 3u);
  EXPECT_EQ(center.pairwise->counters().busy_sent, 1u);
  EXPECT_EQ(center.pairwise->counters().gain_permille, 1000u + 500 + 250);
  EXPECT_FALSE(center.pairwise->propose(test_peer(1)));  // spent for its own proposals too
  center.boundary();
  expect_all(center, 4 + 2 + 1);
  EXPECT_TRUE(center.pairwise->propose(test_peer(1)));
}

TEST(AsyncPairs, AFailedExchangeReturnsItsShare) {
  Pair pair;
  pair.publish();
  double offer = 0;
  pair.swarm.network.drop = [&](const Flight& flight) {
    if (is<Propose>(flight)) offer = message_as<Propose>(flight.message)->offer;
    return true;
  };
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    EXPECT_EQ(offer, 1);
    pair.swarm.run_for(milliseconds(1100));
  }
  EXPECT_EQ(pair.a.pairwise->counters().failed, 5u);
}

TEST(AsyncPairs, AnExchangeStillOpenCountsAgainstTheNextSnapshot) {
  Pair pair;
  TestAgent& c = pair.swarm.add(3);
  c.params.assign(64, 1);
  c.boundary();
  pair.publish();
  double offer = 0;
  pair.swarm.network.watch = [&](const Flight& flight) {
    if (is<Propose>(flight)) offer = message_as<Propose>(flight.message)->offer;
  };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.a.boundary();
  ASSERT_TRUE(pair.a.pairwise->propose(c.id));
  EXPECT_EQ(offer, 0.5);
  pair.swarm.run_for(milliseconds(300));
  pair.a.boundary();
  ASSERT_TRUE(pair.a.pairwise->propose(c.id));
  EXPECT_EQ(offer, 1);
}

TEST(AsyncPairs, OfTwoThatProposeAtOnceTheSmallerIdStaysProposer) {
  Pair pair;
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));
  pair.swarm.run_for(milliseconds(300));
  EXPECT_TRUE(pair.swarm.all_idle());
  pair.publish();
  expect_all(pair.a, 2);
  expect_all(pair.b, 2);
  EXPECT_EQ(pair.a.pairwise->counters().done, 1u);
  EXPECT_EQ(pair.b.pairwise->counters().done, 1u);
  EXPECT_EQ(pair.a.pairwise->counters().failed + pair.b.pairwise->counters().failed, 0u);
  const std::vector<ExchangeReport> reports = pair.b.pairwise->take_reports();
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].outcome, ExchangeOutcome::kBusy);  // its own proposal gave way
  EXPECT_EQ(reports[1].outcome, ExchangeOutcome::kDone);
}

// Chooses the first of two that it may.
class FirstOfTwo final : public PeerSampler {
 public:
  std::optional<PeerId> choose(const std::vector<PeerId>& except) override {
    for (const PeerId& peer : candidates()) {
      if (std::find(except.begin(), except.end(), peer) == except.end()) return peer;
    }
    return std::nullopt;
  }
  void met(const PeerId&) override {}
  uint64_t last_met(const PeerId&) override { return 0; }
  std::vector<PeerId> candidates() override { return {test_peer(2), test_peer(3)}; }
  std::vector<Participant> neighbors(uint64_t) override { return {}; }
  std::vector<Participant> group() override { return {}; }
};

// A round does not go without an exchange because an earlier one with the first partner is open, not acknowledged or in
// doubt.
TEST(AsyncPairs, WithWhomAnExchangeIsOpenIsNotAskedButAnother) {
  enum class Lost { kNothing, kBlocks, kAcks, kDecisions };
  for (const Lost lost : {Lost::kNothing, Lost::kBlocks, Lost::kAcks, Lost::kDecisions}) {
    SCOPED_TRACE(static_cast<int>(lost));
    FirstOfTwo sampler;
    TestSwarm swarm({.sampler = &sampler});
    TestAgent& a = swarm.add(1);
    TestAgent& b = swarm.add(2);
    TestAgent& c = swarm.add(3);
    for (TestAgent* agent : {&a, &b, &c}) agent->boundary();
    std::vector<PeerId> asked;
    swarm.network.watch = [&](const Flight& flight) {
      if (is<Propose>(flight) && flight.from == a.id) asked.push_back(flight.to);
    };
    swarm.network.drop = [lost](const Flight& flight) {
      return (lost == Lost::kBlocks && is<BlockPayload>(flight)) || (lost == Lost::kAcks && is<CommitAck>(flight)) ||
             (lost == Lost::kDecisions && is<Commit>(flight));
    };
    if (lost == Lost::kDecisions) {
      ASSERT_TRUE(b.pairwise->propose(a.id));
    } else {
      ASSERT_TRUE(a.pairwise->begin());
      EXPECT_EQ(asked, std::vector{b.id});
    }
    swarm.run_for(milliseconds(lost == Lost::kBlocks ? 30 : 200));
    a.boundary();
    asked.clear();
    ASSERT_TRUE(a.pairwise->begin());
    EXPECT_EQ(asked, std::vector{lost == Lost::kNothing ? b.id : c.id});
    EXPECT_EQ(a.pairwise->begin(), lost == Lost::kNothing);  // nobody is left, or C
  }
}

TEST(AsyncPairs, TheDeadlineFollowsWhatExchangesTake) {
  Pair pair;
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(pair.a.pairwise->current_deadline(), milliseconds(i < 8 ? 500 : 28));  // 20 ms and four tenths
    pair.publish();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(100));
  }
}

// Both meet two others as well: with fewer nobody is refused.
TEST(AsyncPairs, APartnerUnusuallyFarAwayIsClippedAndOneThatComesNoNearerRefused) {
  PairAgentOptions options;
  options.clip = 3;
  Pair pair(options);
  TestAgent& third = pair.swarm.add(3);
  TestAgent& fourth = pair.swarm.add(4);
  const auto meet = [&](TestAgent& proposer, TestAgent& acceptor, float distance) {
    proposer.params.assign(64, 0);
    acceptor.params.assign(64, distance);
    proposer.boundary();
    acceptor.boundary();
    EXPECT_TRUE(proposer.pairwise->propose(acceptor.id));
    pair.swarm.run_for(milliseconds(200));
    proposer.apply();
    acceptor.apply();
    proposer.pairwise->take_reports();
    return only_report(acceptor);
  };
  for (int i = 0; i < 10; ++i) {
    TestAgent& other = i % 2 == 0 ? third : fourth;
    for (TestAgent* agent : {&pair.a, &pair.b}) EXPECT_EQ(meet(*agent, other, 1).scale, 1);
  }
  EXPECT_EQ(meet(pair.a, pair.b, 6).scale, 0.5);
  EXPECT_EQ(pair.a.params[0], 1.5f);
  EXPECT_EQ(pair.b.params[0], 4.5f);
  for (unsigned i = 0; i < ClipGuard::kMeetings; ++i) EXPECT_NEAR(meet(pair.a, pair.b, 30).scale, 0.1, 1e-12);
  const ExchangeReport refused = meet(pair.a, pair.b, 30);
  EXPECT_EQ(refused.outcome, ExchangeOutcome::kFailed);
  EXPECT_EQ(refused.left_out, std::vector<PeerId>{pair.a.id});
  EXPECT_EQ(pair.a.pairwise->pairs_status().counters.clipped, 5u);
  EXPECT_EQ(pair.b.pairwise->pairs_status().counters.clipped, 5u);
  EXPECT_EQ(pair.a.pairwise->pairs_status().counters.gain_permille, 10 * 1000u + 500 + 4 * 100);
  EXPECT_EQ(pair.b.pairwise->pairs_status().counters.gain_permille, 10 * 1000u + 500 + 4 * 100);
  EXPECT_EQ(pair.a.pairwise->pairs_status().counters.guard_refused, 1u);
  EXPECT_EQ(pair.b.pairwise->pairs_status().counters.guard_refused, 1u);
  EXPECT_EQ(pair.a.params[0], 0);
  EXPECT_EQ(pair.b.params[0], 30);
}

PairAgentOptions in_modulo8() {
  PairAgentOptions options;
  options.codec = CodecKind::kModulo8;
  return options;
}

void randomize(Pair& pair, Rng& rng) {
  for (TestAgent* agent : {&pair.a, &pair.b}) {
    for (float& x : agent->params) x = static_cast<float>(rng.uniform() - 0.5);
  }
}

TEST(AsyncPairs, ABlockThatWrapsLearnsAWiderStep) {
  Pair pair(in_modulo8());
  Rng rng(3);
  randomize(pair, rng);
  uint64_t wrapped = 0;
  for (int i = 0; i < 80; ++i) {
    if (i == 20) {  // suddenly far apart: the remembered steps are far too small
      wrapped = pair.a.pairwise->counters().blocks_left_out;
      for (float& x : pair.b.params) x += static_cast<float>(10 * (rng.uniform() - 0.5));
    }
    pair.publish();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(200));
  }
  EXPECT_GT(pair.a.pairwise->counters().blocks_left_out, wrapped);
  EXPECT_EQ(pair.a.pairwise->counters().blocks_left_out, pair.b.pairwise->counters().blocks_left_out);
  pair.publish();
  for (size_t i = 0; i < 64; ++i) EXPECT_NEAR(pair.a.params[i], pair.b.params[i], 1e-2);
}

// Its values would add the noise of rounding to models that agree.
TEST(AsyncPairs, ABlockThatIsEqualAsFarAsItsStepsTellIsNotMoved) {
  Pair pair(in_modulo8());
  Rng rng(3);
  for (size_t i = 0; i < pair.a.params.size(); ++i) {
    pair.a.params[i] = pair.b.params[i] = static_cast<float>(rng.uniform() - 0.5);
  }
  pair.b.params[0] += 0.3f;  // in the first block alone
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(200));
  EXPECT_EQ(only_report(pair.a).outcome, ExchangeOutcome::kDone);
  const std::vector<Delta> deltas = pair.b.pairwise->take_decided().deltas;
  ASSERT_EQ(deltas.size(), 1u);
  ASSERT_GT(pair.b.layout.blocks.size(), 1u);
  for (size_t block = 0; block < pair.b.layout.blocks.size(); ++block) {
    EXPECT_EQ(test_bit(deltas[0].blocks, block), block == 0) << block;
  }
}

// One whose model is too far away is not followed either, though its steps can be compared.
TEST(AsyncPairs, NothingIsLearnedFromOneThatTheGuardRefuses) {
  Pair pair(in_modulo8());
  Rng rng(3);
  for (TestAgent* agent : {&pair.a, &pair.b}) {
    for (float& x : agent->params) x = static_cast<float>(rng.uniform() / 4);
    agent->far = Far{.first = 0.01, .last = 0.01, .others = nullptr};
  }
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(std::chrono::seconds(2));
  EXPECT_EQ(pair.b.pairwise->counters().guard_refused, 1u);
  EXPECT_TRUE(pair.b.pairwise->take_decided().lessons.empty());
  EXPECT_TRUE(pair.a.pairwise->take_decided().lessons.empty());
}

TEST(AsyncPairs, OneThatClaimsACoarseStepAtEachMeetingIsFollowedOnce) {
  Pair pair(in_modulo8());
  Rng rng(3);
  randomize(pair, rng);
  pair.swarm.network.damage = [&](Flight& flight) {
    if (!is<BlockPayload>(flight) || flight.from != pair.b.id) return;
    std::vector<std::byte> bytes(flight.payload.span().begin(), flight.payload.span().end());
    bytes[0] = std::byte{100};
    flight.payload = shared_copy(bytes);
  };
  for (const size_t lessons : {pair.a.layout.blocks.size(), size_t{0}, size_t{0}}) {
    pair.publish();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(std::chrono::seconds(2));
    EXPECT_EQ(pair.a.pairwise->take_decided().lessons.size(), lessons);
    EXPECT_GT(pair.a.pairwise->counters().blocks_left_out, 0u);
  }
}

TEST(AsyncPairs, CreditsBoundWhatIsInFlight) {
  PairAgentOptions options;
  options.params = size_t{6} << 20;  // 24 MiB in 96 blocks
  options.block_elements = 64 * 1024;
  Pair pair(options);
  pair.swarm.network.options.bulk_max = milliseconds(15);
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(600));
  EXPECT_EQ(only_report(pair.a).blocks_mixed, 96u);
  EXPECT_LE(pair.swarm.network.in_flight_bytes_max, 2 * kCreditBytes);  // both directions
}

}  // namespace
}  // namespace starling::exchange_test
