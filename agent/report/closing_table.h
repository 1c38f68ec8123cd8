// One agent of a finished swarm beside the others: what the closing table and the page say of it alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/report/facts.h"
#include "agent/report/report.h"

namespace starling {

// "labels 0 1 2", "8 labels" where they are too many to name, "shard 2" of data without labels.
std::string describe_data(const AgentReport& agent);

// The accuracy of this agent's shard trained alone. nullopt: not run, or the agent is a newcomer: it took its shard
// over, and trained for another time than that run.
std::optional<double> alone_of(const SwarmReport& report, const AgentReport& agent);

// Exchanges that two agents completed with each other: the larger of their counts, since the last lines of a killed
// agent are missing. `a` and `b` are indices; 0 where they are the same.
uint64_t completed_between(const SwarmReport& report, size_t a, size_t b);

// Exchanges that an agent completed. Of pairs: at least as many as completed_between() sums up to.
uint64_t completed_of(const SwarmReport& report, size_t agent);

// Bytes; what an agent sends in a local step, with all that comes with it. nullopt: it took none.
std::optional<double> sent_a_step(const AgentReport& agent);

// What the closing table leaves out.
FactTable agent_facts(const SwarmReport& report);

std::vector<PairReport> pairs_of(const SwarmReport& report);

}  // namespace starling
