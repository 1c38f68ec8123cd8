#include "agent/train/part_copies.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include "tests/agent/train/late_lane.h"
#include "tests/support/fake_clock.h"

namespace starling {
namespace {

constexpr size_t kParts = 7, kCount = 3;
constexpr float kStale = -1;

// Steps of a device that is host memory here. Each leaves other params.
class Steps {
 public:
  Steps() : params_(kParts * kCount), landing_(kParts * kCount), bad_(kParts) {
    copies.emplace(std::make_unique<LateLane>(watch), kParts, MemorySpace::kHost, clock_, [this] {
      ++woken;
      EXPECT_FALSE(ending_ && told.size() == kParts) << "the step's end wakes the owner anyway";
    });
  }

  // One step, part by part from behind; `asks`: what is returned for the part that is told of.
  template <typename Asks>
  void run(Asks asks) {
    std::iota(params_.begin(), params_.end(), static_cast<float>(100 * ++number_));
    std::fill(landing_.begin(), landing_.end(), kStale);
    told.clear();
    steps_.landing = landing_;
    steps_.on_final = [this, asks](const FinalPart& part) {
      EXPECT_EQ(part.count, kCount);
      EXPECT_EQ(part.at, clock_.now());
      EXPECT_FALSE(watch.under_way.contains(part.offset / kCount)) << "told before its copy has landed";
      for (size_t i = part.offset; i < part.offset + part.count; ++i) EXPECT_EQ(landing_[i], params_[i]);
      EXPECT_TRUE(told.insert(part.offset / kCount).second) << "told twice";
      return asks(part.offset / kCount);
    };
    copies->begin_step(steps_);
    for (size_t index = kParts; index-- > 0;) {
      const ConstView part{params_.data() + index * kCount, kCount, MemorySpace::kHost};
      copies->copy(index, index * kCount, part, {&bad_[index], 1, MemorySpace::kHost});
      copies->tell_landed();
      told_early += told.size();
    }
    ending_ = true;
    copies->end_step();
    ending_ = false;
    EXPECT_TRUE(watch.under_way.empty()) << "a step ends when all has landed";
  }
  void run() {
    run([](size_t) { return false; });
  }
  void make_bad(size_t index, float value) { bad_[index] = value; }

  LaneWatch watch;
  std::optional<PartCopies> copies;
  std::set<size_t> told;
  size_t told_early = 0;
  int woken = 0;

 private:
  FakeClock clock_;
  std::vector<float> params_, landing_, bad_;
  LocalSteps steps_;
  int number_ = 0;
  bool ending_ = false;
};

TEST(PartCopies, TellOfEachPartOnceWhenItHasLanded) {
  Steps steps;
  for (int step = 0; step < 200; ++step) {
    steps.run();
    ASSERT_EQ(steps.told.size(), kParts);
  }
  EXPECT_GT(steps.told_early, 200u) << "while others are still computed";
  EXPECT_LT(steps.told_early, 200u * kParts * (kParts + 1) / 2) << "a lane that is never late tests nothing";
}

TEST(PartCopies, WakeTheOwnerWhenAskedAndNotForTheLastPart) {
  Steps steps;
  for (int step = 0; step < 50; ++step) steps.run();
  EXPECT_EQ(steps.woken, 0);
  for (int step = 0; step < 50; ++step) {
    const int before = steps.woken;
    steps.run([](size_t index) { return index == kParts - 1; });  // the first one that is computed
    EXPECT_LE(steps.woken, before + 1);
  }
  EXPECT_GT(steps.woken, 20);
  for (int step = 0; step < 50; ++step) steps.run([](size_t) { return true; });
}

TEST(PartCopies, WhatIsBadIsNotTold) {
  Steps steps;
  steps.make_bad(2, 1);
  steps.make_bad(5, std::numeric_limits<float>::quiet_NaN());
  for (int step = 0; step < 20; ++step) {
    steps.run();
    EXPECT_EQ(steps.told, (std::set<size_t>{0, 1, 3, 4, 6}));
  }
  steps.make_bad(2, 0);
  steps.run();
  EXPECT_TRUE(steps.told.contains(2)) << "it is of its step alone";
}

// Whatever call fails: what was told before was right (run() looks), the step goes on, and nothing is written any more.
TEST(PartCopies, AFailureEndsTellingForGoodAndNotTheStep) {
  size_t told = 0, cases = 0;
  for (int calls = 0;; ++calls, ++cases) {
    Steps steps;
    steps.watch.calls_until_failure = calls;
    steps.run();
    told += steps.told.size();
    if (steps.copies->stopped_because().empty()) break;  // no call was left to fail
    EXPECT_LE(steps.told.size(), kParts);
    EXPECT_EQ(steps.copies->stopped_because(), "the lane is closed");
    EXPECT_TRUE(steps.watch.ended);
    steps.watch.calls_until_failure = -1;
    steps.run();
    EXPECT_TRUE(steps.told.empty()) << "no more of later steps either";
    steps.copies->stop("another reason");
    EXPECT_EQ(steps.copies->stopped_because(), "the lane is closed");
  }
  EXPECT_GT(cases, 2 * kParts);
  EXPECT_GT(told, kParts);
}

TEST(PartCopies, EndWhenTheirCopiesHave) {
  Steps steps;
  steps.copies->stop("the step failed");
  EXPECT_TRUE(steps.watch.ended);
  EXPECT_EQ(steps.copies->stopped_because(), "the step failed");
}

}  // namespace
}  // namespace starling
