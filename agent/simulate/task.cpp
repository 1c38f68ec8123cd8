#include "agent/simulate/task.h"

#include "agent/train/model_kinds.h"
#include "agent/train/quadratic_trainer.h"
#include "gossip/sim/virtual_network.h"
#include "kernels/check.h"

namespace starling {
namespace {

class QuadraticTask final : public SimTask {
 public:
  QuadraticTask(const Config& config, size_t shards) : config_(config) {
    const VirtualClock clock;
    for (size_t shard = 0; shard < shards; ++shard) {
      const auto trainer = make_one(shard, config.swarm, clock);
      targets_.emplace_back(trainer->target().begin(), trainer->target().end());
    }
  }

  std::unique_ptr<Trainer> make(size_t shard, const SwarmConfig& swarm, const Clock& clock,
                                std::function<void()>) override {
    return make_one(shard, swarm, clock);
  }
  bool has_trainer_for_all() const override { return false; }
  std::unique_ptr<Trainer> make_for_all(const SwarmConfig&, const Clock&, std::function<void()>) override {
    return nullptr;
  }
  SimScore score(std::span<const float> params, const std::vector<size_t>& shards) override {
    if (shards != shards_) {
      shards_ = shards;
      optimum_.assign(params.size(), 0);
      for (const size_t shard : shards) {
        for (size_t i = 0; i < params.size(); ++i) optimum_[i] += targets_[shard][i];
      }
      for (double& value : optimum_) value /= static_cast<double>(shards.size());
    }
    STARLING_CHECK(params.size() == optimum_.size());
    double squares = 0;
    for (size_t i = 0; i < params.size(); ++i) squares += (params[i] - optimum_[i]) * (params[i] - optimum_[i]);
    return {0.5 * squares / static_cast<double>(params.size()), std::nullopt};
  }

 private:
  std::unique_ptr<QuadraticTrainer> make_one(size_t shard, const SwarmConfig& swarm, const Clock& clock) {
    AgentConfig agent = config_.agent;
    agent.compute_ms = 0;  // time is the simulation's
    agent.layers.clear();
    return make_quadratic_trainer(trainer_options(swarm, agent), config_.swarm.rng_seed * 1000003 + shard, clock);
  }

  const Config config_;
  std::vector<std::vector<float>> targets_;
  std::vector<size_t> shards_;  // the shards that optimum_ belongs to
  std::vector<double> optimum_;
};

}  // namespace

std::unique_ptr<SimTask> make_quadratic_task(const Config& config, size_t shards) {
  refuse_attached(config.swarm.model);
  return std::make_unique<QuadraticTask>(config, shards);
}

}  // namespace starling
