// SIGINT, SIGTERM and SIGHUP as a flag the control loop can read: a thread of its own takes the signals, so no code of
// ours ever runs inside a signal handler.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace starling {

class StopSignals {
 public:
  // Blocks the signals in the calling thread and all threads it makes later: construct before any other thread.
  // A second signal half a second later, or after that, ends the process at once, with status 130 and a line on stderr.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool stop_asked() const { return stop_asked_.load(); }
  // What is logged at once at the first signal. The text is kept by its address; null: nothing.
  void set_reply(const char* text) { reply_ = text; }

  // While it lives, `wake` is called from the signal thread at each signal. It ends before what `wake` uses.
  class WakeScope {
   public:
    WakeScope(StopSignals& signals, std::function<void()> wake) : signals_(signals) {
      signals.set_wake(std::move(wake));
    }
    ~WakeScope() { signals_.set_wake(nullptr); }
    WakeScope(const WakeScope&) = delete;
    WakeScope& operator=(const WakeScope&) = delete;

   private:
    StopSignals& signals_;
  };

 private:
  void set_wake(std::function<void()> wake);
  void watch();
  std::atomic<bool> stop_asked_ = false;
  std::atomic<bool> closing_ = false;
  std::atomic<const char*> reply_ = nullptr;
  std::mutex mutex_;
  std::function<void()> wake_;
  std::thread thread_;
};

}  // namespace starling
