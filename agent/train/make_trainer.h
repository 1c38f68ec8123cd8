// From the settings to the trainer that obeys them: the one place that knows which trainer a model needs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "agent/data/dataset.h"
#include "agent/train/options.h"
#include "agent/train/trainer.h"

namespace starling {

// Takes ownership of the data. Both sets are empty for a kind that needs none; it draws its target from
// `agent_rng_seed`. `on_idle` is called on the trainer's thread, if there is one, each time it becomes idle; it may be
// empty. `clock` must outlive the trainer. Throws std::runtime_error with cause and remedy.
std::unique_ptr<Trainer> make_trainer(const TrainerOptions& options, DatasetPair data, uint64_t agent_rng_seed,
                                      const Clock& clock, std::function<void()> on_idle);

}  // namespace starling
