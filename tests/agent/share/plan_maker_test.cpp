// Costs are fitted to rounds that differ, and a plan follows from them.
#include "agent/share/plan_maker.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "compression/plan/merge_plan.h"
#include "tests/support/log_text.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
constexpr uint32_t kSlices = 12, kMembers = 4;
constexpr double kMessage = 2e-3, kByte = 1e-9, kLatency = 5e-3;

std::vector<SliceRange> slices() {
  std::vector<SliceRange> all;
  for (size_t i = 0; i < kSlices; ++i) all.push_back({20000 * i, 20000});
  return all;
}

std::vector<uint32_t> alone() {
  std::vector<uint32_t> ends;
  for (uint32_t end = 1; end <= kSlices; ++end) ends.push_back(end);
  return ends;
}

// A round whose links cost what the constants say. What it waits for: slices held back, each bucket a message.
void take_round(PlanMaker& maker, double byte_s = kByte) {
  maker.begin_round();
  const std::vector<uint32_t> trial = maker.trial_ends();
  const uint64_t buckets = trial.empty() ? kSlices : trial.size();
  const uint64_t held = maker.held_back();
  const uint64_t messages = 6 * (1 + held * buckets / kSlices), bytes = 100'000 * (1 + held);
  const double took = 2 * kLatency + kMessage * static_cast<double>(messages) + byte_s * static_cast<double>(bytes);
  maker.add_exchange(messages, bytes, from_seconds(took));
  std::vector<Duration> final_after(kSlices);
  for (size_t i = 0; i < kSlices; ++i) final_after[i] = milliseconds(10 + 2 * (kSlices - i));
  maker.add_step(final_after);
  for (const size_t elements : {20000, 40000, 80000}) {
    maker.add_selection(elements, from_seconds(1e-5 + 2e-9 * static_cast<double>(elements)));
  }
}

TEST(PlanMaker, TriesRoundsThatDifferAndThenOneInTwentyFive) {
  PlanMaker maker(slices(), {});
  std::set<std::pair<size_t, uint32_t>> tried;
  for (int round = 0; round < 20; ++round) {
    maker.begin_round();
    ASSERT_FALSE(maker.trial_ends().empty());
    EXPECT_EQ(maker.trial_ends().back(), kSlices);
    tried.insert({maker.trial_ends().size(), maker.held_back()});
  }
  EXPECT_EQ(tried.size(), 10u) << "alone and together, 0 to 12 slices held back";
  int trials = 0;
  for (int round = 20; round < 120; ++round) {
    maker.begin_round();
    trials += !maker.trial_ends().empty();
    EXPECT_TRUE(!maker.trial_ends().empty() || maker.held_back() == 0);
  }
  EXPECT_EQ(trials, 4);
}

TEST(PlanMaker, FitsWhatRoundsCostAndMergesWhereMessagesAreDear) {
  PlanMaker maker(slices(), {});
  std::shared_ptr<PlanMaker::Thought> thought;
  for (int round = 1; round <= 52; ++round) {
    EXPECT_EQ(thought, nullptr) << round;
    take_round(maker);
    thought = maker.think(kMembers, alone());
  }
  ASSERT_NE(thought, nullptr);
  EXPECT_NEAR(thought->link.cost.occupancy_s, kMessage, 1e-6);
  EXPECT_NEAR(thought->link.cost.s_per_byte, kByte, 1e-12);
  EXPECT_NEAR(thought->link.cost.latency_s, kLatency, 1e-5);
  EXPECT_GT(thought->link.r_squared, 0.999);
  EXPECT_NEAR(thought->select.s_per_element, 2e-9, 1e-12);
  EXPECT_GT(thought->select_r_squared, 0.999);
  ASSERT_EQ(thought->sections.size(), kSlices);
  EXPECT_NEAR(thought->sections[0].backward_s, 12e-3, 1e-9) << "of the last slice, which is final first";
  EXPECT_NEAR(thought->sections[5].backward_s, 2e-3, 1e-9);
  thought->run();
  EXPECT_TRUE(is_plan({thought->best}, kSlices));
  EXPECT_LT(thought->best.size(), kSlices);
  EXPECT_GT(thought->gain, PlanMaker::kGainMin);
  const std::string text = thought->describe();
  EXPECT_NE(text.find(" us (alone R^2 1.00), a MB "), std::string::npos) << text;
  EXPECT_NE(text.find(" ms (1.00), together R^2 1.00, "), std::string::npos) << text;
  const std::vector<uint32_t> best = thought->best;
  EXPECT_EQ(maker.choose(*thought), best);
  for (int round = 53; round <= 84; ++round) {
    take_round(maker);
    thought = maker.think(kMembers, best);
    EXPECT_EQ(thought != nullptr, round == 84);
  }
  thought->run();
  EXPECT_EQ(thought->best, best);
  EXPECT_NEAR(thought->gain, 0, 1e-9) << "nothing is gained beside the plan that holds";
  EXPECT_EQ(maker.choose(*thought), std::vector<uint32_t>{});
}

