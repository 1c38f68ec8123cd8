// The same settings without a swarm: each shard trained alone, and one process with all the data.
#pragma once

#include <optional>
#include <vector>

#include "agent/local/command_lines.h"
#include "agent/local/table.h"

namespace starling {

struct BaselineResult {
  std::vector<std::optional<double>> alone;  // accuracy by shard; empty where the run failed
  std::optional<double> central;
  std::string failure;  // of the runs that failed, for people
};

// Runs them as processes, at most as many at once as there are cores, each in a folder of its own under `dir`.
// Ends early, with the results known by then, if the gate receives a signal to end.
BaselineResult run_baselines(const SwarmCommandLines& lines, uint32_t shards, const std::filesystem::path& dir,
                             Clock& clock, SignalGate& gate);

}  // namespace starling
