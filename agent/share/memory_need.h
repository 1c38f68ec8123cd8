// What an agent takes in memory at its highest, foretold from its settings.
#pragma once

#include <cstdint>

#include "agent/config/config.h"

namespace starling {

// Of the program itself with LibTorch, and a few megabytes of data. Bytes.
inline constexpr uint64_t kProgramMemory = 150'000'000;

// Bytes beside that, on a CPU: weights, gradients and the optimizer's state, unless a loop of the user's own has them,
// what the exchange and a checkpoint hold, and a step's values. Fitted to networks of 4 to 50 million params. Throws
// std::runtime_error for sizes that make no model.
uint64_t memory_need(const SwarmConfig& swarm, const AgentConfig& agent);

// Throws std::runtime_error, with what to do, where this machine or its cgroup cannot give `agents` so much. Refuses
// nothing where the weights may lie on a GPU.
void require_memory_for(const SwarmConfig& swarm, const AgentConfig& agent, uint64_t agents = 1);

}  // namespace starling
