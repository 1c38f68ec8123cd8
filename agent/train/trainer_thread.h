// One thread that runs one job at a time for a trainer, and says when it is idle again.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace starling {

class TrainerThread {
 public:
  // `on_idle` is called on the trainer thread after each job, when idle() is true already; may be empty.
  explicit TrainerThread(std::function<void()> on_idle);
  ~TrainerThread();  // waits for the job in hand
  TrainerThread(const TrainerThread&) = delete;
  TrainerThread& operator=(const TrainerThread&) = delete;

  void start(std::function<void()> job);  // REQUIRES: idle()
  bool idle() const { return idle_.load(std::memory_order_acquire); }
  // From a job: there is something to look at before its end.
  void wake_owner() {
    if (on_idle_) on_idle_();
  }
  void rethrow_failure();  // throws what the last job threw, once. REQUIRES: idle()

 private:
  void loop();

  std::function<void()> on_idle_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::function<void()> job_;   // guarded by mutex_
  bool leaving_ = false;        // guarded by mutex_
  std::exception_ptr failure_;  // written by the thread while busy, read by others while idle
  std::atomic<bool> idle_ = true;
  std::thread thread_;  // last: starts when all else stands
};

}  // namespace starling
