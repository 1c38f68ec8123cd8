// How far pair exchanges let the params of agents drift apart if their gradients always differ in the same direction,
// in own gradient steps. It is what all later exchanges leave of one such step, summed. It is shown, and nothing
// obeys it. Found for partners drawn by chance (gossip/pairs/turn_schedule.h): by a schedule agents are closer.
//
//   D = l / (1 - l) / (1 - m l)  where the momentum m travels with the params, else l / (1 - l) / (1 - m)
//   l = (1 - gain / 2 * n / (n - 1)) ^ exchanges of an agent in a step: what a step leaves of a difference of n agents
#pragma once

#include <cstdint>
#include <optional>

#include "agent/config/config.h"
#include "agent/report/pair_report.h"

namespace starling {

// `agents`: in the swarm, this one among them. nullopt: nothing brings the agents together, or the formula does not
// hold (no exchanges, partners of a graph, or only a part of the differences is mixed).
std::optional<double> pair_drift(const SwarmConfig& swarm, const PairReport& pairs, uint64_t agents);

}  // namespace starling
