#include "agent/commands/flags.h"

#include <memory>

#include "agent/config/fields.h"

namespace starling {
namespace {

// An event of the scenario, each time its flag is met.
void add_event_flag(CLI::App* command, Scenario& scenario, void (Scenario::*add)(const std::string&), const char* flag,
                    const char* doc) {
  add_read_flag(command, flag, doc, [&scenario, add, flag](const std::string& text) {
    try {
      (scenario.*add)(text);
    } catch (const std::invalid_argument& error) {
      throw CLI::ValidationError(flag, error.what());
    }
  });
}

}  // namespace

void add_config_flag(CLI::App* command, Cli& cli, const std::string& flag) {
  std::string doc;
  for (const ConfigField& field : config_fields()) {
    if (field.flag == flag) doc = field.doc;
  }
  command->add_option_function<std::string>(
      flag, [&cli, flag](const std::string& value) { cli.overrides.push_back(flag + "=" + value); }, doc)
      ->type_name("")->trigger_on_parse();
}

void add_bootstrap_flag(CLI::App* command, Cli& cli, const char* doc) {
  const auto all = std::make_shared<std::string>();
  command->add_option_function<std::string>("--bootstrap,--initial-peers", [&cli, all](const std::string& value) {
    *all += (all->empty() ? "" : ",") + value;
    cli.overrides.push_back("--bootstrap=" + *all);
  }, doc)->type_name("")->trigger_on_parse();
}

void add_common_flags(CLI::App* command, Cli& cli) {
  command->add_option("--config", cli.config_path, "YAML file; starling init makes one")->type_name("");
  command->add_option_function<std::string>("--set", [&cli](const std::string& text) { cli.overrides.push_back(text); },
      "KEY=VALUE: any key of the config, such as swarm.exchange.codec=bf16 (repeatable)")
      ->type_name("")->trigger_on_parse();
  command->add_option_function<std::string>("--log-level",
      [&cli](const std::string& text) { cli.log_level = read_log_level("--log-level", text); },
      "debug | info | warn | error | off (or STARLING_LOG_LEVEL)")->type_name("");
}

void add_scenario_flags(CLI::App* command, Scenario& scenario) {
  add_event_flag(command, scenario, &Scenario::add_kill, "--kill",
                 "AGENT@SECONDS or AGENT@stepN: that agent is killed then (repeatable; agents count from 0)");
  add_event_flag(command, scenario, &Scenario::add_join, "--join",
                 "@SECONDS or @stepN: a newcomer joins then, with the data of the one killed last (repeatable)");
  add_event_flag(command, scenario, &Scenario::add_pause, "--pause",
                 "AGENT@SECONDS+SECONDS or AGENT@stepN+SECONDS: when and how long it stands still (repeatable)");
}

std::string read_log_level(const std::string& where, const std::string& text) {
  try {
    return WordValue{{"debug", "info", "warn", "error", "off"}}.read(scalar_tree(text));
  } catch (const std::invalid_argument& error) {
    throw CLI::ValidationError(where, error.what());
  }
}

}  // namespace starling
