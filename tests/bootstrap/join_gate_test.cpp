// Who is let in, and what a flood of joins costs.
#include "bootstrap/join_gate.h"

#include <gtest/gtest.h>

#include <string>

#include "gossip/limits.h"
#include "tests/gossip/membership/membership_support.h"

namespace starling {
namespace {

class JoinGateTest : public testing::Test {
 protected:
  JoinGate::Verdict judge(const std::string& host, uint32_t number, bool cookie) {
    Join join{record_of(number), "", 1, 0};
    if (cookie) join.cookie = gate_.cookie(join.record);
    return gate_.judge(host, join);
  }
  using Verdict = JoinGate::Verdict;

  FakeClock clock_;
  JoinGate gate_{1, clock_};
};

TEST_F(JoinGateTest, ACookieOpensForItsRecordAndForMinutesOnly) {
  EXPECT_EQ(judge("h", 1, false), Verdict::kShowCookie);
  EXPECT_EQ(judge("h", 1, true), Verdict::kOpen);
  Join join{record_of(1), "", 1, gate_.cookie(record_of(1))};
  EXPECT_EQ(gate_.judge("h", join), Verdict::kOpen);
  for (const auto change :
       {+[](PeerRecord& r) { r.id = peer_of(2); }, +[](PeerRecord& r) { ++r.version.generation; },
        +[](PeerRecord& r) { r.endpoint.host = "10.0.0.9"; }, +[](PeerRecord& r) { ++r.endpoint.port; }}) {
    Join other = join;
    change(other.record);
    EXPECT_EQ(gate_.judge("h", other), Verdict::kShowCookie);
  }
  clock_.advance(std::chrono::seconds(59));
  EXPECT_EQ(gate_.judge("h", join), Verdict::kOpen);
  clock_.advance(std::chrono::minutes(2));
  EXPECT_EQ(gate_.judge("h", join), Verdict::kShowCookie);
  JoinGate other(2, clock_);
  EXPECT_NE(other.cookie(record_of(1)), gate_.cookie(record_of(1)));
}

// A program that signs nothing would join and be taken by nobody; nor could a reader of it read.
TEST_F(JoinGateTest, WhereRecordsAreSignedNoOlderProgramIsLetIn) {
  JoinGate sealed(1, clock_, true);
  for (const Phase phase : {Phase::kJoining, Phase::kTraining}) {
    for (const uint64_t reads : {uint64_t{0}, kOnlySwarm}) {
      Join join{record_of(1), "", 1, 0, kProtocolRevision - 1, reads};
      join.record.meta.phase = phase;
      EXPECT_EQ(sealed.judge("h", join), Verdict::kOlder);
      EXPECT_EQ(gate_.judge("h", join), Verdict::kShowCookie);
      join.revision = kProtocolRevision;
      EXPECT_EQ(sealed.judge("h", join), Verdict::kShowCookie);
    }
  }
}

TEST_F(JoinGateTest, OneHostThatFloodsCostsTheOthersNothing) {
  uint32_t open = 0, cookies = 0;
  for (uint32_t i = 0; i < 20'000; ++i) {
    const Verdict verdict = judge("evil", i, i % 2 == 1);
    open += verdict == Verdict::kOpen;
    cookies += verdict == Verdict::kShowCookie;
    clock_.advance(std::chrono::microseconds(250));  // five seconds in all
  }
  EXPECT_GT(open, 0u);
  EXPECT_LE(open + cookies, kJoinsAtOnce + 5 * kJoinsPerSecond + 1);
  EXPECT_EQ(judge("honest", 30'000, true), Verdict::kOpen);
}

TEST(ProcessSecret, IsTheOneGivenOrElseOfTheSeed) {
  EXPECT_EQ(process_secret(5, 7), 5u);
  EXPECT_NE(process_secret(0, 7), 0u);
  EXPECT_EQ(process_secret(0, 7), process_secret(0, 7)) << "simulations replay";
  EXPECT_NE(process_secret(0, 7), process_secret(0, 8));
}

TEST_F(JoinGateTest, ANewcomerThatShowsNoCookieForSecondsIsUnreachedOnce) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(judge("h", 1, false), Verdict::kShowCookie);
    EXPECT_FALSE(gate_.take_unreached());
    clock_.advance(std::chrono::seconds(1));
  }
  EXPECT_FALSE(gate_.take_unreached()) << "an answer may be under way";
  clock_.advance(std::chrono::seconds(4));
  const auto unreached = gate_.take_unreached();
  ASSERT_TRUE(unreached);
  EXPECT_EQ(unreached->record.id, peer_of(1));
  EXPECT_FALSE(gate_.take_unreached());
}

TEST_F(JoinGateTest, ANewcomerThatShowsItsCookieLateIsReached) {
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(judge("h", 1, false), Verdict::kShowCookie);
    clock_.advance(std::chrono::seconds(1));
  }
  EXPECT_EQ(judge("h", 1, true), Verdict::kOpen);
  clock_.advance(std::chrono::seconds(30));
  EXPECT_FALSE(gate_.take_unreached());
}

TEST_F(JoinGateTest, SourcesAreBounded) {
  for (uint32_t i = 0; i < 3 * kJoinSourcesMax; ++i) (void)judge("host" + std::to_string(i), i, false);
  clock_.advance(std::chrono::seconds(2));
  EXPECT_EQ(judge("honest", 1, true), Verdict::kOpen);
}

}  // namespace
}  // namespace starling
