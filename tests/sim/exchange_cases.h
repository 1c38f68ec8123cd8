// The exchanges that whole agents are tried with, and how far such a swarm is from its answer.
#pragma once

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/sim/quadratic_swarm.h"

namespace starling {

struct ExchangeCase {
  const char* name;
  ExchangeKind kind;
  TopologyKind topology = TopologyKind::kMatching;
  Overlap overlap = Overlap::kOff;
  bool gradients = false;  // without repair
  Duration round{};
  bool updates = false;
};

inline SwarmConfig config_of(const ExchangeCase& c) {
  SwarmConfig swarm = quadratic_settings(256, 0.05f, 0);
  swarm.weight = "equal";
  swarm.exchange.kind = c.kind;
  swarm.exchange.codec = CodecKind::kFp32;
  swarm.exchange.block = 64;
  swarm.exchange.overlap = c.overlap;
  swarm.exchange.source = c.gradients ? SourceKind::kGradients : c.updates ? SourceKind::kUpdates : SourceKind::kParams;
  swarm.exchange.repair = false;
  swarm.topology.kind = c.topology;
  swarm.round = c.round;
  return swarm;
}

inline auto every_exchange() {
  return testing::Values(
      ExchangeCase{"pairwise", ExchangeKind::kPairwise},
      ExchangeCase{"ring_pairs", ExchangeKind::kPairwise, TopologyKind::kRing},
      ExchangeCase{"ring", ExchangeKind::kNeighborhood, TopologyKind::kRing},
      ExchangeCase{"exponential", ExchangeKind::kNeighborhood, TopologyKind::kExponential},
      ExchangeCase{"ring_overlapped", ExchangeKind::kNeighborhood, TopologyKind::kRing, Overlap::kOn},
      ExchangeCase{"matching", ExchangeKind::kNeighborhood, TopologyKind::kMatching},
      ExchangeCase{"ring_timed", ExchangeKind::kNeighborhood, TopologyKind::kRing, Overlap::kOff, false,
                   std::chrono::milliseconds(30)},
      ExchangeCase{"group", ExchangeKind::kGroup},
      ExchangeCase{"group_overlapped", ExchangeKind::kGroup, TopologyKind::kMatching, Overlap::kOn},
      ExchangeCase{"gradients", ExchangeKind::kGroup, TopologyKind::kMatching, Overlap::kOff, true},
      ExchangeCase{.name = "updates", .kind = ExchangeKind::kGroup, .updates = true},
      ExchangeCase{
          .name = "updates_overlapped", .kind = ExchangeKind::kGroup, .overlap = Overlap::kOn, .updates = true});
}

inline std::string name_of(const testing::TestParamInfo<ExchangeCase>& info) { return info.param.name; }

// rms distance between the mean of the living agents' params and the mean of their targets.
inline double error(QuadraticSwarm& swarm) {
  const std::vector<double> mean = swarm.mean_params(), target = swarm.mean_target();
  double squares = 0;
  for (size_t i = 0; i < mean.size(); ++i) squares += std::pow(mean[i] - target[i], 2);
  return std::sqrt(squares / static_cast<double>(mean.size()));
}

}  // namespace starling
