// Who exchanges with whom, as one agent sees it.
#include "agent/run/swarm_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>

#include "tests/gossip/membership/membership_support.h"

namespace starling {
namespace {

class SwarmSamplerTest : public testing::Test {
 protected:
  // Agent `own` of 0..count-1, all known to it; ids sort by number.
  void make(uint32_t own, uint32_t count, const SwarmSamplerOptions& options = {}, uint64_t generation = 1) {
    membership_ = std::make_unique<Membership>(MembershipOptions{}, record_of(own, generation), clock_, outbox_, 1, 1);
    for (uint32_t other = 0; other < count; ++other) {
      if (other == own) continue;
      membership_->add(record_of(other));
      membership_->prove(peer_of(other), 1);
    }
    swarm_clock_ = std::make_unique<SwarmClock>(*membership_, clock_);
    sampler_ = std::make_unique<SwarmSampler>(options, *membership_, *swarm_clock_, clock_, 7);
  }
  void set_meta(uint32_t other, const MemberMeta& meta) {
    PeerRecord record = record_of(other, 1, ++incarnation_);
    record.meta = meta;
    membership_->add(record);
  }
  std::set<PeerId> chosen(int draws = 200) {
    std::set<PeerId> seen;
    for (int i = 0; i < draws; ++i) {
      if (const auto peer = sampler_->choose({})) seen.insert(*peer);
    }
    return seen;
  }

