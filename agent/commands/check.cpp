// starling check: reads a config and says what is wrong with it.
#include <cstdio>

#include "agent/commands/commands.h"
#include "agent/commands/flags.h"

namespace starling {
namespace {

int run_check_command(const CheckCommand& command) {
  load_config(command.config_path, {});
  std::printf("%s: ok\n", command.config_path.c_str());
  return 0;
}

}  // namespace

void add_check(CLI::App& app, Cli& cli) {
  Subcommand command(app, "check", "reads a config and says what is wrong with it");
  command.text("file", "YAML file", cli.config_path);
  command.text("--config FILE", "the same as `file`", cli.config_path);
  command.require_one("file", "--config");
  command.then([&cli] { cli.choose("check", CheckCommand{cli.config_path}, run_check_command); });
}

}  // namespace starling
