#include "agent/local/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <fstream>
#include <stdexcept>

#include "kernels/check.h"

namespace starling {
namespace {

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  return set;
}

sigset_t gate_signals() {
  sigset_t set = ending_signals();
  sigaddset(&set, SIGCHLD);
  return set;
}

// Between fork and exec: only async-signal-safe calls, and an error goes to the parent through the pipe.
[[noreturn]] void become_program(char* const* argv, int log_fd, int error_fd, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before the line above
  const int null_fd = open("/dev/null", O_RDONLY);
  if (null_fd >= 0) dup2(null_fd, STDIN_FILENO);
  dup2(log_fd, STDOUT_FILENO);
  dup2(log_fd, STDERR_FILENO);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGINT, SIG_DFL);  // ignored where a script started this program in the background, and exec would keep that
  execv(argv[0], argv);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(error_fd, &error, sizeof error);
  _exit(127);
}

}  // namespace

SignalGate::SignalGate() {
  const sigset_t set = gate_signals();
  STARLING_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
}

SignalGate::~SignalGate() {
  const sigset_t set = gate_signals();
  const timespec now{};
  while (sigtimedwait(&set, nullptr, &now) > 0) {  // a signal since the last wait must not end the program now
  }
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

bool SignalGate::wait(std::chrono::milliseconds timeout) {
  const sigset_t set = gate_signals();
  timespec limit{};
  limit.tv_sec = timeout.count() / 1000;
  limit.tv_nsec = (timeout.count() % 1000) * 1000000;
  const int number = sigtimedwait(&set, nullptr, &limit);
  return number > 0 && number != SIGCHLD;
}

std::string ExitStatus::describe() const {
  if (signal == 0) return "exit status " + std::to_string(code);
  return "signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
}

ChildProcess::ChildProcess(const std::vector<std::string>& argv, const std::string& log_path) {
  STARLING_CHECK(!argv.empty());
  const int log_fd = open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log_fd < 0) {
    throw std::runtime_error(log_path + " cannot be written: " + std::strerror(errno) +
                             "; name a writable folder with --out");
  }
  std::vector<char*> raw;  // built before fork: no allocation is safe after it
  for (const std::string& arg : argv) raw.push_back(const_cast<char*>(arg.c_str()));
  raw.push_back(nullptr);
  int pipe_fds[2];
  STARLING_CHECK(pipe2(pipe_fds, O_CLOEXEC) == 0);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) become_program(raw.data(), log_fd, pipe_fds[1], parent);
  const int fork_error = errno;
  close(log_fd);
  close(pipe_fds[1]);
  int error = pid_ < 0 ? fork_error : 0;
  if (pid_ > 0) {
    setpgid(pid_, pid_);  // parent and child both do it, since either may run first
    if (read(pipe_fds[0], &error, sizeof error) != sizeof error) error = 0;  // closed by exec: started
  }
  close(pipe_fds[0]);
  if (error == 0) return;
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  throw std::runtime_error(argv[0] + " cannot be started: " + std::strerror(error));
}

ChildProcess::~ChildProcess() {
  if (poll()) return;
  send_signal(SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void ChildProcess::send_signal(int number) {
  if (!poll()) kill(-pid_, number);
}

const std::optional<ExitStatus>& ChildProcess::poll() {
  if (exit_) return exit_;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return exit_;
  ExitStatus ended;
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  if (WIFEXITED(status)) ended.code = WEXITSTATUS(status);
  exit_ = ended;
  return exit_;
}

std::string log_tail(const std::string& path, size_t lines_max) {
  std::ifstream in(path);
  std::deque<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    lines.push_back(std::move(line));
    if (lines.size() > lines_max) lines.pop_front();
  }
  std::string text;
  for (const std::string& line : lines) text += "\n  " + line;
  return text;
}

}  // namespace starling
