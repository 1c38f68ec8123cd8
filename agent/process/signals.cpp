#include "agent/process/signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <string_view>
#include <utility>

namespace starling {
namespace {

// One Ctrl-C may come twice: a wrapper, such as timeout(1), passes on what the whole group of processes got.
constexpr std::chrono::milliseconds kOnePress{500};

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  struct sigaction hangup{};   // a closed terminal; nohup(1) wants it ignored
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { watch(); });
}

StopSignals::~StopSignals() {
  closing_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);   // blocked everywhere: only sigwait sees it
  thread_.join();
}

void StopSignals::set_wake(std::function<void()> wake) {
  std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

void StopSignals::watch() {
  const sigset_t set = stop_signals();
  std::chrono::steady_clock::time_point asked_at;
  for (;;) {
    int number = 0;
    if (sigwait(&set, &number) != 0) continue;
    if (closing_) return;
    const auto now = std::chrono::steady_clock::now();
    if (stop_asked_.exchange(true)) {
      if (now - asked_at < kOnePress) continue;
      constexpr std::string_view why = "ended at once by a second signal: nothing is saved since the last checkpoint\n";
      (void)!write(STDERR_FILENO, why.data(), why.size());
      _exit(130);
    }
    asked_at = now;
    std::lock_guard lock(mutex_);
    if (wake_) wake_();
  }
}

}  // namespace starling
