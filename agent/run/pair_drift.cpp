#include "agent/run/pair_drift.h"

#include <cmath>

namespace starling {

std::optional<double> pair_drift(const SwarmConfig& swarm, const PairReport& pairs, uint64_t agents) {
  const ExchangeConfig& exchange = swarm.exchange;
  const bool by_chance = exchange.kind == ExchangeKind::kPairwise && swarm.topology.kind == TopologyKind::kMatching;
  const std::optional<double> made = pairs.exchanges_a_step(), gain = pairs.gain();
  if (!by_chance || agents < 2 || !made || !gain) return std::nullopt;
  const auto n = static_cast<double>(agents);
  const double left = std::pow(1 - *gain / 2 * n / (n - 1), *made / exchange.fragments);
  if (!(left < 1)) return std::nullopt;
  const double momentum = swarm.optimizer.kind == "sgd" ? swarm.optimizer.momentum : 0;
  return left / (1 - left) / (1 - momentum * (exchange.carry_momentum ? left : 1));
}

}  // namespace starling
