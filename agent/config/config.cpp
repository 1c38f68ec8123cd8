// From a file, the environment and flags to a checked Config.
#include "agent/config/config.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "agent/config/fields.h"
#include "agent/config/layer_table.h"
#include "agent/config/mistakes.h"
#include "agent/config/reader.h"

namespace starling {
namespace {

void read_override(Config& config, std::set<std::string>& given, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw ConfigError("--set " + text + ": expected KEY=VALUE such as swarm.exchange.codec=bf16");
  }
  const std::string key = text.substr(0, equals), value = text.substr(equals + 1);
  if (!key.starts_with("--")) return read_assignment(config, given, key, value, "--set " + text);
  for (const ConfigField& field : config_fields()) {
    if (field.flag == key) return read_assignment(config, given, field.path, value, key + " " + value);
  }
  throw ConfigError("--set " + text + ": there is no flag " + key);
}

std::string read_config(const std::string& path) {
  return read_text_file(path, "the config ", "'starling init --task digits " + path + "' makes one");
}

// An agent that joins other machines has to be reachable by them.
void choose_listen(AgentConfig& agent) {
  const bool remote = std::any_of(agent.bootstrap.begin(), agent.bootstrap.end(),
                                  [](const Endpoint& endpoint) { return !is_loopback(endpoint.host); });
  if (remote) agent.listen.host = "0.0.0.0";
}

}  // namespace

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

Config load_config(const std::string& path, const std::vector<std::string>& overrides) {
  Config config;
  std::set<std::string> given;
  Mistakes mistakes;   // of all sources
  if (!path.empty()) mistakes.attempt([&] { read_tree(config, given, "", parse_tree(read_config(path), path), path); });
  constexpr std::pair<const char*, const char*> kVariables[] = {{"STARLING_BOOTSTRAP", "agent.bootstrap"},
                                                                {"STARLING_LISTEN", "agent.listen"},
                                                                {"STARLING_STATE", "agent.state"}};
  for (const auto& [variable, key] : kVariables) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    mistakes.attempt([&] { read_assignment(config, given, key, value, std::string(variable) + "=" + value); });
  }
  for (const std::string& text : overrides) mistakes.attempt([&] { read_override(config, given, text); });
  mistakes.refuse();
  refuse_combinations(config, path.empty() ? "this configuration" : path);
  if (!given.contains("agent.listen")) choose_listen(config.agent);
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
