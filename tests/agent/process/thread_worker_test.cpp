// Jobs on a thread of their own, completions on the caller's, and what becomes of a job that throws.
#include "agent/process/thread_worker.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <xmmintrin.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace starling {
namespace {

// Counts the worker's calls of wake.
class Alarm {
 public:
  void ring() {
    const std::lock_guard lock(mutex_);
    ++rung_;
    rang_.notify_all();
  }
  bool wait_for(int count) {
    std::unique_lock lock(mutex_);
    return rang_.wait_for(lock, std::chrono::seconds(30), [&] { return rung_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable rang_;
  int rung_ = 0;
};

TEST(ThreadWorker, JobsRunInOrderOnItsThreadAndCompletionsOnTheCallers) {
  Alarm alarm;
  ThreadWorker worker([&alarm] { alarm.ring(); });
  std::vector<int> jobs, completions;
  std::thread::id job_thread, completion_thread;
  for (int number = 0; number < 3; ++number) {
    worker.submit([&, number] { jobs.push_back(number), job_thread = std::this_thread::get_id(); },
                  [&, number] { completions.push_back(number), completion_thread = std::this_thread::get_id(); });
  }
  for (int rings = 1; completions.size() < 3; ++rings) {
    ASSERT_TRUE(alarm.wait_for(rings));
    worker.run_completions();
  }
  EXPECT_EQ(jobs, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(completions, (std::vector<int>{0, 1, 2}));
  EXPECT_NE(job_thread, std::this_thread::get_id());
  EXPECT_EQ(completion_thread, std::this_thread::get_id());
}

TEST(ThreadWorker, ANicerThreadLeavesTheOthersAsTheyAre) {
  const int own = ::getpriority(PRIO_PROCESS, 0);
  Alarm alarm;
  ThreadWorker worker([&alarm] { alarm.ring(); }, 7);
  int priority = own;
  worker.submit([&] { priority = ::getpriority(PRIO_PROCESS, 0); }, [] {});
  ASSERT_TRUE(alarm.wait_for(1));
  worker.run_completions();
  EXPECT_EQ(priority, std::min(own + 7, 19));
  EXPECT_EQ(::getpriority(PRIO_PROCESS, 0), own);
}

TEST(ThreadWorker, JobsKeepDenormalsWhereTheProcessFlushesThem) {
  constexpr unsigned kFlushed = 0x8040;  // results and operands, as torch.set_flush_denormal() has them
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | kFlushed);
  Alarm alarm;
  ThreadWorker worker([&alarm] { alarm.ring(); });
  _mm_setcsr(before);
  volatile float small = 0x1p-130f;
  float half = 0;
  worker.submit([&] { half = small * 0.5f; }, [] {});
  ASSERT_TRUE(alarm.wait_for(1));
  worker.run_completions();
  EXPECT_EQ(half, 0x1p-131f);
}

TEST(ThreadWorker, WhatAJobThrowsIsThrownOnTheControlThread) {
  Alarm alarm;
  ThreadWorker worker([&alarm] { alarm.ring(); });
  bool completed = false, ran_after = false;
  worker.submit([] { throw std::bad_alloc(); }, [&] { completed = true; });
  worker.submit([&] { ran_after = true; }, [&] { completed = true; });
  ASSERT_TRUE(alarm.wait_for(1));
  EXPECT_THROW(worker.run_completions(), std::bad_alloc);
  worker.stop();
  worker.run_completions();  // nothing is left of the second job
  EXPECT_FALSE(completed);
  EXPECT_FALSE(ran_after);
}

}  // namespace
}  // namespace starling
