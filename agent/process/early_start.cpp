#include "agent/process/early_start.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace starling {
namespace {

constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP};

}  // namespace

// No sanitizer: none has been set up.
__attribute__((no_sanitize("address", "undefined", "thread"))) void hold_streams_and_signals(int, char**, char**) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (syscall(SYS_fcntl, fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one.
    if (syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR) < 0) syscall(SYS_openat, AT_FDCWD, "/", O_RDONLY);
  }
  uint64_t held = 0;  // as the kernel numbers them
  for (const int number : kEnding) held |= uint64_t{1} << (number - 1);
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &held, nullptr, sizeof held);
}

void release_signals() {
  sigset_t held;
  sigemptyset(&held);
  for (const int number : kEnding) {
    struct sigaction action{};
    const bool first = getpid() == 1 && sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_DFL;
    if (first) signal(number, [](int caught) { _exit(128 + caught); });
    sigaddset(&held, number);
  }
  pthread_sigmask(SIG_UNBLOCK, &held, nullptr);
}

}  // namespace starling
