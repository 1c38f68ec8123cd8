// SIGINT and SIGTERM as a flag the control loop can read: a thread of its own takes the signals, so no code of ours
// ever runs inside a signal handler.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace starling {

class StopSignals {
 public:
  // Blocks both signals in the calling thread and all threads it makes later: construct before any other thread.
  // A second signal ends the process at once, with status 130.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool stop_asked() const { return stop_asked_.load(); }
  void set_wake(std::function<void()> wake);   // called from the signal thread at each signal

 private:
  void watch();
  std::atomic<bool> stop_asked_ = false;
  std::atomic<bool> closing_ = false;
  std::mutex mutex_;
  std::function<void()> wake_;
  std::thread thread_;
};

}  // namespace starling
