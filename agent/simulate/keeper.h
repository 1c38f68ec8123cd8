// States in memory: what a checkpoint folder is to a real agent. A Disk survives a restart of its agent.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/state/state_keeper.h"

namespace starling {

struct SimDisk {
  bool written = false;
  Progress progress;
  std::vector<float> params, momentum;
  std::vector<std::byte> trainer_state, memory;
  std::string settings;
};

// `disk` must outlive the keeper.
std::unique_ptr<StateKeeper> make_sim_keeper(SimDisk& disk);

}  // namespace starling
