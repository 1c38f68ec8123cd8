#include "agent/train/trainer_thread.h"

#include <utility>

#include "kernels/check.h"

namespace starling {

TrainerThread::TrainerThread(std::function<void()> on_idle)
    : on_idle_(std::move(on_idle)), thread_([this] { loop(); }) {}

TrainerThread::~TrainerThread() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void TrainerThread::start(std::function<void()> job) {
  STARLING_CHECK(idle());
  failure_ = nullptr;
  idle_.store(false, std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    job_ = std::move(job);
  }
  wake_.notify_one();
}

void TrainerThread::rethrow_failure() {
  STARLING_CHECK(idle());
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void TrainerThread::loop() {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return job_ || leaving_; });
      if (!job_) return;
      job = std::exchange(job_, nullptr);
    }
    try {
      job();
    } catch (...) {
      failure_ = std::current_exception();
    }
    idle_.store(true, std::memory_order_release);
    if (on_idle_) on_idle_();
  }
}

}  // namespace starling
