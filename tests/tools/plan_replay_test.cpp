#include "tools/experiments/plan_replay.h"

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
  EXPECT_NEAR(replay.end_s, 1 + 2 * (0.001 + 0.1 + 0.01 + 0.001), 1e-6);
  EXPECT_EQ(replay.messages_busiest, 2u);
}

// Three members, one owner: its downlink takes two parts one after the other, its uplink carries two entries.
TEST(PlanReplay, OneOwnersLinkIsTheBottleneck) {
  const std::vector<PlanSection> slices = {{"a", 25'000, 1}};
  const Replay replay = replay_group(slices, one_bucket(slices, options_of(3)), options_of(3));
  EXPECT_NEAR(replay.end_s, 1 + 2 * (0.001 + 2 * 0.1 + 0.01 + 0.001), 0.002);
  EXPECT_EQ(replay.messages_busiest, 4u);
}

// A slice for each member: all links are busy side by side, and the form says the same.
TEST(PlanReplay, EvenOwnersEndWhenTheFormSays) {
  const std::vector<PlanSection> slices(8, {"a", 25'000, 0.1});
  const StepTimes times = one_bucket(slices, options_of(8));
  const Replay replay = replay_group(slices, times, options_of(8));
  EXPECT_NEAR(replay.end_s / times.end_s, 1, 0.02);
  EXPECT_EQ(replay.messages_busiest, 28u);
}

}  // namespace
}  // namespace starling
