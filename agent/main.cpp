// The program's entry: parses the arguments, runs one subcommand, and reports the error that a wrong start throws.
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include <spdlog/spdlog.h>

#include "agent/commands/cli.h"
#include "agent/commands/commands.h"
#include "agent/observe/terminal_line.h"
#include "agent/process/early_start.h"
#include "agent/process/sleeping_threads.h"
#include "agent/report/resource_limits.h"
#include "agent/simulate/task.h"

using namespace starling;

namespace {

// Memory or threads may be used up before main, as libraries are loaded, and in a thread of a library. Waits for no
// reader, and needs no memory if there is none.
[[noreturn]] void end_where_a_resource_is_full() {
  try {
    if (std::current_exception()) throw;
  } catch (const std::exception& error) {
    if (is_full_resource(error)) {
      rlimit space{};
      getrlimit(RLIMIT_AS, &space);
      char text[1024] = "starling: out of memory\n";
      if (space.rlim_cur != RLIM_INFINITY) {
        std::snprintf(text, sizeof text, "starling: out of memory (ulimit -v: %llu kB); raise that limit\n",
                      static_cast<unsigned long long>(space.rlim_cur / 1024));
      }
      try {
        std::snprintf(text, sizeof text, "starling: %s\n", describe_error(error).c_str());
      } catch (...) {
      }
      pollfd reader{STDERR_FILENO, POLLOUT, 0};
      if (poll(&reader, 1, 0) == 1) (void)!write(STDERR_FILENO, text, std::strlen(text));
      _exit(1);
    }
  } catch (...) {
  }
  __gnu_cxx::__verbose_terminate_handler();
  std::abort();
}

__attribute__((no_sanitize("address", "undefined", "thread"))) void watch_resources(int, char**, char**) {
  std::set_terminate(end_where_a_resource_is_full);
}

}  // namespace

__attribute__((section(".preinit_array"), used)) static void (*before_libraries[])(int, char**, char**) = {
    hold_streams_and_signals, restart_with_sleeping_threads, watch_resources};

namespace {

// A full resource is an error of the call that met it, not the end of the process.
void ignore_signals_of_resources() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

// From what other users see of this process. They saw it for a moment: @FILE and - show nothing.
constexpr size_t kTicketMin = 40;  // characters; fewer are a name

std::vector<std::string> take_arguments(int argc, char** argv) {
  std::vector<std::string> arguments(argv, argv + argc);
  for (int i = 0; i < argc; ++i) {
    char* at = std::strchr(argv[i], '#');
    if (at == nullptr || std::strlen(at) < kTicketMin) continue;
    for (; *at != '\0'; ++at) *at = 'x';
  }
  return arguments;
}

int run(int argc, char** argv) {
  const std::vector<std::string> arguments = take_arguments(argc, argv);
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
#ifdef STARLING_WITHOUT_TORCH
  const Engines engines;
#else
  const Engines engines{run_agent_process, make_torch_task, evaluate_model};
#endif
  const Cli cli = parse_cli(argc, pointers.data(), error ? argv[0] : program.string(), engines);
  spdlog::set_level(spdlog::level::from_str(cli.log_level));
  const bool saves = cli.command == "agent" || cli.command == "bootstrap";  // both take signals themselves
  if (!saves) release_signals();
  if (saves && getpid() == 1) std::signal(SIGCHLD, SIG_IGN);  // orphans of a container are the kernel's to bury
  return cli.run ? cli.run() : cli.exit_status;
}

// A reader that has enough, as head(1), is no error.
int written_or_failed(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  pollfd reader{STDOUT_FILENO, 0, 0};
  if (poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR) != 0) return status;
  print_to_stderr(std::string("starling: not all could be written to stdout: ") + std::strerror(errno) +
                  "; make room, or name another place\n");
  return status == 0 ? 1 : status;
}

}  // namespace

int main(int argc, char** argv) {
  ignore_signals_of_resources();
  log_to_stderr();
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  try {
    return written_or_failed(run(argc, argv));
  } catch (const std::exception& error) {
    print_to_stderr("starling: " + describe_error(error) + "\n");
    return 1;
  }
}
