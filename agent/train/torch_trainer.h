// Trains a built-in network with LibTorch, on the GPU where there is one, else on the CPU. Params, gradients
// and momentum each lie in one flat buffer; the network's tensors are views into them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "agent/data/dataset.h"
#include "agent/train/options.h"
#include "agent/train/trainer.h"
#include "kernels/copy_lane.h"

namespace starling {

// A lane with so many tickets.
using MakeCopyLane = std::function<std::unique_ptr<CopyLane>(size_t tickets)>;

// Takes the data over. `on_idle` is called on the trainer's thread each time it becomes idle; may be empty.
// The params are the genesis, at once or from draw_genesis() on. The section "momentum" is SGD's, where it has one.
// take_steps and take_evaluation throw std::runtime_error if LibTorch failed meanwhile (out of memory, say).
// Throws std::runtime_error with cause and remedy: data that do not fit the model, none to train on, an
// unknown optimizer, `agent.device: cuda` without a usable GPU.
// `make_lane`: for tests. Then steps on the CPU are taken as on a GPU, and parts are told of when they have landed.
std::unique_ptr<Trainer> make_torch_trainer(const TrainerOptions& options, Dataset train, Dataset test,
                                            std::function<void()> on_idle, const MakeCopyLane& make_lane = {});

}  // namespace starling
