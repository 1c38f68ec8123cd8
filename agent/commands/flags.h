// Flags that several subcommands share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/commands/cli.h"
#include "agent/commands/subcommand.h"
#include "agent/config/scenario.h"
#include "agent/config/values.h"

namespace starling {

void add_set_flag(Subcommand& command, Cli& cli);

// --config, --set, --log-level.
void add_common_flags(Subcommand& command, Cli& cli, bool needs_config = false);

// A flag of the table of config keys, with the name of its value ("--listen HOST:PORT"): it sets one key of the
// configuration, so that one check judges file, environment and flags. Each occurrence counts when it is met, so that a
// later flag or --set wins.
void add_config_flag(Subcommand& command, Cli& cli, const std::string& usage, std::string doc = "");

// Several --bootstrap add up.
void add_bootstrap_flag(Subcommand& command, Cli& cli, const char* doc);

// --state of a command that reads what an agent left there.
void add_state_flag(Subcommand& command, std::string& state);

// --kill, --join, --pause.
void add_scenario_flags(Subcommand& command, Scenario& scenario);

// The name of a log level that the program knows. Throws std::invalid_argument.
std::string read_log_level(const std::string& text);

// "10ms". Throws std::invalid_argument, as read_rate() does.
Duration read_duration(const std::string& text);

// Bytes a second from "100mbit"; 0 = "unlimited".
double read_rate(const std::string& text);

// --density, from 1e-6 to 1: the share of elements that update codecs send. `density` outlives the command line.
void add_density_flag(Subcommand& command, std::optional<double>& density, const char* doc);

// Into a uint64_t, or an optional one.
template <typename Target>
void add_count_flag(Subcommand& command, Target& target, const char* flag, const CountValue& value, const char* doc) {
  command.option(std::string(flag) + " N", doc,
                 [&target, value](const std::string& text) { target = value.read(scalar_tree(text)); });
}

}  // namespace starling
