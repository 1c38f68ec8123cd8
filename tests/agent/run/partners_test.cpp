// Who exchanges with whom, as one agent sees it, and the learning rate's schedule on the swarm's clock.
#include "agent/run/partners.h"

#include <gtest/gtest.h>

#include <set>

#include "agent/train/schedule.h"
#include "tests/gossip/membership/membership_support.h"

namespace starling {
namespace {

class PartnersTest : public testing::Test {
 protected:
  // Agent `own` of 0..count-1, all known to it; ids sort by number.
  Partners& make(uint32_t own, uint32_t count) {
    membership_ = std::make_unique<Membership>(MembershipOptions{}, record_of(own), clock_, outbox_, 1);
    for (uint32_t other = 0; other < count; ++other) {
      if (other != own) membership_->add(record_of(other));
    }
    partners_ = std::make_unique<Partners>(*membership_, clock_, 7);
    return *partners_;
  }
  void set_meta(uint32_t other, const MemberMeta& meta) {
    PeerRecord record = record_of(other, 1, ++incarnation_);
    record.meta = meta;
    membership_->add(record);
  }
  std::set<PeerId> chosen(int draws = 200) {
    std::set<PeerId> seen;
    for (int i = 0; i < draws; ++i) {
      if (const auto peer = partners_->choose()) seen.insert(*peer);
    }
    return seen;
  }

