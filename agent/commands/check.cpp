// starling check: reads a config and says what is wrong with it; reads data and says what they are.
#include <cstdio>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "agent/commands/commands.h"
#include "agent/commands/flags.h"
#include "agent/config/settings.h"
#include "agent/config/values.h"
#include "agent/data/survey.h"
#include "agent/report/format.h"
#include "agent/share/make_exchange.h"
#include "agent/share/memory_need.h"
#include "agent/train/model_kinds.h"

namespace starling {
namespace {

void check_data(const std::string& path, const Config* config, const std::string& config_path) {
  const SampleSpec model = config == nullptr ? SampleSpec() : config->swarm.model.samples();
  const DataSurvey survey = survey_data(path, config == nullptr ? nullptr : &model, true);
  std::printf("%s: %s\n", path.c_str(), survey.lines[0].c_str());
  for (size_t i = 1; i < survey.lines.size(); ++i) std::printf("  %s\n", survey.lines[i].c_str());
  if (config != nullptr) {
    std::printf("  fits the model of %s\n", config_path.c_str());
    return;
  }
  std::printf("a config for it has these lines, and starling init --data %s FILE writes it:\n", path.c_str());
  std::printf("  swarm:\n    model: %s\n", survey.model.c_str());
  std::printf("  agent:\n    data: {path: %s}\n", TextValue::print(path).c_str());
}

std::string print_seconds(double seconds) {
  return seconds < 100 ? fmt::format("{:.2g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

void check_blocks(const SwarmConfig& swarm) {
  const ExchangeConfig& exchange = swarm.exchange;
  if (exchange.kind != ExchangeKind::kPairwise || model_kind(swarm.model.kind).attached) return;
  const uint64_t params = count_elements(swarm.model);
  require_blocks(exchange, params, (params + exchange.block - 1) / exchange.block);
}

// Says whether the model fits this machine and its links. Throws std::runtime_error where it does not fit the machine.
void check_size(const Config& config, bool json) {
  const ModelKind& kind = model_kind(config.swarm.model.kind);
  if (kind.attached) return;  // its size is the loop's
  const uint64_t params = count_elements(config.swarm.model);
  const uint64_t memory = kProgramMemory + memory_need(config.swarm, config.agent);
  const ExchangeKind exchange = config.swarm.exchange.kind;
  const bool shares = exchange != ExchangeKind::kNone;
  const int payloads = exchange == ExchangeKind::kGroup ? 2 : 1;  // its own, and the averages that it owns
  const double bytes = shares ? payloads * exchange_bytes(config.swarm) : 0;
  if (json) {
    const nlohmann::json facts = {
        {"params", params}, {"memory_bytes", memory}, {"exchange_bytes", static_cast<uint64_t>(bytes)}};
    fmt::print("{}\n", facts.dump());
  } else {
    fmt::print("  {} params; an agent takes about {} of memory on a CPU\n", params, print_bytes(memory));
    if (shares) {
      fmt::print("  an exchange sends at most {} each way{}: {} at 10 Mb/s, {} at 1 Gb/s\n",
                 print_bytes(static_cast<uint64_t>(bytes)),
                 exchange == ExchangeKind::kNeighborhood ? " with each neighbor" : "", print_seconds(bytes * 8 / 10e6),
                 print_seconds(bytes * 8 / 1e9));
    }
  }
  require_memory_for(config.swarm, config.agent);
}

}  // namespace

int run_check_command(const CheckCommand& command) {
  Config config;
  if (command.config_path.empty() && !command.overrides.empty()) {
    throw std::runtime_error("--set changes a config, and there is none here: name a FILE");
  }
  if (!command.config_path.empty()) {
    config = load_config(command.config_path, command.overrides);
    if (config.has_swarm) check_blocks(config.swarm);
    if (!command.json) std::printf("%s: ok\n", command.config_path.c_str());
    if (config.has_swarm) check_size(config, command.json);
  }
  const bool has_model = config.has_swarm && model_kind(config.swarm.model.kind).needs_data;
  if (!command.data.empty()) check_data(command.data, has_model ? &config : nullptr, command.config_path);
  return 0;
}

void add_check(CLI::App& app, Cli& cli) {
  const auto options = std::make_shared<CheckCommand>();
  Subcommand command(app, "check", "Says what is wrong with a config, what data hold, and whether they fit.");
  command.text("file", "YAML file to read.", options->config_path);
  command.text("--config FILE", "The same as `file`.", options->config_path);
  command.text("--data PATH", "Folder or file with data, to read whole; alone, or for the model of the config.",
               options->data);
  command.flag("--json", "Of a config: prints params, bytes of memory, and bytes of an exchange as a line of JSON.",
               options->json);
  add_set_flag(command, cli);
  command.require_any({"file", "--config", "--data"});
  command.exclude("file", "--config");
  command.exclude("--data", "--json");
  command.then([&cli, options] {
    cli.config_path = options->config_path;
    options->overrides = cli.overrides;
    cli.choose("check", *options, run_check_command);
  });
}

}  // namespace starling
