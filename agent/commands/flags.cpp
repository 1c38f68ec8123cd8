#include "agent/commands/flags.h"

#include <cstdlib>
#include <iostream>
#include <memory>
#include <stdexcept>

#include "agent/config/fields.h"

namespace starling {

void add_config_flag(Subcommand& command, Cli& cli, const std::string& usage, std::string doc) {
  const std::string flag = usage.substr(0, usage.find(' '));
  for (const ConfigField& field : config_fields()) {
    if (field.flag == flag && doc.empty()) doc = described(field);
  }
  command.repeatable(usage, doc,
                     [&cli, flag](const std::string& value) { cli.overrides.push_back(flag + "=" + value); });
}

namespace {

// HOST:PORT#TICKET, which a process list would show.
std::string read_address_line() {
  std::string line;
  std::getline(std::cin, line);
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
  if (line.empty())
    throw std::invalid_argument("stdin holds no line HOST:PORT#TICKET; write one, or name a file: @FILE");
  return line;
}

}  // namespace

void add_bootstrap_flag(Subcommand& command, Cli& cli, const char* doc) {
  const auto all = std::make_shared<std::string>();
  command.repeatable("--bootstrap,--initial-peers HOST:PORT", doc, [&cli, all](const std::string& value) {
    *all += (all->empty() ? "" : ",") + (value == "-" ? read_address_line() : value);
    cli.overrides.push_back("--bootstrap=" + *all);
  });
}

void add_set_flag(Subcommand& command, Cli& cli) {
  command.repeatable("--set KEY=VALUE",
                     "Sets any key of the config, such as swarm.exchange.codec=bf16. Repeatable; a later one wins.",
                     [&cli](const std::string& text) {
                       if (text.starts_with("--"))
                         throw std::invalid_argument("'" + text + "' is a flag, and no key; give it without --set");
                       cli.overrides.push_back(text);
                     });
}

void add_common_flags(Subcommand& command, Cli& cli, bool needs_config) {
  const std::string file = "YAML file with the settings; starling init makes one.";
  command.text("--config FILE", needs_config ? file : file + " Default: none.", cli.config_path);
  if (needs_config) command.require("--config");
  add_set_flag(command, cli);
  command.option(
      "--log-level LEVEL",
      "Least level that is logged: debug | info | warn | error | off. Default: STARLING_LOG_LEVEL, else info.",
      [&cli](const std::string& text) { cli.log_level = read_log_level(text); });
}

void add_state_flag(Subcommand& command, std::string& state) {
  const char* place = std::getenv("STARLING_STATE");
  if (place != nullptr && *place != '\0') state = place;
  command.text("--state FOLDER", "State folder of an agent, which may be running. Default: " + state + ".", state);
}

void add_scenario_flags(Subcommand& command, Scenario& scenario) {
  command.repeatable("--kill AGENT@TIME",
                     "Kills an agent at a time in seconds or at a step of the swarm: 2@8 or 2@step40. Agents count "
                     "from 0. Repeatable.",
                     [&scenario](const std::string& text) { scenario.add_kill(text); });
  command.repeatable("--join @TIME",
                     "Lets a new agent join at a time or step, with the data of the agent killed last that no other "
                     "newcomer has taken. "
                     "Repeatable.",
                     [&scenario](const std::string& text) { scenario.add_join(text); });
  command.repeatable("--pause AGENT@TIME+S", "Stops an agent for some seconds: 2@8+1.5. Repeatable.",
                     [&scenario](const std::string& text) { scenario.add_pause(text); });
}

void add_density_flag(Subcommand& command, std::optional<double>& density, const char* doc) {
  command.option("--density PART", doc,
                 [&density](const std::string& text) { density = kDensityValue.read(scalar_tree(text)); });
}

std::string read_log_level(const std::string& text) {
  return WordValue{{"debug", "info", "warn", "error", "off"}}.read(scalar_tree(text));
}

Duration read_duration(const std::string& text) {
  const auto duration = parse_duration(text);
  if (duration) return *duration;
  throw std::invalid_argument("expected a time with its unit such as 10ms (us, ms, s, m, h, d), found '" + text + "'");
}

double read_rate(const std::string& text) {
  if (text == "unlimited") return 0;
  constexpr std::pair<const char*, double> kUnits[] = {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};
  for (const auto& [unit, bits] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const auto value = read_number<double>(text.substr(0, text.size() - 4));
    if (value && *value > 0 && *value < 1e9) return *value * bits / 8;
  }
  throw std::invalid_argument("expected a rate such as 100mbit (kbit, mbit, gbit) or 'unlimited', found '" + text +
                              "'");
}

}  // namespace starling
