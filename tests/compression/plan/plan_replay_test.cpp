#include "compression/plan/plan_replay.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

StepOptions options_of(uint32_t members) {
  StepOptions options;
  options.members = members;
  options.codec = {.kind = UpdateKind::kFp32};
  options.link = {.latency_s = 0.01, .s_per_byte = 1e-6, .occupancy_s = 0.001};
  return options;
}

StepTimes one_bucket(const std::vector<PlanSection>& slices, const StepOptions& options) {
  const StepModel model = make_step_model(slices, options);
  return step_times(model, plan_one_bucket(model.count()));
}

// Two members, one slice of 25,000 elements: 100 kB take .1 s. Processor, uplink, latency, processor, and back.
TEST(PlanReplay, OneSliceOfTwoMembersByHand) {
  const std::vector<PlanSection> slices = {{"a", 25'000, 1}};
  const Replay replay = replay_group(slices, one_bucket(slices, options_of(2)), options_of(2));
  EXPECT_NEAR(replay.times.end_s, 1 + 2 * (0.001 + 0.1 + 0.01 + 0.001), 1e-6);
  EXPECT_EQ(replay.messages_busiest, 2u);
}

// Three members, one owner: its downlink takes two parts one after the other, its uplink carries two entries.
TEST(PlanReplay, OneOwnersLinkIsTheBottleneck) {
  const std::vector<PlanSection> slices = {{"a", 25'000, 1}};
  const Replay replay = replay_group(slices, one_bucket(slices, options_of(3)), options_of(3));
  EXPECT_NEAR(replay.times.end_s, 1 + 2 * (0.001 + 2 * 0.1 + 0.01 + 0.001), 0.002);
  EXPECT_EQ(replay.messages_busiest, 4u);
}

// A slice for each member: all links are busy side by side, and the form says the same.
TEST(PlanReplay, EvenOwnersEndWhenTheFormSays) {
  const std::vector<PlanSection> slices(8, {"a", 25'000, 0.1});
  const StepTimes times = one_bucket(slices, options_of(8));
  const Replay replay = replay_group(slices, times, options_of(8));
  EXPECT_NEAR(replay.times.end_s / times.end_s, 1, 0.02);
  EXPECT_EQ(replay.messages_busiest, 28u);
}

// Two slices of two owners, the second complete .15 s after the first. Neither waits for the other's entry, but an
// uplink carries the first one's entry until 1.213 s, and the second one's part only then.
TEST(PlanReplay, BucketsOfDifferentOwnersAreUnderWaySideBySide) {
  const std::vector<PlanSection> slices = {{"a", 25'000, 1}, {"b", 25'000, 0.15}};
  const StepModel model = make_step_model(slices, options_of(2));
  const Replay replay = replay_group(slices, step_times(model, plan_per_section(2)), options_of(2));
  EXPECT_NEAR(replay.times.end_s, 1.213 + 2 * (0.1 + 0.01 + 0.001) + 0.001, 1e-6);
  EXPECT_EQ(replay.messages_busiest, 4u);
}

// Headers travel too; entries are applied one after the other, but no earlier than backward has ended.
TEST(PlanReplay, CountsHeadersAndWhatApplyingTakes) {
  StepOptions options = options_of(2);
  options.headers = {.contribution = 1000, .entry = 5000};
  options.apply_s_per_element = 1e-6;
  const std::vector<PlanSection> one = {{"a", 25'000, 1}};
  const double sent_s = 2 * (0.001 + 0.1 + 0.01 + 0.001) + 0.006;
  EXPECT_NEAR(replay_group(one, one_bucket(one, options), options).times.end_s, 1 + sent_s + 0.025, 1e-6);
  options.apply_s_per_element = 4e-6;
  const std::vector<PlanSection> long_backward = {{"a", 25'000, 1}, {"b", 1, 1}};
  const StepModel model = make_step_model(long_backward, options);
  const Replay replay = replay_group(long_backward, step_times(model, plan_per_section(2)), options);
  EXPECT_NEAR(replay.times.end_s, 2 + 0.1 + 4e-6, 1e-6) << "the first one's entry came long before";
}

}  // namespace
}  // namespace starling
