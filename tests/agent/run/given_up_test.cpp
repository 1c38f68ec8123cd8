// Whose model is missing at the end of a run.
#include "agent/run/lost_members.h"

#include <gtest/gtest.h>

#include "tests/gossip/membership/membership_support.h"

namespace starling {
namespace {

class GivenUpTest : public testing::Test {
 protected:
  // A new version, or another life, of member 1.
  void tell(Phase phase, uint64_t generation = 1, Role role = Role::kAgent) {
    record_ = record_of(1, generation, ++incarnation_);
    record_.meta.phase = phase;
    record_.meta.role = role;
    membership_.add(record_);
    if (answers_) membership_.prove(record_.id, generation);
    look();
  }
  void die() {
    const auto dead = [&] { return membership_.find(peer_of(1))->state == MemberState::kDead; };
    for (int i = 0; i < 10'000 && !dead(); ++i) {
      clock_.advance(std::chrono::milliseconds(10));
      membership_.tick();
    }
    ASSERT_TRUE(dead());
    look();
  }
  void leave() {
    membership_.handle(peer_of(1), Gossip{{.left = {record_}}});
    look();
  }
  void look() {
    for (const MemberEvent& event : membership_.take_events()) given_up_.look(event, training_ended_);
  }
  LostMembers::Missed missed(bool near = false) const {
    return given_up_.missed([near](const MemberMeta&) { return near; });
  }
  void expect_nobody_missed() const {
    EXPECT_EQ(missed().dead, 0u);
    EXPECT_EQ(missed().joining, 0u);
  }

  FakeClock clock_;
  RecordingOutbox outbox_;
  Membership membership_{MembershipOptions{}, record_of(0), clock_, outbox_, 1, 1};
  PathFound path_{.known = true};
  LostMembers given_up_{membership_, [this](const Endpoint&) { return path_; }};
  PeerRecord record_;
  uint32_t incarnation_ = 0;
  bool training_ended_ = true, answers_ = true;
};

TEST_F(GivenUpTest, OneThatNeverAnsweredMayBeInventedAndIsNotMissed) {
  answers_ = false;
  tell(Phase::kSettling);
  tell(Phase::kJoining, 2);
  expect_nobody_missed();
  die();
  expect_nobody_missed();
}

TEST_F(GivenUpTest, OneThatAnsweredInAnEarlierLifeIsMissed) {
  tell(Phase::kSettling);
  answers_ = false;
  tell(Phase::kJoining, 2);
  EXPECT_EQ(missed().joining, 1u);
}

TEST_F(GivenUpTest, OneWithAModelOfItsOwnIsMissed) {
  for (const Phase phase : {Phase::kTraining, Phase::kSettling, Phase::kSick}) {
    tell(phase);
    expect_nobody_missed();
    die();
    EXPECT_EQ(missed(true).dead, 1u);
    EXPECT_EQ(missed(true).name, "a1");
  }
}

TEST_F(GivenUpTest, OneThatDiedBeforeTheEndOfTrainingIsNot) {
  training_ended_ = false;
  tell(Phase::kTraining);
  die();
  training_ended_ = true;
  expect_nobody_missed();
}

TEST_F(GivenUpTest, OneThatWasJoiningOrIsNoAgentIsNot) {
  tell(Phase::kJoining);
  die();
  tell(Phase::kTraining, 1, Role::kBootstrap);
  die();
  expect_nobody_missed();
}

TEST_F(GivenUpTest, OneThatHadFinishedIsMissedUnlessItsModelAgrees) {
  tell(Phase::kFinished);
  die();
  EXPECT_EQ(missed(false).dead, 1u);
  EXPECT_EQ(missed(true).dead, 0u);
}

TEST_F(GivenUpTest, OneThatLeavesOrComesBackIsNotMissedAnyMore) {
  tell(Phase::kSettling);
  die();
  tell(Phase::kSettling);
  expect_nobody_missed();
  die();
  EXPECT_EQ(missed().dead, 1u);
  leave();
  expect_nobody_missed();
}

TEST_F(GivenUpTest, OneInAnotherLifeIsMissedUntilItTakesPartAgain) {
  tell(Phase::kSettling);
  tell(Phase::kJoining, 2);
  EXPECT_EQ(missed().joining, 1u);
  EXPECT_EQ(missed().name, "a1");
  tell(Phase::kTraining, 2);
  expect_nobody_missed();
  tell(Phase::kJoining, 3);
  die();
  EXPECT_EQ(missed().dead, 1u);
}

// Its machine says so; a process that stands still, or is cut off, may yet go on with its model.
TEST_F(GivenUpTest, OneWhoseProcessIsGoneIsNotMissed) {
  tell(Phase::kSettling);
  die();
  EXPECT_EQ(missed().dead, 1u);
  path_.known = false;
  EXPECT_EQ(missed().unknown, 1u);
  path_ = {.known = true, .refuses = true};
  expect_nobody_missed();
}

}  // namespace
}  // namespace starling
