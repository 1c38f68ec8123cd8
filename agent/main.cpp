// The program's entry: parses the arguments, runs one subcommand, and reports the error that a wrong start throws.
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "agent/commands/cli.h"
#include "agent/commands/commands.h"
#include "agent/process/sleeping_threads.h"
#include "agent/simulate/task.h"

using namespace starling;

__attribute__((section(".preinit_array"), used)) static void (*before_libraries)(int, char**, char**) =
    restart_with_sleeping_threads;

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    spdlog::set_default_logger(spdlog::stderr_color_mt("starling"));
    spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
    const Cli cli = parse_cli(argc, argv, error ? argv[0] : program.string(), {run_agent_process, make_torch_task});
    spdlog::set_level(spdlog::level::from_str(cli.log_level));
    return cli.run ? cli.run() : cli.exit_status;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "starling: out of memory; take a smaller model or batch, or a machine with more memory\n");
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "starling: %s\n", error.what());
    return 1;
  }
}