  FakeClock clock_;
  RecordingOutbox outbox_;
  std::unique_ptr<Membership> membership_;
  std::unique_ptr<SwarmClock> swarm_clock_;
  std::unique_ptr<SwarmSampler> sampler_;
  uint32_t incarnation_ = 0;
};

// Their silence would keep partners waiting, and rounds of a group.
TEST_F(SwarmSamplerTest, WhoNeverAnsweredIsNobodysPartner) {
  for (const uint32_t group_size : {0u, 16u}) {
    make(0, 3, {.group_size = group_size});
    membership_->add(record_of(3));
    const auto in_group = [&] { return group_size > 0 ? sampler_->group().size() : 0; };
    EXPECT_EQ(in_group(), group_size > 0 ? 4u : 0u) << "agents that start together have not answered yet";
    clock_.advance(kTimeToAnswer);
    for (const bool settling : {false, true}) {
      sampler_->settle(settling);
      EXPECT_EQ(chosen().count(peer_of(3)), 0u);
    }
    EXPECT_EQ(in_group(), group_size > 0 ? 3u : 0u);
    for (const Participant& neighbor : sampler_->neighbors(0)) EXPECT_NE(neighbor.peer, peer_of(3));
    membership_->prove(peer_of(3), 1);
    EXPECT_EQ(in_group(), group_size > 0 ? 4u : 0u);
  }
}

TEST_F(SwarmSamplerTest, WithoutATopologyAnybodyWhoTrainsMayBeChosen) {
  make(0, 6);
  set_meta(3, {.phase = Phase::kJoining});
  set_meta(4, {.phase = Phase::kFinished});
  EXPECT_EQ(chosen(), (std::set<PeerId>{peer_of(1), peer_of(2), peer_of(5)}));
  sampler_->failed(peer_of(2));
  EXPECT_EQ(chosen(), (std::set<PeerId>{peer_of(1), peer_of(5)}));
  sampler_->succeeded(peer_of(2));
  EXPECT_EQ(chosen().size(), 3u);
}

TEST_F(SwarmSamplerTest, ABusyAgentIsNotChosenUntilItIsFree) {
  make(0, 3);
  sampler_->busy(peer_of(1), std::chrono::milliseconds(40));
  EXPECT_EQ(chosen(), (std::set<PeerId>{peer_of(2)}));
  clock_.advance(std::chrono::milliseconds(40));
  EXPECT_EQ(chosen().size(), 2u);
  sampler_->busy(peer_of(1), std::chrono::hours(1));  // says who cannot be trusted with it
  clock_.advance(std::chrono::seconds(1));
  EXPECT_EQ(chosen().size(), 2u);
}

TEST_F(SwarmSamplerTest, TheOneMetLongestAgoIsChosen) {
  make(0, 4);
  for (const uint32_t other : {3u, 1u, 2u}) sampler_->met(peer_of(other));
  EXPECT_EQ(chosen(), std::set<PeerId>{peer_of(3)});
  sampler_->met(peer_of(3));
  EXPECT_EQ(chosen(), std::set<PeerId>{peer_of(1)});
  EXPECT_EQ(sampler_->choose({peer_of(1)}), peer_of(2)) << "of those that may be asked";
  sampler_->failed(peer_of(1));
  EXPECT_EQ(chosen(), std::set<PeerId>{peer_of(2)}) << "of those that did not fail";
}

// As one met longest ago it would be asked by all at once, as one met last not for a whole cycle.
TEST_F(SwarmSamplerTest, ANewcomerCountsAsMetAtARandomOneOfTheLastMeetings) {
  constexpr uint32_t kAgents = 9, kNewcomers = 4000;
  make(0, kAgents);
  for (uint32_t meeting = 1; meeting <= 50; ++meeting) sampler_->met(peer_of(1 + meeting % (kAgents - 1)));
  std::map<uint64_t, double> counts;
  for (uint32_t one = 0; one < kNewcomers; ++one) ++counts[sampler_->last_met(peer_of(100 + one))];
  EXPECT_EQ(counts.size(), kAgents - 1);
  EXPECT_EQ(counts.begin()->first, 50u - (kAgents - 2));
  EXPECT_EQ(counts.rbegin()->first, 50u);
  constexpr double kEach = kNewcomers / (kAgents - 1.0);
  for (const auto& [meeting, count] : counts) EXPECT_NEAR(count, kEach, 5 * std::sqrt(kEach)) << meeting;
  EXPECT_EQ(sampler_->last_met(peer_of(100)), sampler_->last_met(peer_of(100))) << "it is drawn once";
}

TEST_F(SwarmSamplerTest, PairsKeepToTheTopology) {
  make(0, 6, {.topology = {.kind = TopologyKind::kRing}});
  EXPECT_EQ(chosen(), (std::set<PeerId>{peer_of(1), peer_of(5)}));
  make(3, 6, {.topology = {.kind = TopologyKind::kStar}});
  EXPECT_EQ(chosen(), (std::set<PeerId>{peer_of(0)}));
}

TEST_F(SwarmSamplerTest, WhileAllSettleAnybodyMayBeChosenButAcrossNamedEdges) {
  MemberMeta settles{.phase = Phase::kSettling};
  make(0, 5, {.topology = {.kind = TopologyKind::kRing}});
  for (uint32_t other = 1; other < 4; ++other) set_meta(other, settles);
  sampler_->settle(true);
  EXPECT_EQ(chosen().size(), 2u) << "one trains, so the graph holds";
  set_meta(4, settles);
  EXPECT_EQ(chosen().size(), 4u);
  sampler_->settle(false);
  EXPECT_EQ(chosen().size(), 2u);
  make(0, 3, {.topology = {.kind = TopologyKind::kFile, .edges = {{"a", "b"}}}});
  settles.name = "b";
  set_meta(1, settles);
  settles.name = "c";
  set_meta(2, settles);
  sampler_->settle(true);
  EXPECT_LE(chosen().size(), 1u) << "edges may be the only links";
}

// Who still trains answers no proposal.
TEST_F(SwarmSamplerTest, AfterRoundsOnlyWhoSettlesIsChosen) {
  MemberMeta settles{.phase = Phase::kSettling};
  for (const uint32_t group_size : {0u, 4u}) {
    make(0, 6, {.topology = {.kind = TopologyKind::kRing}, .group_size = group_size, .settles_in_pairs = true});
    sampler_->settle(true);
    EXPECT_EQ(chosen().size(), 0u);
    set_meta(2, settles);
    set_meta(3, settles);
    EXPECT_EQ(chosen(), (std::set<PeerId>{peer_of(2), peer_of(3)}));
  }
  make(0, 3, {.topology = {.kind = TopologyKind::kFile, .edges = {{"b", "c"}}}, .settles_in_pairs = true});
  settles.name = "b";
  set_meta(1, settles);
  settles.name = "c";
  set_meta(2, settles);
  sampler_->settle(true);
  EXPECT_EQ(chosen().size(), 0u) << "edges may be the only links, and this agent has none";
}

TEST_F(SwarmSamplerTest, ATopologyClosesOverTheLiving) {
  make(0, 6, {.topology = {.kind = TopologyKind::kRing}});
  set_meta(1, {.phase = Phase::kFinished});
  EXPECT_EQ(chosen(), (std::set<PeerId>{peer_of(2), peer_of(5)}));
}

TEST_F(SwarmSamplerTest, RowsAreMetropolisHastingsAndCapTheMass) {
  make(1, 4, {.topology = {.kind = TopologyKind::kStar}});  // rank 0 in the middle, of degree 3
  std::vector<Participant> row = sampler_->neighbors(0);
  ASSERT_EQ(row.size(), 1u);
  EXPECT_EQ(row[0].peer, peer_of(0));
  EXPECT_DOUBLE_EQ(row[0].weight, 0.25);

  set_meta(0, {.phase = Phase::kTraining, .mass = 1e6});  // counts 8 times the median at most
  row = sampler_->neighbors(0);
  EXPECT_DOUBLE_EQ(row[0].weight, edge_weight(1, 1, 3, 8));
}

TEST_F(SwarmSamplerTest, AFileNamesAgents) {
  make(0, 4, {.topology = {.kind = TopologyKind::kFile, .edges = {{"a0", "a2"}, {"a2", "a3"}, {"a0", "away"}}}});
  EXPECT_EQ(chosen(), (std::set<PeerId>{peer_of(2)}));
}

TEST_F(SwarmSamplerTest, AGroupByNamesHasNobodyElse) {
  make(2, 6, {.group_size = 16, .group_names = {"a5", "a2", "away", "a0"}});
  const auto ids = [this] {
    std::vector<PeerId> peers;
    for (const Participant& member : sampler_->group()) peers.push_back(member.peer);
    return peers;
  };
  EXPECT_EQ(ids(), (std::vector<PeerId>{peer_of(0), peer_of(2), peer_of(5)}));
  set_meta(4, {.phase = Phase::kTraining, .name = "a0"});  // calls itself what another is called
  EXPECT_EQ(ids(), (std::vector<PeerId>{peer_of(0), peer_of(2), peer_of(5)}));
  set_meta(0, {.phase = Phase::kFinished, .name = "a0"});  // and stands in for it
  EXPECT_EQ(ids(), (std::vector<PeerId>{peer_of(2), peer_of(4), peer_of(5)}));
}

std::vector<PeerId> ids_of(const std::vector<Participant>& members) {
  std::vector<PeerId> ids;
  for (const Participant& member : members) ids.push_back(member.peer);
  return ids;
}

// Agent 1 knows four others. Ids sort against the order in which they began.
TEST_F(SwarmSamplerTest, OfTooManyForOneGroupTheOldestAreIn) {
  make(1, 5, {.group_size = 3});  // all of generation 1
  EXPECT_EQ(ids_of(sampler_->group()), (std::vector<PeerId>{peer_of(0), peer_of(1), peer_of(2)}))
      << "of one age, those with the smallest ids";
  EXPECT_FALSE(sampler_->outside_group());
  EXPECT_TRUE(chosen().empty()) << "no pairs beside a group";
  const auto begin_anew = [this](uint32_t other, uint64_t generation) {
    membership_->add(record_of(other, generation));
    membership_->prove(peer_of(other), generation);
  };
  for (const uint32_t other : {0u, 2u}) begin_anew(other, 9 - other);
  EXPECT_EQ(ids_of(sampler_->group()), (std::vector<PeerId>{peer_of(1), peer_of(3), peer_of(4)})) << "sorted by id";
  begin_anew(3, 20);
  EXPECT_EQ(ids_of(sampler_->group()), (std::vector<PeerId>{peer_of(1), peer_of(2), peer_of(4)}));
}

TEST_F(SwarmSamplerTest, TheNewestKnowsThatItIsOutside) {
  make(1, 4, {.group_size = 3}, 2);
  EXPECT_EQ(ids_of(sampler_->group()), (std::vector<PeerId>{peer_of(0), peer_of(2), peer_of(3)}));
  EXPECT_TRUE(sampler_->outside_group());
  set_meta(3, {.phase = Phase::kFinished});
  EXPECT_FALSE(sampler_->outside_group());
}

// They give what they hold until they leave. Who has not begun has nothing.
TEST_F(SwarmSamplerTest, AmongTheOldestAreThoseWhoHaveFinished) {
  make(0, 5, {.group_size = 4, .finished_too = true});
  set_meta(1, {.phase = Phase::kFinished});
  set_meta(2, {.phase = Phase::kJoining});
  EXPECT_EQ(ids_of(sampler_->group()), (std::vector<PeerId>{peer_of(0), peer_of(1), peer_of(3), peer_of(4)}));
}

TEST_F(SwarmSamplerTest, AmongTheOldestAreNamedOnesAlone) {
  make(0, 5, {.group_size = 2, .group_names = {"a0", "a2", "a4"}});
  EXPECT_EQ(ids_of(sampler_->group()), (std::vector<PeerId>{peer_of(0), peer_of(2)}));
  membership_->add(record_of(2, 5));
  EXPECT_EQ(ids_of(sampler_->group()), (std::vector<PeerId>{peer_of(0), peer_of(4)}));
}

TEST(SwarmSamplerOptions, AreWhatTheSettingsSay) {
  SwarmConfig swarm;
  swarm.rng_seed = 9;
  swarm.topology = {.kind = TopologyKind::kFile, .rng_seed = 1, .edges = {{"a0", "a1"}}};
  const SwarmSamplerOptions pairs = swarm_sampler_options(swarm, "a1");
  EXPECT_EQ(pairs.topology.kind, TopologyKind::kFile);
  EXPECT_EQ(pairs.topology.rng_seed, 9u) << "graphs are drawn from the swarm's seed";
  EXPECT_EQ(pairs.group_size, 0u);
  EXPECT_THROW(swarm_sampler_options(swarm, "a2"), std::runtime_error) << "an island";

  swarm.topology = {};
  swarm.exchange.group_size = 8;
  swarm.exchange.members = {"a0", "a1"};
  EXPECT_EQ(swarm_sampler_options(swarm, "a2").group_size, 0u) << "no group is asked for";
  swarm.exchange.kind = ExchangeKind::kGroup;
  EXPECT_EQ(swarm_sampler_options(swarm, "a0").group_size, 8u);
  EXPECT_EQ(swarm_sampler_options(swarm, "a0").group_names, swarm.exchange.members);
  EXPECT_THROW(swarm_sampler_options(swarm, "a2"), std::runtime_error) << "an outsider";
  EXPECT_FALSE(swarm_sampler_options(swarm, "a0").finished_too);
  for (const SourceKind source : {SourceKind::kUpdates, SourceKind::kGradients}) {
    swarm.exchange.source = source;
    EXPECT_EQ(swarm_sampler_options(swarm, "a0").group_size, 32u);
    EXPECT_TRUE(swarm_sampler_options(swarm, "a0").finished_too);
  }
}

}  // namespace
}  // namespace starling
