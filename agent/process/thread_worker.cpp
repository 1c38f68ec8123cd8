#include "agent/process/thread_worker.h"

#include <sys/resource.h>

#include <cfenv>
#include <exception>

namespace starling {

ThreadWorker::ThreadWorker(std::function<void()> wake, int niceness)
    : wake_(std::move(wake)), thread_([this, niceness] { run(niceness); }) {}

ThreadWorker::~ThreadWorker() { stop(); }

void ThreadWorker::stop() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ready_.notify_one();
  thread_.join();
}

bool ThreadWorker::busy() const {
  std::lock_guard lock(mutex_);
  return running_ || !waiting_.empty();
}

void ThreadWorker::submit(std::function<void()> job, std::function<void()> done) {
  {
    std::lock_guard lock(mutex_);
    waiting_.emplace_back(std::move(job), std::move(done));
  }
  ready_.notify_one();
}

void ThreadWorker::run_completions() {
  std::vector<std::function<void()>> ready;
  {
    std::lock_guard lock(mutex_);
    ready.swap(done_);
  }
  for (auto& done : ready) done();
}

void ThreadWorker::run(int niceness) {
  // A host process may flush denormals, as torch.set_flush_denormal() and libraries built with -ffast-math do, and a
  // thread inherits that. Replicas would then differ in bits from those of other members.
  std::fesetenv(FE_DFL_ENV);
  if (niceness > 0) ::setpriority(PRIO_PROCESS, 0, ::getpriority(PRIO_PROCESS, 0) + niceness);  // of this thread
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      task = std::move(waiting_.front());
      waiting_.pop_front();
      running_ = true;
    }
    bool failed = false;
    try {
      task.first();
    } catch (...) {
      failed = true;
      task.second = [failure = std::current_exception()] { std::rethrow_exception(failure); };
    }
    task.first = nullptr;  // frees what the job holds here, not on the control thread
    bool first;
    {
      std::lock_guard lock(mutex_);
      first = done_.empty();
      running_ = false;
      done_.push_back(std::move(task.second));
    }
    if (first) wake_();  // one wake-up is enough: run_completions() takes all that wait
    if (failed) return;  // later jobs were submitted on the assumption that this one succeeds
  }
}

}  // namespace starling