  FakeClock clock_;
  RecordingOutbox outbox_;
  std::unique_ptr<Membership> membership_;
  std::unique_ptr<Partners> partners_;
  uint32_t incarnation_ = 0;
};

TEST_F(PartnersTest, WithoutATopologyAnybodyWhoTrainsMayBeChosen) {
  make(0, 6);
  set_meta(3, {.phase = Phase::kJoining});
  set_meta(4, {.phase = Phase::kFinished});
  EXPECT_EQ(chosen(), (std::set<PeerId>{peer_of(1), peer_of(2), peer_of(5)}));
  partners_->failed(peer_of(2));
  EXPECT_EQ(chosen(), (std::set<PeerId>{peer_of(1), peer_of(5)}));
  partners_->succeeded(peer_of(2));
  EXPECT_EQ(chosen().size(), 3u);
}

TEST_F(PartnersTest, ABusyAgentIsNotChosenUntilItIsFree) {
  make(0, 3);
  partners_->busy(peer_of(1), std::chrono::milliseconds(40));
  EXPECT_EQ(chosen(), (std::set<PeerId>{peer_of(2)}));
  clock_.advance(std::chrono::milliseconds(40));
  EXPECT_EQ(chosen().size(), 2u);
  partners_->busy(peer_of(1), std::chrono::hours(1));   // says who cannot be trusted with it
  clock_.advance(std::chrono::seconds(1));
  EXPECT_EQ(chosen().size(), 2u);
}

TEST_F(PartnersTest, PairsKeepToTheTopology) {
  make(0, 6).set_topology({.kind = TopologyKind::kRing});
  EXPECT_EQ(chosen(), (std::set<PeerId>{peer_of(1), peer_of(5)}));
  make(3, 6).set_topology({.kind = TopologyKind::kStar});
  EXPECT_EQ(chosen(), (std::set<PeerId>{peer_of(0)}));
}

TEST_F(PartnersTest, ATopologyClosesOverTheLiving) {
  make(0, 6).set_topology({.kind = TopologyKind::kRing});
  set_meta(1, {.phase = Phase::kFinished});
  EXPECT_EQ(chosen(), (std::set<PeerId>{peer_of(2), peer_of(5)}));
}

TEST_F(PartnersTest, RowsAreMetropolisHastingsAndCapTheMass) {
  make(1, 4).set_topology({.kind = TopologyKind::kStar});   // rank 0 in the middle, of degree 3
  std::vector<Participant> row = partners_->neighbors(0);
  ASSERT_EQ(row.size(), 1u);
  EXPECT_EQ(row[0].peer, peer_of(0));
  EXPECT_DOUBLE_EQ(row[0].weight, 0.25);

  set_meta(0, {.phase = Phase::kTraining, .mass = 1e6});   // counts 8 times the median at most
  row = partners_->neighbors(0);
  EXPECT_DOUBLE_EQ(row[0].weight, edge_weight(1, 1, 3, 8));
}

TEST_F(PartnersTest, AFileNamesAgents) {
  make(0, 4).set_topology({.kind = TopologyKind::kFile, .edges = {{"a0", "a2"}, {"a2", "a3"}, {"a0", "away"}}});
  EXPECT_EQ(chosen(), (std::set<PeerId>{peer_of(2)}));
}

TEST_F(PartnersTest, ALargeSwarmIsCutIntoGroupsOfLikeSizeAndPairsJoinThem) {
  std::set<PeerId> seen;
  std::map<size_t, int> sizes;
  for (uint32_t own = 0; own < 20; ++own) {
    make(own, 20).set_groups(8);
    const std::vector<Participant> group = partners_->group();
    ++sizes[group.size()];
    EXPECT_TRUE(std::is_sorted(group.begin(), group.end(),
                               [](const auto& a, const auto& b) { return a.peer < b.peer; }));
    bool self = false;
    for (const Participant& member : group) self = self || member.peer == peer_of(own);
    EXPECT_TRUE(self);
    for (const PeerId& partner : chosen()) {
      for (const Participant& member : group) EXPECT_NE(member.peer, partner) << "pairs join groups";
    }
  }
  EXPECT_EQ(sizes, (std::map<size_t, int>{{6, 6}, {7, 14}}));
}

TEST_F(PartnersTest, AGroupByNamesHasNobodyElse) {
  make(2, 6).set_group({"a5", "a2", "away", "a0"});
  const auto ids = [this] {
    std::vector<PeerId> peers;
    for (const Participant& member : partners_->group()) peers.push_back(member.peer);
    return peers;
  };
  EXPECT_EQ(ids(), (std::vector<PeerId>{peer_of(0), peer_of(2), peer_of(5)}));
  set_meta(4, {.phase = Phase::kTraining, .name = "a0"});   // calls itself what another is called
  EXPECT_EQ(ids(), (std::vector<PeerId>{peer_of(0), peer_of(2), peer_of(5)}));
  set_meta(0, {.phase = Phase::kFinished, .name = "a0"});   // and stands in for it
  EXPECT_EQ(ids(), (std::vector<PeerId>{peer_of(2), peer_of(4), peer_of(5)}));
}

TEST_F(PartnersTest, TheSwarmsClockIsTheMedianAndNeverRunsBackwards) {
  make(0, 4);
  for (uint32_t other = 1; other < 4; ++other) set_meta(other, {.phase = Phase::kTraining, .steps = 100u * other});
  EXPECT_EQ(partners_->swarm_steps(5), 200u);   // of 5 100 200 300
  set_meta(2, {.phase = Phase::kFinished, .steps = 200});
  set_meta(3, {.phase = Phase::kFinished, .steps = 300});
  EXPECT_EQ(partners_->swarm_steps(5), 200u);
}

TEST(Schedule, FollowsTheSwarmsClock) {
  OptimizerConfig optimizer;
  EXPECT_EQ(schedule_factor(optimizer, 12345, 0), 1);
  optimizer.warmup = 9;
  EXPECT_DOUBLE_EQ(schedule_factor(optimizer, 0, 0), 0.1);
  EXPECT_DOUBLE_EQ(schedule_factor(optimizer, 8, 0), 0.9);
  EXPECT_DOUBLE_EQ(schedule_factor(optimizer, 9, 0), 1);
  optimizer.schedule = Schedule::kCosine;
  EXPECT_DOUBLE_EQ(schedule_factor(optimizer, 9, 109), 1);
  EXPECT_DOUBLE_EQ(schedule_factor(optimizer, 59, 109), 0.5);
  EXPECT_NEAR(schedule_factor(optimizer, 109, 109), 0, 1e-15);
  EXPECT_NEAR(schedule_factor(optimizer, 500, 109), 0, 1e-15) << "who goes on does not rise again";
  optimizer.schedule = Schedule::kStep;
  optimizer.decay_every = 100;
  optimizer.decay = 0.5;
  EXPECT_DOUBLE_EQ(schedule_factor(optimizer, 99, 0), 1);
  EXPECT_DOUBLE_EQ(schedule_factor(optimizer, 350, 0), 0.125);
}

}  // namespace
}  // namespace starling
