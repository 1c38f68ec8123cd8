#include "compression/plan/merge_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/compression/plan/models.h"
#include "tests/support/seeds.h"

namespace starling {
namespace {

// The plan whose cuts are the bits of `cuts`: bit i is set where section i ends a bucket.
MergePlan plan_of(uint64_t cuts, size_t count) {
  MergePlan plan;
  for (uint32_t i = 0; i + 1 < count; ++i) {
    if ((cuts >> i & 1) != 0) plan.ends.push_back(i + 1);
  }
  plan.ends.push_back(static_cast<uint32_t>(count));
  return plan;
}

double brute_force_s(const StepModel& model) {
  double least = step_end_s(model, plan_of(0, model.count()));
  for (uint64_t cuts = 1; cuts < uint64_t{1} << (model.count() - 1); ++cuts) {
    least = std::min(least, step_end_s(model, plan_of(cuts, model.count())));
  }
  return least;
}

// The same arithmetic in another way: time goes on bucket by bucket, with sums of their own.
double end_by_hand(const StepModel& model, const MergePlan& plan) {
  double compute_s = 0, link_free_s = 0;
  size_t first = 0;
  for (const size_t end : plan.ends) {
    for (size_t i = first; i < end; ++i) compute_s += model.backward_s(i, i);
    compute_s += model.bucket(first, end - 1).select_s;
    if (link_free_s < compute_s) link_free_s = compute_s;
    link_free_s += model.bucket(first, end - 1).send_s;
    if (end == model.count()) link_free_s += model.bucket(first, end - 1).tail_s;
    first = end;
  }
  return std::max(link_free_s + model.latency_s(), compute_s + model.apply_s());
}

TEST(MergePlan, EqualsBruteForceWhateverTheCosts) {
  TestRng rng(draw_rng_seed());
  for (uint64_t trial = 0; trial < seed_count(4000); ++trial) {
    const StepModel model = arbitrary_model(rng, 1 + rng() % 9);
    ASSERT_EQ(step_end_s(model, best_plan(model)), brute_force_s(model)) << "trial " << trial;
  }
}

TEST(MergePlan, EqualsBruteForceOnLayersOverLinks) {
  TestRng rng(draw_rng_seed());
  for (uint64_t trial = 0; trial < seed_count(2000); ++trial) {
    const auto sections = draw_sections(rng, 1 + rng() % 11);
    const StepModel model = make_step_model(sections, draw_options(rng));
    ASSERT_EQ(step_end_s(model, best_plan(model)), brute_force_s(model)) << "trial " << trial;
  }
}

TEST(MergePlan, EqualsBruteForceOfSixteenSections) {
  TestRng rng(draw_rng_seed());
  for (uint64_t trial = 0; trial < seed_count(20); ++trial) {
    const StepModel model =
        trial % 2 == 0 ? arbitrary_model(rng, 16) : make_step_model(draw_sections(rng, 16), draw_options(rng));
    ASSERT_EQ(step_end_s(model, best_plan(model)), brute_force_s(model)) << "trial " << trial;
  }
}

TEST(MergePlan, IsNeverSlowerThanAnyOther) {
  TestRng rng(draw_rng_seed());
  for (uint64_t trial = 0; trial < seed_count(200); ++trial) {
    const size_t count = 1 + rng() % 120;
    const StepModel model =
        trial % 2 == 0 ? arbitrary_model(rng, count) : make_step_model(draw_sections(rng, count), draw_options(rng));
    const double best_s = step_end_s(model, best_plan(model));
    for (const MergePlan& other : {plan_per_section(count), plan_one_bucket(count), plan_by_bytes(model),
                                   plan_by_bytes(model, 1 << 20), plan_greedy(model)}) {
      ASSERT_TRUE(is_plan(other, count));
      ASSERT_LE(best_s, step_end_s(model, other)) << "trial " << trial;
    }
  }
}

TEST(MergePlan, EveryCutGainsSomething) {
  TestRng rng(draw_rng_seed());
  for (uint64_t trial = 0; trial < seed_count(200); ++trial) {
    const StepModel model = make_step_model(draw_sections(rng, 1 + rng() % 60), draw_options(rng));
    const MergePlan plan = best_plan(model);
    ASSERT_TRUE(is_plan(plan, model.count()));
    for (size_t cut = 0; cut + 1 < plan.ends.size(); ++cut) {
      MergePlan fewer = plan;
      fewer.ends.erase(fewer.ends.begin() + static_cast<std::ptrdiff_t>(cut));
      ASSERT_GT(step_end_s(model, fewer), step_end_s(model, plan)) << "trial " << trial << ", cut " << cut;
    }
  }
}

TEST(MergePlan, TimesAddUp) {
  TestRng rng(draw_rng_seed());
  for (uint64_t trial = 0; trial < seed_count(500); ++trial) {
    const size_t count = 1 + rng() % 30;
    const StepModel model = arbitrary_model(rng, count);
    const MergePlan plan = plan_of(rng(), count);
    const StepTimes times = step_times(model, plan);
    ASSERT_EQ(times.end_s, step_end_s(model, plan));
    ASSERT_NEAR(times.end_s, end_by_hand(model, plan), 1e-9);
    ASSERT_EQ(times.buckets.size(), plan.ends.size());
    double before_s = 0;
    for (const BucketTimes& bucket : times.buckets) {
      ASSERT_LE(bucket.select_begin_s, bucket.select_end_s);
      ASSERT_LE(bucket.select_end_s, bucket.send_begin_s);
      ASSERT_LE(before_s, bucket.send_begin_s) << "one bucket after the other";
      ASSERT_LE(bucket.send_begin_s, bucket.send_end_s);
      before_s = bucket.send_end_s;
    }
    ASSERT_EQ(times.buckets.back().last, count - 1);
    const double tail_s = model.bucket(times.buckets.back().first, count - 1).tail_s;
    ASSERT_EQ(times.end_s, std::max(before_s + tail_s + model.latency_s(), times.compute_end_s + model.apply_s()));
  }
}

// Three sections of 1 s each. A bucket costs 1.5 s and .1 s a section: the second must wait if the first is sent alone.
StepModel three_sections() {
  std::vector<BucketCost> buckets;
  for (const int size : {1, 2, 3, 1, 2, 1}) buckets.push_back({0, 1.5 + 0.1 * size});
  return StepModel({1, 1, 1}, {1000, 1000, 1000}, buckets, 0.25);
}

TEST(MergePlan, KnownExample) {
  const StepModel model = three_sections();
  EXPECT_DOUBLE_EQ(step_end_s(model, {{1, 2, 3}}), 1 + 3 * 1.6 + 0.25);
  EXPECT_DOUBLE_EQ(step_end_s(model, {{3}}), 3 + 1.8 + 0.25);
  EXPECT_DOUBLE_EQ(step_end_s(model, {{1, 3}}), 3 + 1.7 + 0.25);  // the first is sent meanwhile
  EXPECT_EQ(best_plan(model), (MergePlan{{1, 3}}));
  const StepTimes times = step_times(model, {{1, 3}});
  EXPECT_DOUBLE_EQ(times.buckets[0].send_begin_s, 1);
  EXPECT_DOUBLE_EQ(times.buckets[0].send_end_s, 2.6);
  EXPECT_DOUBLE_EQ(times.buckets[1].send_begin_s, 3);
  EXPECT_DOUBLE_EQ(times.compute_end_s, 3);
}

// Where selecting two at once costs less than one by one, a bucket that is sent later can end backward earlier: the
// program must keep both. A plan by send ends alone takes {1, 3}, which is slower.
TEST(MergePlan, KeepsWhatComputesLessAndSendsLater) {
  const std::vector<BucketCost> buckets = {{3, 1}, {2, 4}, {9, 9}, {3, 1}, {9, 9}, {0, 1}};
  const StepModel model({1, 1, 4}, {1000, 1000, 1000}, buckets, 0);
  EXPECT_EQ(step_end_s(model, {{1, 2, 3}}), 1 + 3 + 1 + 3 + 4 + 1);
  EXPECT_EQ(step_end_s(model, {{2, 3}}), 2 + 2 + 4 + 1);
  EXPECT_EQ(best_plan(model), (MergePlan{{2, 3}}));
}

// Nothing hides the end of the last bucket, though the link would be free.
TEST(MergePlan, TheLastBucketsTailCounts) {
  std::vector<BucketCost> buckets;
  for (const double tail_s : {7.0, 1.5, 5.0, 0.0, 9.0, 1.0}) buckets.push_back({0, 0.5, tail_s});
  const StepModel model({1, 1, 1}, {1, 1, 1}, buckets, 0);
  EXPECT_EQ(best_plan(model), (MergePlan{{2, 3}}));
  EXPECT_EQ(step_end_s(model, {{3}}), 3 + 0.5 + 5);
  EXPECT_EQ(step_end_s(model, {{2, 3}}), 3 + 0.5 + 1);
}

TEST(MergePlan, OneSectionHasOnePlan) {
  const StepModel model({0.5}, {1 << 30}, {{0.25, 2}}, 1);
  EXPECT_EQ(best_plan(model), (MergePlan{{1}}));
  EXPECT_EQ(plan_greedy(model), (MergePlan{{1}}));
  EXPECT_EQ(plan_by_bytes(model), (MergePlan{{1}}));
  EXPECT_EQ(step_end_s(model, {{1}}), 0.5 + 0.25 + 2 + 1);
}

// An embedding, done last and larger than all else, hides behind nothing; what is done before it can hide.
TEST(MergePlan, AnEmbeddingLargerThanAllElseIsSentAlone) {
  std::vector<PlanSection> sections(8, {"hidden", 100'000, 0.01});
  sections.push_back({"embedding", 50'000'000, 0.001});
  StepOptions options;
  options.codec.kind = UpdateKind::kTopk;
  options.form = CostForm::kCollective;
  options.link = {.latency_s = 1e-4, .s_per_byte = 8e-9};
  const StepModel model = make_step_model(sections, options);
  const MergePlan plan = best_plan(model);
  ASSERT_GE(plan.ends.size(), 2u);
  EXPECT_EQ(plan.ends[plan.ends.size() - 2], 8u);
}

TEST(MergePlan, BucketsByBytesAreThoseOfDdp) {
  const std::vector<PlanSection> sections(12, {"layer", 1'000'000, 0.01});  // 4 MB of gradient each
  const StepModel model = make_step_model(sections, {});
  EXPECT_EQ(plan_by_bytes(model), (MergePlan{{1, 8, 12}}));  // 1 MiB is full at once, 25 MiB after seven more
  EXPECT_EQ(plan_by_bytes(model, 1 << 20), plan_per_section(12));
}

// The published greedy decides from one neighbor to the next: in a known case it stays behind the best plan.
TEST(MergePlan, TheGreedyMergesWhereWaitingSavesMore) {
  EXPECT_EQ(plan_greedy(three_sections()), (MergePlan{{3}}));  // 1 s of waiting saves 1.5 s, twice
  EXPECT_GT(step_end_s(three_sections(), plan_greedy(three_sections())),
            step_end_s(three_sections(), best_plan(three_sections())));
  const std::vector<BucketCost> cheap(6, {0, 0.01});
  EXPECT_EQ(plan_greedy(StepModel({1, 1, 1}, {9, 9, 9}, cheap, 0)), plan_per_section(3));  // nothing to save
}

TEST(MergePlan, WhatIsNoPlanIsKnown) {
  for (const MergePlan& plan : {MergePlan{}, MergePlan{{1, 2}}, MergePlan{{4}}, MergePlan{{2, 2, 3}},
                                MergePlan{{2, 1, 3}}, MergePlan{{0, 3}}}) {
    EXPECT_FALSE(is_plan(plan, 3)) << plan.ends.size();
  }
  EXPECT_TRUE(is_plan({{1, 3}}, 3));
  EXPECT_FALSE(is_plan({}, 0));
}

}  // namespace
}  // namespace starling
