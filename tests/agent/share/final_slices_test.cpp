// Slices become final part by part, in whatever order backward ends.
#include "agent/share/final_slices.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace starling {
namespace {

using std::chrono::milliseconds;
using Slices = std::vector<uint32_t>;

const std::vector<SliceRange> kThree = {{0, 10}, {10, 20}, {30, 5}};
const Slices kAlone = {0, 1, 2};
const TimePoint kNow = TimePoint(std::chrono::seconds(100));

TEST(FinalSlices, ASliceIsFinalWithTheLastOfItsParts) {
  FinalSlices slices(kThree);
  slices.begin_step(kAlone);
  EXPECT_EQ(slices.take(kNow), Slices{});
  EXPECT_TRUE(slices.add({25, 10, kNow}));  // all of the last slice, and the end of the one before
  EXPECT_EQ(slices.take(kNow), Slices{2});
  EXPECT_TRUE(slices.add({0, 12, kNow}));
  EXPECT_TRUE(slices.add({12, 13, kNow}));
  EXPECT_EQ(slices.take(kNow), (Slices{0, 1})) << "in the order in which they became final";
  EXPECT_EQ(slices.take(kNow), Slices{}) << "each once";
  slices.begin_step(kAlone);
  EXPECT_EQ(slices.take(kNow), Slices{});
  slices.add({0, 35, kNow});
  EXPECT_EQ(slices.take(kNow), (Slices{0, 1, 2})) << "another step";
}

TEST(FinalSlices, WhatIsToldBeforehandIsTakenWhenItsTimeHasCome) {
  FinalSlices slices(kThree);
  slices.begin_step(kAlone);
  EXPECT_EQ(slices.next(), TimePoint::max());
  EXPECT_TRUE(slices.add({30, 5, kNow + milliseconds(2)})) << "later";
  slices.add({10, 10, kNow + milliseconds(9)});
  slices.add({20, 10, kNow + milliseconds(4)});
  slices.add({0, 10, kNow + milliseconds(6)});
  EXPECT_EQ(slices.next(), kNow + milliseconds(2));
  EXPECT_EQ(slices.take(kNow + milliseconds(1)), Slices{});
  EXPECT_EQ(slices.take(kNow + milliseconds(7)), (Slices{2, 0}));
  EXPECT_EQ(slices.next(), kNow + milliseconds(9)) << "of its latest part";
  EXPECT_EQ(slices.take(kNow + milliseconds(9)), Slices{1});
}

TEST(FinalSlices, ABucketIsTakenWithTheLastOfItsSlices) {
  FinalSlices slices(kThree);
  slices.begin_step({0, 1, 1});
  EXPECT_FALSE(slices.add({30, 5, kNow}));
  EXPECT_EQ(slices.take(kNow), Slices{}) << "its other slice is not final";
  slices.add({10, 20, kNow + milliseconds(3)});
  slices.add({0, 10, kNow + milliseconds(2)});
  EXPECT_EQ(slices.next(), kNow + milliseconds(2));
  EXPECT_EQ(slices.take(kNow + milliseconds(9)), (Slices{0, 2, 1})) << "within a bucket the last one first";
  slices.begin_step({0, 0, 0});
  EXPECT_FALSE(slices.add({0, 34, kNow}));
  EXPECT_EQ(slices.take(kNow), Slices{});
  EXPECT_TRUE(slices.add({34, 1, kNow}));
  EXPECT_EQ(slices.take(kNow), (Slices{2, 1, 0})) << "another plan, another step";
}

TEST(FinalSlices, APartThatIsToldTwiceIsABug) {
  FinalSlices slices(kThree);
  slices.begin_step(kAlone);
  slices.add({0, 10, kNow});
  EXPECT_DEATH(slices.add({5, 1, kNow}), "final_elements_");
}

// Under ThreadSanitizer a lock that is missing shows.
TEST(FinalSlices, TakesWhileAnotherThreadTells) {
  std::vector<SliceRange> ranges;
  for (size_t i = 0; i < 64; ++i) ranges.push_back({8 * i, 8});
  FinalSlices slices(ranges);
  Slices buckets(64);
  std::iota(buckets.begin(), buckets.end(), 0);
  slices.begin_step(buckets);
  std::thread trainer([&] {
    for (size_t end = 64 * 8; end > 0; end -= 4) slices.add({end - 4, 4, kNow});
  });
  Slices taken;
  while (taken.size() < 64) {
    for (const uint32_t slice : slices.take(kNow)) taken.push_back(slice);
    std::this_thread::yield();
  }
  trainer.join();
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(taken[i], 63 - i);
}

}  // namespace
}  // namespace starling