TEST(PlanMaker, PlansForPayloadsAsTheyAreAfterTheWarmUp) {
  UpdateOptions codec{.kind = UpdateKind::kDgc, .density = 0.01};
  PlanMaker plain(slices(), codec);
  codec.warmup = 100;
  PlanMaker warmed(slices(), codec);
  std::shared_ptr<PlanMaker::Thought> of_plain, of_warmed;
  for (int round = 1; round <= 52; ++round) {
    take_round(plain, 1e-7);
    take_round(warmed, 1e-7);
    of_plain = plain.think(kMembers, alone());
    of_warmed = warmed.think(kMembers, alone());
  }
  ASSERT_TRUE(of_plain && of_warmed);
  of_plain->run();
  of_warmed->run();
  EXPECT_EQ(of_warmed->best, of_plain->best);
  EXPECT_DOUBLE_EQ(of_warmed->gain, of_plain->gain);
}

TEST(PlanMaker, FitsSelectionToTheNewestOnes) {
  PlanMaker maker(slices(), {});
  for (int round = 1; round <= 51; ++round) take_round(maker);
  for (const double cost : {1e-9, 3e-9}) {  // each fills the window
    for (int i = 0; i < 600; ++i) {
      const size_t elements = 10000 * (1 + i % 4);
      maker.add_selection(elements, from_seconds(cost * static_cast<double>(elements)));
    }
  }
  take_round(maker);
  EXPECT_NEAR(maker.think(kMembers, alone())->select.s_per_element, 3e-9, 1e-12);
}

// A prediction is no measurement.
TEST(PlanMaker, GivesUpAPlanWhoseRoundsProveSlower) {
  PlanMaker maker(slices(), {});
  const auto take_rounds = [&](int count, const std::vector<uint32_t>& ends, Duration took) {
    std::shared_ptr<PlanMaker::Thought> last;
    for (int round = 0; round < count; ++round) {
      take_round(maker);
      maker.add_round(ends, took);
      if (const auto thought = maker.think(kMembers, ends)) last = thought;
    }
    if (last) last->run();
    return last;
  };
  auto thought = take_rounds(52, alone(), milliseconds(100));
  const std::vector<uint32_t> best = maker.choose(*thought);
  ASSERT_EQ(best, thought->best);
  EXPECT_EQ(maker.choose(*take_rounds(32, best, milliseconds(95))), std::vector<uint32_t>{}) << "it stays";
  EXPECT_EQ(maker.choose(*take_rounds(96, best, milliseconds(103))), alone());
  EXPECT_EQ(maker.choose(*take_rounds(32, alone(), milliseconds(100))), std::vector<uint32_t>{}) << "not again";
}

// Steps of a millisecond: a plan of one, each 32 rounds, would take a thirtieth of a processor.
TEST(PlanMaker, TakesAtMostAThousandthOfTheTime) {
  PlanMaker maker(slices(), {});
  std::vector<int> thought_at;
  for (int round = 1; round <= 4000; ++round) {
    take_round(maker);
    maker.add_round(alone(), milliseconds(1));
    if (maker.think(kMembers, alone()) == nullptr) continue;
    maker.add_thought(milliseconds(1));
    thought_at.push_back(round);
  }
  EXPECT_EQ(thought_at, (std::vector<int>{52, 1076, 2100, 3124})) << "the first rounds of 32 after a second";
}

