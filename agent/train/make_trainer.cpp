#include "agent/train/make_trainer.h"

#include <utility>

#include "agent/train/model_kinds.h"
#include "agent/train/quadratic_trainer.h"
#include "agent/train/torch_trainer.h"

namespace starling {

std::unique_ptr<Trainer> make_trainer(const TrainerOptions& options, DatasetPair data, uint64_t agent_rng_seed,
                                      const Clock& clock, std::function<void()> on_idle) {
  refuse_attached(options.model);
  if (options.model.kind == "quadratic") return make_quadratic_trainer(options, agent_rng_seed, clock);
  return make_torch_trainer(options, std::move(data.train), std::move(data.test), std::move(on_idle));
}

}  // namespace starling
