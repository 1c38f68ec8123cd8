// Child processes of one command: started with their own process group and a log file, and never outliving the parent.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace starling {

// While one lives, SIGINT, SIGTERM and SIGHUP are not delivered but taken by wait(), so the main loop sees them at a
// point of its own choosing. Restores the signal mask at its end.
class SignalGate {
 public:
  SignalGate();
  ~SignalGate();
  SignalGate(const SignalGate&) = delete;
  SignalGate& operator=(const SignalGate&) = delete;

  // Waits at most `timeout`; true if a signal to end has come. The end of a child ends the wait early.
  bool wait(std::chrono::milliseconds timeout);
};

struct ExitStatus {
  int code = 0;    // of exit(); meaningless if signal is set
  int signal = 0;  // that ended it; 0 = it exited
  bool ok() const { return signal == 0 && code == 0; }
  std::string describe() const;  // "exit status 1", "signal 9 (Killed)"
};

// The kernel kills the child when the thread that started it ends, however it ends; the destructor kills and reaps a
// child that still runs.
class ChildProcess {
 public:
  // argv[0] is the path of the program; stdout and stderr are appended to log_path. Throws std::runtime_error if the
  // log cannot be opened or the program cannot be started.
  ChildProcess(const std::vector<std::string>& argv, const std::string& log_path);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  void send_signal(int number);             // to the whole group; nothing once it has ended
  const std::optional<ExitStatus>& poll();  // without waiting; empty while it runs

 private:
  pid_t pid_ = -1;
  std::optional<ExitStatus> exit_;
};

// The last lines of a log, each indented by two spaces, for an error message; empty if there is nothing to read.
std::string log_tail(const std::string& path, size_t lines_max = 12);

}  // namespace starling