// The first bucket of backward is that of the last slices.
TEST(PlanMaker, CountsSlicesAgainstTheOrderOfBackward) {
  PlanMaker::Thought thought;
  for (int i = 0; i < 4; ++i) thought.sections.push_back({"s", 20000, i == 3 ? 1.0 : 1e-6});
  thought.members = 2;
  thought.link.cost = {.latency_s = 0, .s_per_byte = 1e-9, .occupancy_s = 1e-2};
  thought.now = {1, 2, 3, 4};
  thought.run();
  // The three slices that are final first travel while backward still computes slice 0.
  EXPECT_EQ(thought.best, (std::vector<uint32_t>{1, 4}));
}

// Over a thin link the best plan by the form is 7 % slower than each slice alone, when it is played.
TEST(PlanMaker, NeverThinksOfAPlanThatIsSlowerWhenPlayed) {
  PlanMaker::Thought thought;
  for (uint32_t end = 1; end <= 20; ++end) {
    thought.sections.push_back({"s", 500'000, 0.01});
    thought.now.push_back(end);
  }
  thought.members = 8;
  thought.codec = {.kind = UpdateKind::kTopk, .density = 0.01};
  thought.link.cost = {.latency_s = 1e-3, .s_per_byte = 8e-8, .occupancy_s = 3e-5};
  thought.run();
  EXPECT_GE(thought.gain, 0);
}

TEST(PlanMaker, KeepsTheLastCostsWhereABytesCostIsNotAboveZero) {
  PlanMaker none(slices(), {});
  for (int round = 1; round <= 52; ++round) take_round(none, -kByte);
  EXPECT_EQ(none.think(kMembers, alone()), nullptr) << "nothing was measured before";
  PlanMaker maker(slices(), {});
  for (int round = 1; round <= 52; ++round) take_round(maker);
  ASSERT_NE(maker.think(kMembers, alone()), nullptr);
  std::shared_ptr<PlanMaker::Thought> thought;
  for (int round = 53; round <= 52 + 32 * 17; ++round) {  // more than the window of samples
    take_round(maker, -kByte);
    if (const auto next = maker.think(kMembers, alone())) thought = next;
  }
  ASSERT_NE(thought, nullptr);
  // Fits go on while the window still has rounds of before; the last good one stays.
  EXPECT_GT(thought->link.cost.s_per_byte, 0);
}

// Rounds whose costs are as given, more than the window of samples holds; the thought after the last of them.
std::shared_ptr<PlanMaker::Thought> think_after_a_window(PlanMaker& maker, double byte_s) {
  std::shared_ptr<PlanMaker::Thought> thought;
  for (int round = 0; round < 32 * 17; ++round) {
    take_round(maker, byte_s);
    if (const auto next = maker.think(kMembers, alone())) thought = next;
  }
  if (thought) thought->run();
  return thought;
}

TEST(PlanMaker, SaysOnceThatAByteCostsNothingAndKeepsThePlan) {
  const LogText log;
  PlanMaker maker(slices(), {});
  for (int round = 1; round <= 20; ++round) take_round(maker);
  for (int time = 0; time < 3; ++time) {
    const auto good = think_after_a_window(maker, kByte);
    ASSERT_NE(good, nullptr);
    EXPECT_EQ(maker.choose(*good), good->best);
    const auto bad = think_after_a_window(maker, -kByte);
    ASSERT_NE(bad, nullptr);
    EXPECT_GT(bad->gain, PlanMaker::kGainMin) << "by what was measured before";
    EXPECT_EQ(maker.choose(*bad), std::vector<uint32_t>{}) << "the plan that holds stays";
  }
  const std::string said = log.text(), warning = "the measured cost of a byte is zero, so the plan stays as it is";
  const size_t first = said.find(warning);
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find(warning, first + 1), std::string::npos) << said;
}

// A plan costs rounds until it holds, and forecasts are wrong by some percent.
TEST(PlanMaker, ChangesThePlanForFivePercentAndNoLess) {
  const PlanMaker maker(slices(), {});
  PlanMaker::Thought thought;
  thought.now = alone();
  thought.best = {kSlices};
  thought.gain = 0.0499;
  EXPECT_EQ(maker.choose(thought), std::vector<uint32_t>{});
  thought.gain = 0.0501;
  EXPECT_EQ(maker.choose(thought), thought.best);
}

TEST(PlanMaker, ThinksOfNothingAlone) {
  PlanMaker maker(slices(), {});
  for (int round = 1; round <= 52; ++round) take_round(maker);
  EXPECT_EQ(maker.think(1, alone()), nullptr);
}

}  // namespace
}  // namespace starling
