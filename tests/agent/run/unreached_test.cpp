// Members that do not answer this agent, on a virtual clock: which are named, and with what words.
#include "agent/run/unreached.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/gossip/membership/membership_support.h"
#include "tests/support/log_text.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class UnreachedTest : public testing::Test {
 protected:
  void add(uint32_t number, bool answers = true) {
    membership_.add(record_of(number, 1, ++incarnation_));
    if (answers) membership_.prove(peer_of(number), 1);
  }
  // Nobody answers this agent. `alive`: others tell of new versions of these members, which they can reach.
  void pass(Duration time, const std::vector<uint32_t>& alive = {}) {
    for (const TimePoint until = clock_.now() + time; clock_.now() < until;) {
      clock_.advance(milliseconds(100));
      membership_.tick();
      for (const uint32_t number : alive) membership_.add(record_of(number, 1, ++incarnation_));
      unreached_.look();
    }
  }
  std::string take() { return text_.take(); }

  LogText text_;
  FakeClock clock_;
  RecordingOutbox outbox_;
  Membership membership_{MembershipOptions{}, record_of(0), clock_, outbox_, 1, 1};
  PathFound found_{.known = true, .named = true, .accepts = false, .text = "10.0.0.1: no route to host"};
  Unreached unreached_{membership_, clock_, [this](const Endpoint&) { return found_; },
                       [this](const PeerId& member) { return member == ended_; }};
  PeerId ended_;
  uint32_t incarnation_ = 0;
};

TEST_F(UnreachedTest, AMemberThatOthersReachIsNamedWithBothAddressesOnceAMinute) {
  add(1);
  pass(seconds(8), {1});
  EXPECT_EQ(take(), "") << "too soon";
  pass(seconds(12), {1});
  const std::string told =
      "agent a1 cannot be reached at 10.0.0.1:7400 (10.0.0.1: no route to host) from this agent, at 10.0.0.0:7400, "
      "though others reach it: open that port and the next one there, or start it with --advertise and an address that "
      "is reached from here\n";
  EXPECT_EQ(take(), told);
  pass(seconds(40), {1});
  EXPECT_EQ(take(), "");
  pass(seconds(30), {1});
  EXPECT_EQ(take(), told);
}

TEST_F(UnreachedTest, WhereItTakesConnectionsItsAnswersDoNotComeBack) {
  add(1);
  found_.accepts = true;
  pass(seconds(20), {1});
  EXPECT_EQ(take().find("agent a1 at 10.0.0.1:7400 takes connections, but its answers do not reach this agent: they go "
                        "to 10.0.0.0:7400"),
            0u);
}

TEST_F(UnreachedTest, OneWhoseMembershipHasEndedIsToldToBeRenewed) {
  add(1);
  found_.accepts = true;
  ended_ = peer_of(1);
  pass(seconds(40));
  const std::string told = take();
  EXPECT_NE(told.find("the membership of agent a1 has expired"), std::string::npos) << told;
  EXPECT_NE(told.find("starling admit " + ended_.hex()), std::string::npos) << told;
  EXPECT_EQ(told.find("takes connections"), std::string::npos) << told;
}

TEST_F(UnreachedTest, OneWhoseMembershipHasEndedIsToldAlsoAfterOnePing) {
  for (uint32_t number = 1; number <= 12; ++number) add(number);
  ended_ = peer_of(1);
  const Member* member = membership_.find(ended_);
  for (int i = 0; i < 1200 && member->state != MemberState::kDead; ++i) {
    clock_.advance(milliseconds(100));
    membership_.tick();
    for (uint32_t number = 2; number <= 12; ++number) add(number);
    member = membership_.find(ended_);
  }
  ASSERT_EQ(member->state, MemberState::kDead);
  ASSERT_LT(member->unanswered, 3u);
  unreached_.look();
  EXPECT_NE(take().find("the membership of agent a1 has expired"), std::string::npos);
}

TEST_F(UnreachedTest, OneThatDiedIsNamedOnlyWhereItStillTakesConnections) {
  add(1);
  pass(seconds(60));
  ASSERT_EQ(membership_.find(peer_of(1))->state, MemberState::kDead);
  EXPECT_EQ(take(), "");
  add(2);
  pass(seconds(20), {2});
  EXPECT_EQ(take().find("agent a2 cannot be reached"), 0u);
  found_.accepts = true;
  pass(seconds(40));
  ASSERT_EQ(membership_.find(peer_of(2))->state, MemberState::kDead);
  EXPECT_NE(take().find("agent a2 at 10.0.0.2:7400 takes connections"), std::string::npos);
  pass(seconds(120));
  (void)take();
  pass(seconds(120));
  EXPECT_EQ(take(), "") << "it died long ago";
}

TEST_F(UnreachedTest, AMemberThatNeverAnsweredMayBeInvented) {
  add(1, false);
  pass(seconds(60), {1});
  EXPECT_EQ(take(), "");
}

TEST_F(UnreachedTest, NothingIsSaidBeforeThePathIsKnown) {
  add(1);
  found_.known = false;
  pass(seconds(30), {1});
  EXPECT_EQ(take(), "");
  found_.known = true;
  pass(milliseconds(100), {1});
  EXPECT_EQ(take().find("agent a1 cannot be reached"), 0u);
}

TEST_F(UnreachedTest, OneIsNamedAndTheOthersCounted) {
  for (const uint32_t number : {1, 2, 3}) add(number);
  pass(minutes(3), {1, 2, 3});
  EXPECT_NE(take().find(" (and 2 more)"), std::string::npos);
}

}  // namespace
}  // namespace starling
