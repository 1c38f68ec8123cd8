// When an agent gives freed memory back, and that the system gets it.
#include "agent/process/heap.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/fake_clock.h"
#include "tests/support/sanitized.h"

namespace starling {
namespace {

constexpr size_t kMiB = 1 << 20;

class HeapWatchTest : public testing::Test {
 protected:
  // Looks so many times, at a heap that the test describes.
  void look(size_t times, size_t in_use_mib, size_t resident_mib) {
    use_ = {in_use_mib * kMiB, resident_mib * kMiB};
    for (size_t i = 0; i < times; ++i) {
      clock_.advance(HeapWatch::kLookEvery);
      watch_.tick();
      worker_.run_completions();
    }
  }

  FakeClock clock_;
  InlineWorker worker_;
  HeapUse use_;
  size_t looks_ = 0, given_back_ = 0;
  HeapWatch watch_{clock_, worker_, [this] { return ++looks_, use_; }, [this] { ++given_back_; }};
};

TEST_F(HeapWatchTest, GivesBackWhatNoLookSawInUse) {
  look(HeapWatch::kLooks - 1, 100, 200);
  EXPECT_EQ(given_back_, 0u) << "who has looked for a short time knows little";
  look(1, 100, 200);
  EXPECT_EQ(given_back_, 1u);
  EXPECT_EQ(watch_.times_given_back(), 1u);
}

TEST_F(HeapWatchTest, LooksOnceASecond) {
  for (int i = 0; i < 100; ++i) watch_.tick();
  EXPECT_EQ(looks_, 1u);
}

TEST_F(HeapWatchTest, KeepsWhatRoundsNeed) {
  for (int round = 0; round < 40; ++round) {
    look(1, 190, 200);  // in its middle
    look(9, 100, 200);
  }
  EXPECT_EQ(given_back_, 0u);
  look(HeapWatch::kLooks, 100, 200);
  EXPECT_EQ(given_back_, 1u) << "until they need it no longer";
}

TEST_F(HeapWatchTest, KeepsWhatIsNotWorthIt) {
  look(100, 100, 131);
  EXPECT_EQ(given_back_, 0u);
  look(100, 1000, 1124);
  EXPECT_EQ(given_back_, 0u) << "an eighth";
  look(100, 1000, 1125);
  EXPECT_EQ(given_back_, 1u);
}

// What is no heap, and what lies in holes that are too small.
TEST_F(HeapWatchTest, DoesNotTryAgainForWhatDidNotComeBack) {
  look(200, 100, 200);
  EXPECT_EQ(given_back_, 1u);
  look(200, 100, 231);
  EXPECT_EQ(given_back_, 1u);
  look(200, 100, 232);
  EXPECT_EQ(given_back_, 2u) << "grown by as much as is worth it";
}

TEST_F(HeapWatchTest, WaitsForAWorkerThatIsBusy) {
  look(HeapWatch::kLooks, 100, 200);
  look(3, 100, 200);  // it comes to it only now
  look(HeapWatch::kLooks, 100, 120);
  EXPECT_EQ(given_back_, 1u);
  look(1, 100, 152);
  EXPECT_EQ(given_back_, 2u);
}

TEST(HeapWatch, TheSystemGetsWhatLiesBetweenThingsInUse) {
  if (under_asan() || under_tsan()) GTEST_SKIP() << "the sanitizer brings a heap of its own";
  constexpr size_t kPayloads = 320, kPayloadBytes = kMiB / 2;
  keep_freed_memory();
  std::vector<std::unique_ptr<char[]>> payloads, in_use;
  for (size_t i = 0; i < kPayloads; ++i) {
    payloads.push_back(std::make_unique<char[]>(kPayloadBytes));
    std::memset(payloads.back().get(), 1, kPayloadBytes);
    in_use.push_back(std::make_unique<char[]>(100));
  }
  const HeapUse full = heap_use();
  payloads.clear();
  const HeapUse freed = heap_use();
  EXPECT_LE(freed.in_use + kPayloads * kPayloadBytes, full.in_use + kMiB);
  EXPECT_GE(freed.resident + kMiB, full.resident) << "the heap keeps it for the next round";

  FakeClock clock;
  InlineWorker worker;
  HeapWatch watch(clock, worker);
  for (size_t i = 0; i < HeapWatch::kLooks; ++i) {
    watch.tick();
    clock.advance(HeapWatch::kLookEvery);
  }
  EXPECT_EQ(watch.times_given_back(), 1u);
  EXPECT_LE(heap_use().resident + kPayloads * kPayloadBytes * 9 / 10, full.resident);
}

}  // namespace
}  // namespace starling
