#include "compression/plan/step_model.h"

#include <gtest/gtest.h>

#include "tests/compression/plan/models.h"

namespace starling {
namespace {

constexpr double kBeta = 1e-8, kOccupancy = 1e-5, kLatency = 1e-3;

StepOptions options_of(CostForm form, UpdateKind kind, uint32_t members) {
  StepOptions options;
  options.form = form;
  options.members = members;
  options.codec = {.kind = kind, .density = 0.01, .reply = 2};
  options.link = {.latency_s = kLatency, .s_per_byte = kBeta, .occupancy_s = kOccupancy};
  return options;
}

const std::vector<PlanSection> kSections = {{"c", 10'000, 0.1}, {"b", 20'000, 0.2}, {"a", 30'000, 0.3}};

double topk_bytes(UpdateRole role, size_t elements) {
  const UpdateOptions options{.kind = UpdateKind::kTopk, .density = 0.01, .reply = 2};
  return static_cast<double>(make_update_codec(options)->bytes_max(role, elements));
}

TEST(StepModel, ABucketOfOneOwnerTakesItsShareAndEndsWithThatOwner) {
  const StepModel model = make_step_model(kSections, options_of(CostForm::kGroup, UpdateKind::kTopk, 4));
  const double bytes = topk_bytes(UpdateRole::kContribution, 10'000) + topk_bytes(UpdateRole::kEntry, 10'000);
  const BucketCost& cost = model.bucket(0, 0);
  // Three parts go in and three entries out, each sent by one and taken by another of four members.
  EXPECT_DOUBLE_EQ(cost.messages, 3);
  EXPECT_NEAR(cost.send_s, 3 * kOccupancy + 0.75 * bytes * kBeta, 1e-15);
  // Its owner takes three parts, then sends three entries.
  EXPECT_NEAR(cost.send_s + cost.tail_s, 6 * kOccupancy + 3 * bytes * kBeta, 1e-15);
  EXPECT_DOUBLE_EQ(model.latency_s(), 2 * kLatency);
}

TEST(StepModel, HeadersTravelWithEachSliceAndTheLastBucketIsAppliedInTheOpen) {
  StepOptions options = options_of(CostForm::kGroup, UpdateKind::kTopk, 4);
  const StepModel without = make_step_model(kSections, options);
  options.headers = {.contribution = 300, .entry = 500};
  options.apply_s_per_element = 2e-9;
  const StepModel with = make_step_model(kSections, options);
  EXPECT_NEAR(with.bucket(0, 0).send_s - without.bucket(0, 0).send_s, 0.75 * 800 * kBeta, 1e-15);
  EXPECT_NEAR(with.bucket(0, 1).send_s - without.bucket(0, 1).send_s, 0.75 * 1600 * kBeta, 1e-15);
  options.headers = {};
  EXPECT_NEAR(make_step_model(kSections, options).bucket(1, 2).tail_s, without.bucket(1, 2).tail_s + 50'000 * 2e-9,
              1e-15);
  EXPECT_DOUBLE_EQ(with.apply_s(), 60'000 * 2e-9);
  EXPECT_EQ(without.apply_s(), 0);
  options.form = CostForm::kCollective;
  EXPECT_EQ(make_step_model(kSections, options).apply_s(), 0);
}

TEST(StepModel, ABucketOfSeveralOwnersEndsWithTheLargest) {
  const StepModel model = make_step_model(kSections, options_of(CostForm::kGroup, UpdateKind::kTopk, 4));
  const BucketCost& cost = model.bucket(0, 2);
  double all = 0, largest = 0;
  for (const PlanSection& section : kSections) {
    largest =
        topk_bytes(UpdateRole::kContribution, section.elements) + topk_bytes(UpdateRole::kEntry, section.elements);
    all += largest;  // the last section is the largest
  }
  EXPECT_DOUBLE_EQ(cost.messages, 9);
  EXPECT_NEAR(cost.send_s, 9 * kOccupancy + 0.75 * all * kBeta, 1e-15);
  EXPECT_NEAR(cost.send_s + cost.tail_s, (2 * 2 + 2 * 3) * kOccupancy + 3 * largest * kBeta, 1e-15);
}

TEST(StepModel, OwnersRepeatAfterAsManySlicesAsMembers) {
  const std::vector<PlanSection> alike(5, {"layer", 10'000, 0.1});
  const StepModel model = make_step_model(alike, options_of(CostForm::kGroup, UpdateKind::kFp32, 2));
  const double bytes = 4 * 10'000;
  EXPECT_NEAR(model.bucket(0, 1).send_s, 4 * kOccupancy + 2 * bytes * kBeta, 1e-12);
  // Two slices of each owner travel in one part: no message more. Both links are full all the time: no tail.
  EXPECT_NEAR(model.bucket(0, 3).send_s, 4 * kOccupancy + 4 * bytes * kBeta, 1e-12);
  EXPECT_NEAR(model.bucket(0, 3).tail_s, 0, 1e-12);
}

TEST(StepModel, CollectivesCostAStartUpABucket) {
  const StepModel sparse = make_step_model(kSections, options_of(CostForm::kCollective, UpdateKind::kTopk, 8));
  const double bytes = topk_bytes(UpdateRole::kContribution, 10'000) + topk_bytes(UpdateRole::kContribution, 20'000);
  EXPECT_NEAR(sparse.bucket(0, 1).send_s, 7 * (kLatency + bytes * kBeta), 1e-12);
  EXPECT_EQ(sparse.latency_s(), 0);
  const StepModel dense = make_step_model(kSections, options_of(CostForm::kCollective, UpdateKind::kFp32, 8));
  EXPECT_NEAR(dense.bucket(0, 1).send_s, 14 * (kLatency + 4 * 30'000 / 8.0 * kBeta), 1e-12);
}

TEST(StepModel, SelectingCostsOnlyWhatSelects) {
  StepOptions options = options_of(CostForm::kGroup, UpdateKind::kTopk, 4);
  options.select = {.start_s = 1e-4, .s_per_element = 1e-9};
  EXPECT_DOUBLE_EQ(make_step_model(kSections, options).bucket(1, 2).select_s, 1e-4 + 50'000 * 1e-9);
  options.codec.kind = UpdateKind::kBf16;
  EXPECT_EQ(make_step_model(kSections, options).bucket(1, 2).select_s, 0);
}

TEST(StepModel, RefusesTheWrongNumberOfBucketsAndNegativeTimes) {
  EXPECT_DEATH(StepModel({1, 1}, {1, 1}, {{0, 1}, {0, 1}}, 0), "check failed");
  EXPECT_DEATH(StepModel({1}, {1}, {{0, -1}}, 0), "check failed");
  EXPECT_DEATH(StepModel({-1}, {1}, {{0, 1}}, 0), "check failed");
}

}  // namespace
}  // namespace starling
