// From a file, the environment and flags to a checked Config.
#include "agent/config/config.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include <spdlog/spdlog.h>

#include "agent/config/fields.h"
#include "agent/config/layer_table.h"
#include "agent/config/mistakes.h"
#include "agent/config/reader.h"

namespace starling {
namespace {

// What was typed, without secrets: a key may stand there whose address was forgotten.
std::string shown(const std::string& path, const std::string& value) {
  constexpr size_t kShownMax = 40;
  return path == "agent.bootstrap" && value.size() > kShownMax ? "..." : hide_tickets(value);
}

void read_override(Config& config, std::set<std::string>& given, const std::string& text, const Notice& notice) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw ConfigError(hide_tickets("--set " + text) + ": expected KEY=VALUE such as swarm.exchange.codec=bf16");
  }
  const std::string key = text.substr(0, equals), value = text.substr(equals + 1);
  if (!key.starts_with("--")) {
    return read_assignment(config, given, key, value, "--set " + key + "=" + shown(key, value), {.notice = notice});
  }
  for (const ConfigField& field : config_fields()) {
    if (field.flag == key) return read_value(config, given, field, value, key + " " + shown(field.path, value));
  }
  throw ConfigError(hide_tickets("--set " + text) + ": there is no flag " + key);
}

// The variable wins over the file.
void read_variable(Config& config, std::set<std::string>& given, const char* variable, const char* path) {
  const char* value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return;
  for (const ConfigField& field : config_fields()) {
    if (field.path == path) read_value(config, given, field, value, std::string(variable) + "=" + shown(path, value));
  }
}

std::string read_config(const std::string& path) {
  return read_text_file(path, "the config ", "'starling init --task digits " + path + "' makes one");
}

// An agent that knows a member and has no file joins: one key of its own must not begin another swarm.
void leave_settings_to_members(Config& config, const std::set<std::string>& given, const Notice& notice) {
  if (!config.has_swarm || config.agent.bootstrap.empty()) return;
  if (config.swarm.trust.has_tickets() && config.agent.tickets.empty()) {
    throw ConfigError("swarm.trust: ticket or certified, and --bootstrap names " +
                      config.agent.bootstrap.front().to_string() +
                      " without a ticket: give the whole line HOST:PORT#TICKET of that swarm");
  }
  std::string keys;
  for (const ConfigField& field : config_fields()) {
    if (!field.path.starts_with("swarm.") || !given.contains(field.path)) continue;
    keys += (keys.empty() ? "" : ", ") + (field.name.empty() ? field.path : field.name);
  }
  config.swarm = {};
  config.has_swarm = false;
  notice((keys.empty() ? "swarm" : keys) +
         ": ignored, as an agent with --bootstrap and without --config adopts the settings of the swarm that it joins; "
         "to begin a swarm with settings of your own, add --config FILE");
}

// Throws ConfigError with the mistakes of all of them.
void read_sources(Config& config, std::set<std::string>& given, const std::string& path,
                  const std::vector<std::string>& overrides, const Notice& notice) {
  Mistakes mistakes;
  if (!path.empty()) {
    mistakes.attempt(
        [&] { read_tree(config, given, "", parse_tree(read_config(path), path), path, {.notice = notice}); });
  }
  constexpr std::pair<const char*, const char*> kVariables[] = {{"STARLING_BOOTSTRAP", "agent.bootstrap"},
                                                                {"STARLING_LISTEN", "agent.listen"},
                                                                {"STARLING_STATE", "agent.state"},
                                                                {"STARLING_TEST_COMPUTE_MS", "agent.compute_ms"},
                                                                {"STARLING_TEST_LAYERS", "agent.layers"}};
  for (const auto& [variable, key] : kVariables) {
    mistakes.attempt([&] { read_variable(config, given, variable, key); });
  }
  for (const std::string& text : overrides) mistakes.attempt([&] { read_override(config, given, text, notice); });
  mistakes.refuse();
}

}  // namespace

void log_notice(const std::string& line) { spdlog::warn("{}", line); }

Config load_config_over(Config base, const std::string& path, const std::vector<std::string>& overrides,
                        const Notice& notice) {
  std::set<std::string> given;
  read_sources(base, given, path, overrides, notice);
  refuse_combinations(base, path.empty() ? "this configuration" : path);
  return base;
}

Config load_config(const std::string& path, const std::vector<std::string>& overrides, const Notice& notice) {
  Config config;
  std::set<std::string> given;
  read_sources(config, given, path, overrides, notice);
  const auto of_swarm = [](const std::string& key) { return key.starts_with("swarm."); };
  const bool alone = path.empty() && std::count_if(given.begin(), given.end(), of_swarm) == 1;
  if (given.contains("swarm.stop_after") && (alone || !path.empty())) config.stop_after = config.swarm.stop_after;
  if (config.stop_after && alone) {
    config.swarm = {};
    config.has_swarm = false;
  }
  if (path.empty()) leave_settings_to_members(config, given, notice);
  refuse_combinations(config, path.empty() ? "this configuration" : path);
  return config;
}

TrainerOptions trainer_options(const SwarmConfig& swarm, const AgentConfig& agent) {
  TrainerOptions options;
  options.model = swarm.model;
  options.optimizer = swarm.optimizer;
  options.swarm_rng_seed = swarm.rng_seed;
  options.shard = agent.data.shard;
  options.batch = agent.batch > 0 ? agent.batch : swarm.batch;
  options.device = agent.device;
  options.threads = agent.threads;
  options.compute_ms = agent.compute_ms;
  if (agent.layers.empty()) return options;
  const LayerTable table = read_layer_table(agent.layers, {});
  options.forward_s = table.forward_s;
  for (const PlanSection& layer : table.layers) options.layers.push_back({layer.elements, layer.backward_s});
  return options;
}

}  // namespace starling
