#include "agent/process/signals.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>

#include <spdlog/spdlog.h>

#include "agent/observe/terminal_line.h"
#include "agent/report/resource_limits.h"

namespace starling {
namespace {

// One Ctrl-C may come twice: a wrapper, such as timeout(1), passes on what the whole group of processes got.
constexpr std::chrono::milliseconds kOnePress{200};

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGXCPU);
  sigaddset(&set, SIGCONT);
  struct sigaction hangup{};  // a closed terminal; nohup(1) wants it ignored
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  return set;
}

const char* name_of(int number) {
  return number == SIGHUP ? "SIGHUP (a terminal has closed, or a reload)" : number == SIGTERM ? "SIGTERM" : "SIGINT";
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { watch(); });
}

StopSignals::~StopSignals() {
  closing_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);  // blocked everywhere: only sigwait sees it
  thread_.join();
}

void StopSignals::set_wake(std::function<void()> wake) {
  std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

void StopSignals::watch() {
  const sigset_t set = stop_signals();
  std::chrono::steady_clock::time_point asked_at;
  const std::string processor_time = print_limit(RLIMIT_CPU);  // which the kernel raises by a second at each SIGXCPU
  for (;;) {
    int number = 0;
    if (sigwait(&set, &number) != 0) continue;
    if (closing_) return;
    if (number == SIGCONT) {
      if (stop_asked_) continue;  // timeout(1) sends one after its signal
      TerminalLine().keep();      // the shell has written below it
      spdlog::info("continued after a stop (Ctrl-Z or SIGSTOP): the others may have taken this agent for gone");
      continue;
    }
    const auto now = std::chrono::steady_clock::now();
    if (stop_asked_.exchange(true)) {
      if (now - asked_at < kOnePress) continue;
      spdlog::warn("ended at once by a second signal: nothing is saved since the last checkpoint");
      spdlog::default_logger()->flush();
      _exit(130);
    }
    asked_at = now;
    if (number == SIGXCPU) {
      spdlog::warn("the limit of processor time ({}) is reached: {}. Start it again under a higher one (ulimit -t)",
                   processor_time, "this agent leaves and saves its state before the hard limit ends it");
    } else if (const char* text = reply_) {
      spdlog::info("{}: {}", name_of(number), text);
    }
    std::lock_guard lock(mutex_);
    if (wake_) wake_();
  }
}

}  // namespace starling
