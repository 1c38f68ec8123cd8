// How far apart the models are, as members' records tell.
#include "agent/run/agreement.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "agent/run/adoption.h"
#include "gossip/rng.h"
#include "tests/gossip/membership/membership_support.h"
#include "tests/support/seeds.h"

namespace starling {
namespace {

class AgreementTest : public testing::Test {
 protected:
  // `value` in the first bucket; nullopt: its record has no projection.
  void add(uint32_t other, std::optional<float> value, const std::string& name = {}, Phase phase = Phase::kTraining,
           bool proven = true) {
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

TEST_F(AgreementTest, TheModelOfMostIsOneThatMoreThanHalfAgreeOn) {
  Projection own{};
  const auto most = [&](float at) {
    own[0] = at;
    return model_of_most(membership_, own, 0.1, 0.13, answered);
  };
  add(1, 1.0f);
  add(2, 1.05f);
  add(3, -4.0f);
  EXPECT_FALSE(most(9)) << "two of four";
  add(4, 0.98f);
  const std::optional<OthersModel> found = most(9);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->theirs[0], 1, 0.06);
  EXPECT_EQ(found->own[0], 9);
  EXPECT_FALSE(most(1.02f)) << "this agent is one of them";
  EXPECT_TRUE(most(1.19f)) << "no guard lets it count";
  EXPECT_FALSE(most(1.15f)) << "near to one of them";
  add(5, std::nullopt);
  add(6, std::nullopt);
  EXPECT_FALSE(most(9)) << "those that tell nothing are members too";
}

TEST(Adoption, TakesOnlyTheModelThatTheRecordsTell) {
  constexpr size_t kCount = 4096;
  Rng rng(first_seed());
  const auto drawn = [&](double size) {
    std::vector<float> x(kCount);
    for (float& value : x) value = static_cast<float>(size * (rng.uniform() * 2 - 1));
    return x;
  };
  const std::vector<float> own = drawn(1), theirs = drawn(1), another = drawn(1);
  OthersModel model{project({theirs.data(), kCount}), project({own.data(), kCount})};
  model.within = model.apart() / 2;
  EXPECT_TRUE(is_model_of_most(theirs, model, own));
  EXPECT_FALSE(is_model_of_most(own, model, own));
  EXPECT_FALSE(is_model_of_most(another, model, own));
  std::vector<float> old = theirs;
  for (size_t i = 0; i < kCount; ++i) old[i] += 0.1f * (own[i] - theirs[i]);
  EXPECT_TRUE(is_model_of_most(old, model, own)) << "saved a little earlier";

  std::vector<float> far = theirs;  // what is added has the projection zero
  const std::vector<float> noise = drawn(100);
  const Projection of_noise = project({noise.data(), kCount});
  for (size_t i = 0; i < kCount; ++i) far[i] += noise[i];
  for (size_t b = 0; b < kProjectionBuckets; ++b) {
    std::vector<float> unit(kCount);
    size_t at = 0;
    float in_bucket = 0;
    for (; in_bucket == 0; ++at) {  // an element of that bucket
      unit[at] = 1;
      in_bucket = project({unit.data(), kCount})[b];
      if (in_bucket == 0) unit[at] = 0;
    }
    far[at - 1] -= of_noise[b] / in_bucket;
  }
  EXPECT_NEAR(projected_distance(project({far.data(), kCount}), model.theirs), 0, 1e-2);
  EXPECT_FALSE(is_model_of_most(far, model, own)) << "the projection alone tells nothing of it";
}

}  // namespace
}  // namespace starling
