// How far pair exchanges let the params of agents drift apart whose gradients differ always in the same direction, in
// own gradient steps: what is left of one such step after all later exchanges, summed. It is shown, and nothing obeys
// it. Found for partners drawn by chance (gossip/exchange/turns.md): by a schedule agents are closer.
//
//   D = l / (1 - l) / (1 - m l)  where the momentum m travels with the params, else l / (1 - l) / (1 - m)
//   l = (1 - gain / 2 * n / (n - 1)) ^ exchanges of an agent in a step: what a step leaves of a difference of n agents
#pragma once

#include <cstdint>
#include <optional>

#include "agent/config/config.h"
#include "agent/report/pair_report.h"

namespace starling {

// `agents`: in the swarm, this one among them. nullopt: the formula says nothing of these exchanges (none were made,
// the partners are those of a graph, a part of the differences alone is mixed), or nothing brings the agents together.
std::optional<double> pair_drift(const SwarmConfig& swarm, const PairReport& pairs, uint64_t agents);

}  // namespace starling
