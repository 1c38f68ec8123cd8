// Arithmetic that would keep the control thread from answering probes runs here: encode, check, apply.
// Jobs run in the order of submission, one at a time. `done` runs on the control thread, inside run_completions().
#pragma once

#include <functional>
#include <utility>
#include <vector>

namespace starling {

class Worker {
 public:
  virtual ~Worker() = default;
  virtual void submit(std::function<void()> job, std::function<void()> done) = 0;
  virtual void run_completions() = 0;  // control thread only, once a tick
};

// The simulator's worker: each job runs at once, on the caller's thread. `done` still waits for run_completions().
class InlineWorker final : public Worker {
 public:
  void submit(std::function<void()> job, std::function<void()> done) override {
    job();
    done_.push_back(std::move(done));
  }
  void run_completions() override {
    std::vector<std::function<void()>> ready;
    ready.swap(done_);
    for (auto& done : ready) done();
  }
  bool has_completions() const { return !done_.empty(); }

 private:
  std::vector<std::function<void()>> done_;
};

}  // namespace starling
