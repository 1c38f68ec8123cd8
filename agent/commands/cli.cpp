#include "agent/commands/cli.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iostream>
#include <stdexcept>

#include <CLI/CLI.hpp>

#include "agent/commands/commands.h"
#include "agent/commands/flags.h"
#include "agent/report/version.h"
#include "gossip/net/ticket.h"

namespace starling {
namespace {

constexpr const char* kFirstSwarm = R"(A first swarm:
  starling init --task digits swarm.yaml
  starling agent --config swarm.yaml --data FOLDER
  starling agent --bootstrap HOST:7400#TICKET --data FOLDER     on every further machine)";

constexpr const char* kFirstOwnSwarm = R"(A first swarm, of PyTorch loops of your own:
  starling init --task own swarm.yaml
  starling.join(model, optimizer, config="swarm.yaml")            in the first
  starling.join(model, optimizer, bootstrap="HOST:7400#TICKET")   in every further one

This program has no LibTorch, which agent, swarm, eval and most of simulate need.)";

std::string suggest(const std::string& wrong, const std::vector<std::string>& words) {
  const std::string nearest = nearest_word(wrong, words);
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

std::string describe_unknown_command(const CLI::App& app, const std::string& name) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return "no command '" + name + "'" + suggest(name, names);
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

// The first flag in `argv` that this command does not have; empty: all are known.
std::string describe_unknown_flag(const CLI::App& command, int argc, const char* const* argv) {
  std::vector<std::string> flags = {"--help"};
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  for (int i = 2; i < argc; ++i) {
    const std::string text = argv[i];
    const std::string flag = text.substr(0, text.find('='));
    if (!flag.starts_with("--") || std::find(flags.begin(), flags.end(), flag) != flags.end()) continue;
    return "'starling " + command.get_name() + "' has no flag " + flag + suggest(flag, flags);
  }
  return {};
}

std::string log_level_of_environment(const char* level) {
  try {
    return read_log_level(level);
  } catch (const std::invalid_argument& error) {
    throw CLI::ValidationError("STARLING_LOG_LEVEL", error.what());
  }
}

std::string print_command_line(int argc, const char* const* argv) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@+%";
  std::string line = "starling";
  for (int i = 1; i < argc; ++i) {
    const std::string argument = hide_tickets(argv[i]);
    if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string::npos) {
      line += " " + argument;
      continue;
    }
    line += " '";
    for (const char c : argument) line += c == '\'' ? "'\\''" : std::string(1, std::iscntrl(c) ? ' ' : c);
    line += "'";
  }
  return line;
}

// What is wrong, and where to look it up.
std::string describe_usage_error(const CLI::App& app, const CLI::ParseError& error, int argc, const char* const* argv) {
  std::string text = error.what(), help = "starling --help";
  const size_t repeated = text.find(": At Most 1 required");
  if (repeated != std::string::npos)
    text = text.substr(0, repeated) + " is given more than once; leave all but one out";
  const CLI::App* command = argc > 1 ? find_command(app, argv[1]) : nullptr;
  if (command != nullptr) {
    help = "starling " + command->get_name() + " --help";
    const std::string unknown = describe_unknown_flag(*command, argc, argv);
    if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !unknown.empty()) text = unknown;
  } else if (argc > 1) {
    text = describe_unknown_command(app, argv[1]);
  }
  return text + "\n(" + help + " lists what there is)";
}

}  // namespace

void require_engine(bool there, const std::string& command) {
  if (there) return;
  throw std::runtime_error("'starling " + command +
                           "' needs LibTorch, and this program was made without it, as that of 'pip install' is. Train "
                           "a loop of your own with starling.join() in Python, or build the whole program from its "
                           "source with tools/build");
}

Cli parse_cli(int argc, const char* const* argv, const std::string& program, const Engines& engines) {
  if (argc > 1 && argv[1] == std::string("help")) {  // `starling help COMMAND` is `starling COMMAND --help`
    std::vector<const char*> asked = {argv[0]};
    if (argc > 2) asked.push_back(argv[2]);
    asked.push_back("--help");
    return parse_cli(static_cast<int>(asked.size()), asked.data(), program, engines);
  }
  Cli cli;
  cli.program = program;
  cli.command_line = print_command_line(argc, argv);
  cli.engines = engines;
  CLI::App app{"Starling trains one model on many machines, without a server.", "starling"};
  app.set_version_flag("--version", "starling " + print_version(kProgram));
  app.require_subcommand(1);
  for (const auto add : kCommands) add(app, cli);
  app.footer(engines.run_agent ? kFirstSwarm : kFirstOwnSwarm);
  try {
    if (argc < 2) throw CLI::CallForHelp();
    // CLI11 would answer `starling report --help` with the general help, as if there were such a command.
    if (argv[1][0] != '-' && find_command(app, argv[1]) == nullptr) throw CLI::ExtrasError({argv[1]});
    const char* level = std::getenv("STARLING_LOG_LEVEL");
    if (level != nullptr && *level != '\0') cli.log_level = log_level_of_environment(level);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      app.exit(error, std::cout, std::cerr);  // help or version
      return cli;
    }
    std::cerr << "starling: " << hide_tickets(describe_usage_error(app, error, argc, argv)) << "\n";
    cli.exit_status = 2;
    return cli;
  }
  return cli;
}

}  // namespace starling
