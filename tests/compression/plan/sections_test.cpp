#include "compression/plan/sections.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "tests/compression/plan/models.h"

namespace starling {
namespace {

std::pair<uint64_t, double> total(const std::vector<PlanSection>& sections) {
  std::pair<uint64_t, double> sum{};
  for (const PlanSection& section : sections) {
    sum.first += section.elements;
    sum.second += section.backward_s;
  }
  return sum;
}

TEST(PlanSections, FaultsAreNamed) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(describe_fault({}), "there are no layers");
  EXPECT_EQ(describe_fault({{"a", 1, 0.1}, {"b", 0, 0.1}}), "layer 'b' has no params");
  EXPECT_EQ(describe_fault({{"a", 1, -0.1}}), "layer 'a' has a backward time that is negative or no number");
  EXPECT_EQ(describe_fault({{"a", 1, nan}}), "layer 'a' has a backward time that is negative or no number");
  EXPECT_EQ(describe_fault({{"a", 1, 0}, {"b", 1, 0}}), "backward takes no time in any layer");
  EXPECT_EQ(describe_fault({{"a", UINT64_MAX, 0.1}}), "the layers have more than 2^40 params");
  EXPECT_EQ(describe_fault({{"a", 1, 1e300}}), "backward takes longer than 10^6 s");
  EXPECT_EQ(describe_fault(std::vector<PlanSection>(1025, {"a", 1, 1})), "1025 layers; a plan takes at most 1024");
  EXPECT_EQ(describe_fault({{"a", 1, 0}, {"b", 1, 0.1}}), "");
}

TEST(PlanSections, SmallOnesJoinTheNext) {
  const auto joined =
      join_small({{"fc", 5000, 1}, {"bn", 100, 2}, {"bias", 10, 3}, {"conv", 2000, 4}, {"stem", 7, 5}}, kSmallSection);
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_EQ(joined[0].name, "fc");
  EXPECT_EQ(joined[1].name, "bn + stem");  // the first and the last of four
  EXPECT_EQ(joined[1].elements, 2117u);
  EXPECT_EQ(joined[1].backward_s, 14);
  EXPECT_EQ(join_small({{"only", 3, 1}}, kSmallSection).size(), 1u);
}

TEST(PlanSections, JoiningKeepsEveryElementAndTheTime) {
  TestRng rng(draw_rng_seed());
  for (int trial = 0; trial < 500; ++trial) {
    const auto sections = draw_sections(rng, 1 + rng() % 300);
    const auto joined = join_small(sections, kSmallSection);
    ASSERT_EQ(total(joined).first, total(sections).first);
    ASSERT_NEAR(total(joined).second, total(sections).second, 1e-9);
    ASSERT_EQ(describe_fault(joined), "");
    if (joined.size() > 1) {
      for (const PlanSection& one : joined) ASSERT_GE(one.elements, kSmallSection);
    }
  }
}

TEST(PlanSections, RunsOfElementsAreCompleteWithTheLastLayerThatTheyTouch) {
  const std::vector<PlanSection> layers = {{"head", 10, 1}, {"bias", 1, 0.5}, {"body", 25, 2}, {"stem", 4, 3}};
  const std::array<uint64_t, 5> sizes = {8, 8, 8, 8, 8};
  const std::vector<PlanSection> slices = cut_at(layers, sizes);
  ASSERT_EQ(slices.size(), 5u);
  const char* names[] = {"head", "head + body", "body", "body", "body + stem"};
  const double times[] = {1, 2.5, 0, 0, 3};  // the second ends in the body, which is complete 2.5 s after the head
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(slices[i].name, names[i]);
    EXPECT_EQ(slices[i].elements, 8u);
    EXPECT_EQ(slices[i].backward_s, times[i]) << i;
  }
}

TEST(PlanSections, RunsOfElementsKeepEveryElementAndTheTime) {
  TestRng rng(draw_rng_seed());
  for (int trial = 0; trial < 500; ++trial) {
    const std::vector<PlanSection> layers = draw_sections(rng, 1 + rng() % 40);
    std::vector<uint64_t> sizes;
    for (uint64_t left = total(layers).first; left > 0; left -= sizes.back()) sizes.push_back(1 + rng() % left);
    const std::vector<PlanSection> slices = cut_at(layers, sizes);
    ASSERT_EQ(total(slices).first, total(layers).first);
    ASSERT_NEAR(total(slices).second, total(layers).second, 1e-9);
    for (size_t i = 0; i < sizes.size(); ++i) ASSERT_EQ(slices[i].elements, sizes[i]);
  }
}

}  // namespace
}  // namespace starling
