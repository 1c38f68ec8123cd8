// Before the first step: which members count, and what is said while some are missing.
#include "agent/run/gathering.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/gossip/membership/membership_support.h"
#include "tests/support/log_text.h"

namespace starling {
namespace {

class GatheringTest : public testing::Test {
 protected:
  GatheringTest() { swarm_.wait_for = 3; }

  Gathering make() { return {swarm_, membership_, clock_}; }
  void set_member(uint32_t number, MemberMeta meta, bool proven = true) {
    PeerRecord record = record_of(number, 1, ++incarnation_);
    meta.name = "m" + std::to_string(number);
    record.meta = meta;
    membership_.add(record);
    if (proven) membership_.prove(peer_of(number), 1);
  }
  static MemberMeta ready() { return {.phase = Phase::kTraining}; }
  std::string said() { return log_.take(); }

  LogText log_;
  FakeClock clock_;
  RecordingOutbox outbox_;
  Membership membership_{MembershipOptions{}, record_of(0), clock_, outbox_, 1, 1};
  SwarmConfig swarm_;
  uint32_t incarnation_ = 0;
};

TEST_F(GatheringTest, EndsWhenSoManyAreReadyAndSaysWhichAreMissing) {
  Gathering gathering = make();
  gathering.look();
  EXPECT_EQ(said(), "waits for 2 more agents before the first step (swarm.wait_for: 3); here: this agent\n");
  set_member(1, ready());
  set_member(2, {.phase = Phase::kJoining});
  set_member(3, {.role = Role::kBootstrap, .phase = Phase::kTraining});
  set_member(4, ready(), false);
  clock_.advance(std::chrono::seconds(2));
  gathering.look();
  EXPECT_FALSE(gathering.over()) << "one has no model yet, one never answered, and a registry takes no steps";
  EXPECT_EQ(said(),
            "waits for 1 more agent before the first step (swarm.wait_for: 3); here: this agent, m1; getting ready: "
            "m2, m4\n");
  set_member(2, ready());
  gathering.look();
  EXPECT_TRUE(gathering.over());
  EXPECT_EQ(said(), "3 agents are there: the first step begins\n");
}

TEST_F(GatheringTest, SaysTheSameEveryThirtySecondsAndFlappingMembersAtMostOnceASecond) {
  Gathering gathering = make();
  gathering.look();
  said();
  for (int second = 1; second < 30; ++second) {
    clock_.advance(std::chrono::seconds(1));
    gathering.look();
  }
  EXPECT_EQ(said(), "");
  clock_.advance(std::chrono::seconds(1));
  gathering.look();
  EXPECT_EQ(
      said(),
      "waits for 2 more agents before the first step (swarm.wait_for: 3); here: this agent; to need fewer, begin a "
      "swarm with --wait-for N and a new --state FOLDER\n");
  for (int i = 0; i < 100; ++i) {  // in one second
    set_member(1, i % 2 == 0 ? ready() : MemberMeta{.phase = Phase::kJoining});
    clock_.advance(std::chrono::milliseconds(10));
    gathering.look();
  }
  const std::string text = said();
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TEST_F(GatheringTest, EndsWithTheFirstStepOfAnyMember) {
  for (const MemberMeta& meta :
       {MemberMeta{.phase = Phase::kTraining, .steps = 1}, MemberMeta{.phase = Phase::kSettling},
        MemberMeta{.phase = Phase::kFinished, .steps = 9}}) {
    Gathering gathering = make();
    set_member(1, meta);
    gathering.look();
    EXPECT_TRUE(gathering.over());
    EXPECT_EQ(said(), "the swarm has begun: this agent begins too\n");
  }
}

// Of a member that starts again the others may have finished meanwhile.
TEST_F(GatheringTest, ThatMayBeForNobodyEnds) {
  Gathering gathering = make(), at_once = make();
  gathering.wait_at_most(std::chrono::minutes(10));
  set_member(1, ready());
  gathering.look();
  EXPECT_EQ(said(),
            "waits for 1 more agent before the first step (swarm.wait_for: 3); here: this agent, m1; the others may "
            "have finished, so it waits 10m at most (--alone: not to wait)\n");
  clock_.advance(std::chrono::minutes(9));
  gathering.look();
  EXPECT_FALSE(gathering.over());
  clock_.advance(std::chrono::minutes(1));
  said();
  gathering.look();
  EXPECT_TRUE(gathering.over());
  EXPECT_EQ(said(),
            "1 agent did not come back, as the swarm may have ended: this agent trains without them; take the model of "
            "a member that finished, or start them again\n");
  at_once.wait_at_most({});
  at_once.look();
  EXPECT_TRUE(at_once.over());
}

TEST_F(GatheringTest, NamesFewOfMany) {
  swarm_.wait_for = 100;
  for (uint32_t number = 1; number <= 50; ++number) set_member(number, ready());
  make().look();
  const std::string text = said();
  EXPECT_LT(text.size(), 200u) << text;
  EXPECT_NE(text.find(" and others\n"), std::string::npos) << text;
}

TEST_F(GatheringTest, IsOverAtOnceForOneAgentAndWithoutExchanges) {
  swarm_.exchange.kind = ExchangeKind::kNone;
  EXPECT_TRUE(make().over());
  swarm_ = {};
  EXPECT_TRUE(make().over());
}

}  // namespace
}  // namespace starling
