// The worker of a real agent: one thread, jobs in order. Completions run on the control thread, which is woken.
// If a job throws, run_completions() rethrows it in place of that job's completion, and no later job runs.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "gossip/worker.h"

namespace starling {

class ThreadWorker final : public Worker {
 public:
  // `wake` is called from the worker thread when completions wait; it must be safe from any thread.
  // `niceness`: above that of the thread that calls; 0 to 19.
  explicit ThreadWorker(std::function<void()> wake, int niceness = 0);
  ~ThreadWorker() override;
  bool busy() const;  // a job runs or waits
  void stop();        // finishes the job at hand, drops the others; nothing runs afterwards

  void submit(std::function<void()> job, std::function<void()> done) override;
  void run_completions() override;

 private:
  using Task = std::pair<std::function<void()>, std::function<void()>>;
  void run(int niceness);

  std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Task> waiting_;
  std::vector<std::function<void()>> done_;
  bool stopping_ = false, running_ = false;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace starling
