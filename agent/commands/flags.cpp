#include "agent/commands/flags.h"

#include <memory>

#include "agent/config/fields.h"

namespace starling {

void add_config_flag(Subcommand& command, Cli& cli, const std::string& usage) {
  const std::string flag = usage.substr(0, usage.find(' ')), value = usage.substr(usage.find(' ') + 1);
  std::string doc;
  for (const ConfigField& field : config_fields()) {
    if (field.flag == flag) doc = field.doc;
  }
  if (doc.starts_with(value)) doc = doc.substr(doc.find(' ') + 1);   // the usage names it
  command.repeatable(usage, doc,
                     [&cli, flag](const std::string& value) { cli.overrides.push_back(flag + "=" + value); });
}

void add_bootstrap_flag(Subcommand& command, Cli& cli, const char* doc) {
  const auto all = std::make_shared<std::string>();
  command.repeatable("--bootstrap,--initial-peers HOST:PORT", doc, [&cli, all](const std::string& value) {
    *all += (all->empty() ? "" : ",") + value;
    cli.overrides.push_back("--bootstrap=" + *all);
  });
}

void add_common_flags(Subcommand& command, Cli& cli) {
  command.text("--config FILE", "YAML file; starling init makes one", cli.config_path);
  command.repeatable("--set KEY=VALUE", "any key of the config, such as swarm.exchange.codec=bf16 (repeatable)",
                     [&cli](const std::string& text) { cli.overrides.push_back(text); });
  command.option("--log-level LEVEL", "debug | info | warn | error | off (or STARLING_LOG_LEVEL)",
                 [&cli](const std::string& text) { cli.log_level = read_log_level(text); });
}

void add_scenario_flags(Subcommand& command, Scenario& scenario) {
  command.repeatable("--kill AGENT@TIME", "that agent is killed then, 2@8 or 2@step40 (repeatable; agents from 0)",
                     [&scenario](const std::string& text) { scenario.add_kill(text); });
  command.repeatable("--join @TIME", "a newcomer joins then, with the data of the one killed last (repeatable)",
                     [&scenario](const std::string& text) { scenario.add_join(text); });
  command.repeatable("--pause AGENT@TIME+S", "when, and for how many seconds, it stands still, 2@8+1.5 (repeatable)",
                     [&scenario](const std::string& text) { scenario.add_pause(text); });
}

void add_density_flag(Subcommand& command, std::optional<double>& density, const char* doc) {
  command.option("--density PART", doc, [&density](const std::string& text) {
    density = kDensityValue.read(scalar_tree(text));
  });
}

std::string read_log_level(const std::string& text) {
  return WordValue{{"debug", "info", "warn", "error", "off"}}.read(scalar_tree(text));
}

Duration read_duration(const std::string& text) {
  const auto duration = parse_duration(text);
  if (duration) return *duration;
  throw std::invalid_argument("expected a time with its unit such as 10ms (us, ms, s, m, h), found '" + text +
                             "'");
}

double read_rate(const std::string& text) {
  if (text == "unlimited") return 0;
  constexpr std::pair<const char*, double> kUnits[] = {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};
  for (const auto& [unit, bits] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const auto value = read_number<double>(text.substr(0, text.size() - 4));
    if (value && *value > 0 && *value < 1e9) return *value * bits / 8;
  }
  throw std::invalid_argument("expected a rate such as 100mbit (kbit, mbit, gbit) or 'unlimited', found '" +
                             text + "'");
}

}  // namespace starling
