// How far apart the models are, as members' records tell.
#include "agent/run/agreement.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/gossip/membership/membership_support.h"

namespace starling {
namespace {

class AgreementTest : public testing::Test {
 protected:
  // `value` in the first bucket; nullopt: its record has no projection.
  void add(uint32_t other, std::optional<float> value, const std::string& name = {},
           Phase phase = Phase::kTraining, bool proven = true) {
    PeerRecord record = record_of(other, 1, ++incarnation_);
    record.meta.phase = phase;
    record.meta.name = name;
    if (value) {
      record.meta.projection.assign(kProjectionBuckets, 0);
      record.meta.projection[0] = *value;
    }
    membership_.add(record);
    if (proven) membership_.prove(peer_of(other), 1);
  }
  Agreement look(float own, double own_rms = 1, const Counts& counts = answered) const {
    Projection projection{};
    projection[0] = own;
    return look_at_agreement(membership_, projection, own_rms, counts);
  }

  FakeClock clock_;
  RecordingOutbox outbox_;
  Membership membership_{MembershipOptions{}, record_of(0), clock_, outbox_, 1, 1};
  uint32_t incarnation_ = 0;
};

TEST_F(AgreementTest, NobodyIsNeitherNearNorFar) {
  const Agreement found = look(1);
  EXPECT_EQ(found.members, 0u);
  EXPECT_EQ(found.to_mean, std::nullopt);
  EXPECT_EQ(found.farthest, std::nullopt);
}

TEST_F(AgreementTest, TheFarthestIsNamedAndTheMeanIsOfAll) {
  add(1, 3, "near");
  add(2, 8, "far");
  add(3, 4, "done", Phase::kFinished);
  const Agreement found = look(1, 0.5);
  EXPECT_EQ(found.members, 3u);
  EXPECT_EQ(found.unknown, 0u);
  EXPECT_DOUBLE_EQ(found.farthest.value(), (8 - 1) / 0.5);
  EXPECT_EQ(found.farthest_name, "far");
  EXPECT_DOUBLE_EQ(found.to_mean.value(), ((1 + 3 + 8 + 4) / 4.0 - 1) / 0.5) << "this agent's model is one of the four";
  ASSERT_EQ(found.others.size(), 3u);
  for (const Apart& other : found.others) {
    const double theirs = other.peer == peer_of(1) ? 3 : other.peer == peer_of(2) ? 8 : 4;
    EXPECT_DOUBLE_EQ(other.distance, (theirs - 1) / 0.5);
  }
}

TEST_F(AgreementTest, WhoToldNothingIsCountedAndNamed) {
  add(1, std::nullopt, "silent");
  EXPECT_EQ(look(1).farthest, std::nullopt) << "nothing is known, which is not the same as near";
  add(2, 1);
  const Agreement found = look(1);
  EXPECT_EQ(found.members, 2u);
  EXPECT_EQ(found.unknown, 1u);
  EXPECT_EQ(found.unknown_name, "silent");
  EXPECT_DOUBLE_EQ(found.farthest.value(), 0);
  EXPECT_EQ(found.farthest_name, record_of(2).id.short_name());
}

// They cost nothing, and whoever may be anywhere lets a partner that lies be anywhere too.
TEST_F(AgreementTest, InventedIdsMayNotBeAnywhere) {
  add(1, 3);
  add(2, std::nullopt, "silent");
  add(3, 5, "not met yet", Phase::kSettling, false);
  for (uint32_t invented = 10; invented < 15; ++invented) add(invented, std::nullopt, "", Phase::kSettling, false);
  const Agreement found = look(1, 1, everybody);
  ASSERT_EQ(found.others.size(), 3u);
  for (const Apart& other : found.others) {
    const double theirs = other.peer == peer_of(1) ? 2 : other.peer == peer_of(3) ? 4 : INFINITY;
    EXPECT_EQ(other.distance, theirs);
  }
  EXPECT_EQ(found.members, 8u);
  EXPECT_EQ(found.unknown, 6u) << "before all had the time to answer, nobody says that all agree";
}

TEST_F(AgreementTest, WhoNeverAnsweredDoesNotCount) {
  add(1, 3);
  add(2, std::nullopt, "silent");
  add(3, 5, "far", Phase::kSettling, false);
  for (uint32_t invented = 10; invented < 15; ++invented) add(invented, std::nullopt, "", Phase::kSettling, false);
  const Agreement found = look(1);
  EXPECT_EQ(found.members, 2u);
  EXPECT_EQ(found.unknown, 1u);
  EXPECT_EQ(found.others.size(), 2u);
  EXPECT_EQ(found.farthest, 2.0);
}

TEST_F(AgreementTest, WhoIsStillJoiningHasNoModelToAgreeWith) {
  add(1, 100, "newcomer", Phase::kJoining);
  EXPECT_EQ(look(1).members, 0u);
}

TEST_F(AgreementTest, WildRecordsAreFarNotNear) {
  for (const float wild : {std::numeric_limits<float>::max(), -std::numeric_limits<float>::max()}) {
    add(1, wild, "wild");
    const Agreement found = look(1);
    EXPECT_GT(found.farthest.value(), 1e30) << wild;
    EXPECT_GT(found.to_mean.value(), 1e30) << wild;
  }
}

}  // namespace
}  // namespace starling
