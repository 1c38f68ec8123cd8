// The tasks of a simulation that need LibTorch: images, in shards.
#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "agent/data/dataset.h"
#include "agent/simulate/task.h"
#include "agent/simulate/timed_trainer.h"
#include "agent/state/genesis_file.h"
#include "agent/train/make_trainer.h"
#include "gossip/rng.h"
#include "gossip/sim/virtual_network.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr size_t kTestSamplesMax = 2000;         // every agent's model is evaluated many times
constexpr uint64_t kTestStream = 0x54455354ull;  // "TEST"

// A random sample, the same in every run. Every n-th sample would be biased: files may be sorted by label or cycle
// through the labels.
Dataset thin_out(const Dataset& data) {
  if (data.count() <= kTestSamplesMax) return data;
  std::vector<uint32_t> chosen(data.count());
  std::iota(chosen.begin(), chosen.end(), 0u);
  Rng(kTestStream).shuffle(chosen);
  chosen.resize(kTestSamplesMax);
  return data.select(chosen);
}

class TorchTask final : public SimTask {
 public:
  TorchTask(const Config& config, size_t shards) : config_(config) {
    config_.agent.device = "cpu";  // one device for all, and the same bytes wherever it runs
    config_.agent.threads = 1;     // sums in one order
    config_.agent.compute_ms = 0;  // time is the simulation's
    DataConfig whole = config.agent.data;
    whole.sharding = "all";
    whole.shard = 0;
    whole.shard_count = 1;
    DatasetPair data = load_data(whole, config.swarm.model.samples(), config.swarm.rng_seed);
    train_ = std::move(data.train);
    config_.agent.data.labels.clear();  // load_data has removed the others
    for (size_t shard = 0; shard < shards; ++shard) indices_.push_back(choose(shard, shards));
    judge_ = std::make_unique<TimedTrainer>(
        [&](std::function<void()> on_idle) {
          Dataset one = train_.select({0});
          return make_trainer(trainer_options(config_.swarm, config_.agent), {std::move(one), thin_out(data.test)}, 0,
                              clock_, std::move(on_idle));
        },
        clock_, Duration::zero());
  }

  std::unique_ptr<Trainer> make(size_t shard, const SwarmConfig& swarm, const Clock&,
                                std::function<void()> on_idle) override {
    return make_one(swarm, shard, train_.select(indices_[shard]), std::move(on_idle));
  }
  bool has_trainer_for_all() const override { return true; }
  std::unique_ptr<Trainer> make_for_all(const SwarmConfig& swarm, const Clock&,
                                        std::function<void()> on_idle) override {
    return make_one(swarm, 0, train_, std::move(on_idle));
  }
  SimScore score(std::span<const float> params, const std::vector<size_t>&) override {
    const View view = judge_->params();
    STARLING_CHECK(view.count == params.size());
    std::copy(params.begin(), params.end(), view.data);
    judge_->params_changed();
    judge_->start_evaluation();
    const std::optional<Evaluation> evaluation = judge_->take_evaluation();
    if (!evaluation || evaluation->samples == 0) return {};
    return {evaluation->loss, evaluation->accuracy};
  }

 private:
  std::vector<uint32_t> choose(size_t shard, size_t shards) const {
    DataConfig mine = config_.agent.data;
    mine.shard = static_cast<uint32_t>(shard);
    mine.shard_count = static_cast<uint32_t>(shards);
    std::vector<uint32_t> indices =
        shard_indices(train_.labels, config_.swarm.model.classes, mine, config_.swarm.rng_seed);
    if (indices.empty()) {
      throw std::runtime_error("shard " + std::to_string(shard + 1) + "/" + std::to_string(shards) + " (sharding " +
                               mine.sharding + ") of " + mine.path +
                               " holds no samples; use fewer --agents, or "
                               "--set agent.data.sharding=iid or dirichlet");
    }
    return indices;
  }

  // Its agents do not evaluate: they hold no test data.
  std::unique_ptr<Trainer> make_one(const SwarmConfig& swarm, size_t shard, Dataset data,
                                    std::function<void()> on_idle) {
    AgentConfig agent = config_.agent;
    agent.data.shard = static_cast<uint32_t>(shard);  // its order of samples follows from it
    auto trainer = make_trainer(trainer_options(swarm, agent), {std::move(data), Dataset{.shape = train_.shape}}, 0,
                                clock_, std::move(on_idle));
    if (!agent.genesis.empty()) begin_from(agent.genesis, swarm.model, *trainer);
    return trainer;
  }

  Config config_;
  Dataset train_;
  std::vector<std::vector<uint32_t>> indices_;  // by shard
  VirtualClock clock_;
  std::unique_ptr<TimedTrainer> judge_;
};

}  // namespace

std::unique_ptr<SimTask> make_torch_task(const Config& config, size_t shards) {
  return std::make_unique<TorchTask>(config, shards);
}

}  // namespace starling
