// Flags that several subcommands share, and helpers around CLI11.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include <CLI/CLI.hpp>

#include "agent/commands/cli.h"
#include "agent/config/scenario.h"
#include "agent/config/values.h"

namespace starling {

// --config, --set, --log-level.
void add_common_flags(CLI::App* command, Cli& cli);

// A flag of the table of config keys: it sets one key of the configuration, so that one check judges file, environment
// and flags. Each occurrence counts when it is met, so that a later flag or --set wins.
void add_config_flag(CLI::App* command, Cli& cli, const std::string& flag);

// Several --bootstrap add up.
void add_bootstrap_flag(CLI::App* command, Cli& cli, const char* doc);

// --kill, --join, --pause.
void add_scenario_flags(CLI::App* command, Scenario& scenario);

// The name of a log level that the program knows. Throws CLI::ValidationError.
std::string read_log_level(const std::string& where, const std::string& text);

// Into a uint64_t, or an optional one.
template <typename Target>
void add_count_flag(CLI::App* command, Target& target, const char* flag, uint64_t min, const char* doc) {
  command->add_option_function<std::string>(flag, [&target, flag, min](const std::string& text) {
    try {
      target = CountValue{min, UINT64_MAX}.read(scalar_tree(text));
    } catch (const std::invalid_argument& error) {
      throw CLI::ValidationError(flag, error.what());
    }
  }, doc)->type_name("");
}

// A flag whose value is read by `read`, each time it is met.
template <typename Read>
void add_read_flag(CLI::App* command, const char* flag, const char* doc, const Read& read) {
  command->add_option_function<std::string>(flag, read, doc)->type_name("")->trigger_on_parse();
}

}  // namespace starling
