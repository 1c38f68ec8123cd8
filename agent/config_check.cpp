// Combinations that cannot work, refused before anything is started.
#include <algorithm>
#include <string>

#include "agent/config_fields.h"
#include "agent/model_plan.h"
#include "gossip/limits.h"

namespace starling {
namespace {

void refuse_exchange(const SwarmConfig& swarm) {
  const OptimizerConfig& optimizer = swarm.optimizer;
  if (swarm.exchange.carry_momentum && swarm.exchange.kind == ExchangeKind::kPairwise) {
    if (optimizer.kind != "sgd") {
      throw ConfigError("swarm.exchange.carry: adamw has no momentum that could ride along (its moments stay local); "
                        "write carry: [params], or take sgd");
    }
    if (optimizer.momentum == 0) {
      throw ConfigError("swarm.exchange.carry: there is no momentum to carry while swarm.optimizer.momentum is 0; "
                        "write carry: [params], or give a momentum");
    }
  }
  if (optimizer.kind == "sgd" && optimizer.nesterov && optimizer.momentum == 0) {
    throw ConfigError("swarm.optimizer: nesterov needs a momentum; give one, or write nesterov: false");
  }
  if (swarm.exchange.deadline_min > swarm.exchange.deadline_max) {
    throw ConfigError("swarm.exchange: deadline_min (" + print_duration(swarm.exchange.deadline_min) +
                      ") is longer than deadline_max (" + print_duration(swarm.exchange.deadline_max) + ")");
  }
  if (swarm.membership.probe_timeout > swarm.membership.probe_interval) {
    throw ConfigError("swarm.membership: probe_timeout (" + print_duration(swarm.membership.probe_timeout) +
                      ") is longer than probe_interval (" + print_duration(swarm.membership.probe_interval) +
                      "); a probe must end before the next begins");
  }
}

// Sizes that make no network, or more blocks than an exchange can name.
void refuse_model(const SwarmConfig& swarm) {
  uint64_t params = swarm.model.dimension;
  if (swarm.model.kind != "quadratic") {
    try {
      params = plan_model(swarm.model).param_count;
    } catch (const std::runtime_error& error) {
      throw ConfigError(error.what());
    }
  }
  const uint64_t vectors = swarm.exchange.carry_momentum ? 2 : 1;
  const uint64_t blocks = vectors * (params / swarm.exchange.block + 1);
  if (blocks <= kBlocksMax) return;
  throw ConfigError("swarm.exchange.block: " + std::to_string(params) + " params in blocks of " +
                    std::to_string(swarm.exchange.block) + " are " + std::to_string(blocks) + " blocks, more than " +
                    std::to_string(kBlocksMax) + "; larger blocks, or a smaller model");
}

void refuse_data(const Config& config) {
  const DataConfig& data = config.agent.data;
  if (data.labels.empty()) return;
  if (data.sharding == "labels" || data.sharding == "dirichlet") {
    throw ConfigError("agent.data: 'labels' and 'sharding: " + data.sharding + "' both choose the labels; use one of "
                      "them");
  }
  const int64_t largest = *std::max_element(data.labels.begin(), data.labels.end());
  if (config.has_swarm && largest >= config.swarm.model.classes) {
    throw ConfigError("agent.data.labels: label " + std::to_string(largest) + " is outside the model's " +
                      std::to_string(config.swarm.model.classes) + " classes, 0 to " +
                      std::to_string(config.swarm.model.classes - 1));
  }
}

}  // namespace

void refuse_combinations(const Config& config, const std::string& where) {
  try {
    refuse_exchange(config.swarm);
    refuse_model(config.swarm);
    refuse_data(config);
  } catch (const ConfigError& error) {
    throw ConfigError(where + ": " + error.what());
  }
}

}  // namespace starling
