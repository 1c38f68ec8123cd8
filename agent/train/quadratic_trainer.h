// A trainer with a known answer: each agent pulls towards a target of its own, so the swarm's optimum is
// the mean of the targets, where all pull alike. Computes on the caller's thread at once; a pretended step time makes
// it busy until that has passed on the given clock, virtual or real.
#pragma once

#include <memory>

#include "agent/train/options.h"
#include "agent/train/trainer.h"
#include "gossip/rng.h"

namespace starling {

// What settings do not say, and tests do.
struct QuadraticShape {
  double curvature = 1;  // of the loss; the swarm's optimum is the mean of the targets weighted by it
  uint64_t samples = 1;  // how much data it says to have, for `weight: data`
  std::shared_ptr<const double> rate_factor{};  // on the learning rate of each step, as it is then; null: 1
  size_t state_from = SIZE_MAX;                 // as TrainerSection says
};

struct QuadraticOptions {
  uint64_t dimension = 1000;  // params; > 0
  double momentum = 0;        // heavy ball: v = momentum * v + gradient, x -= learning_rate * v
  double gradient_noise = 0;  // standard deviation, per element and step
  bool integer_grid = false;  // targets and genesis are integers in [-8, 8]: sums of few of them are exact
  bool zero_genesis = false;  // start from zeros, not from the swarm's rng seed
  uint32_t batch = 1;         // samples counted per step
  Duration step_time{};
  // The params of a layer, the last ones first, are final when backward has come to its end; without layers, all when
  // the step begins. With layers it is the sending that is looked at, so the processor is left to that: a step moves
  // one in sixteen params, in turn, and its loss is that of the first ones. REQUIRES: as many params as there are.
  std::vector<PretendedLayer> layers{};
  QuadraticShape shape{};
};

// The swarm's first params: the same for every agent of the rng seed.
std::vector<float> quadratic_genesis(const QuadraticOptions& options, uint64_t swarm_rng_seed);

class QuadraticTrainer : public Trainer {
 public:
  // The target follows from agent_rng_seed alone. `clock` must outlive the trainer.
  QuadraticTrainer(const QuadraticOptions& options, uint64_t swarm_rng_seed, uint64_t agent_rng_seed,
                   const Clock& clock);

  std::vector<TrainerSection> sections() override;  // params, and momentum if it has any
  void params_changed() override {}
  // A learning rate of 0 leaves params and momentum alone and costs nothing; the loss reported is the last
  // known one.
  void start_steps(const LocalSteps& steps) override;
  void start_evaluation() override;  // of the loss: there are no samples, so Evaluation::samples is 0
  TimePoint idle_at() const override { return clock_.now() >= idle_at_ ? TimePoint::min() : idle_at_; }
  StepReport take_steps() override;
  std::optional<Evaluation> take_evaluation() override;
  std::vector<std::byte> save_state() override;
  bool load_state(std::span<const std::byte> state) override;
  TrainerData data() const override;

  std::span<const float> target() const { return target_; }
  double loss() const;  // 0.5 * curvature * ||params - target||^2 / dimension

 private:
  static constexpr size_t kFinalElements = 4096;  // it tells of runs of so many, the last one first
  // With layers.
  static constexpr size_t kRunsInTurn = 16, kRunElements = 256;
  static constexpr size_t kLossElements = 65536;

  double loss(size_t begin, size_t end) const;
  void step(const LocalSteps& steps);
  void step(const LocalSteps& steps, Rng& rng, size_t begin, size_t end);
  void tell_final(const LocalSteps& steps);
  void tell_layers(const LocalSteps& steps, TimePoint end) const;

  const QuadraticOptions options_;
  const uint64_t agent_rng_seed_;
  const Clock& clock_;
  std::vector<float> params_, momentum_, target_;
  uint64_t steps_ = 0;  // since the beginning: place in the noise
  double last_loss_ = 0;
  StepReport report_;
  std::optional<Evaluation> evaluation_;
  TimePoint idle_at_{};
};

// As `trainer` says: dimension, momentum, batch, compute_ms and layers; the shape is the caller's. Throws
// std::runtime_error on what a quadratic cannot do (adamw, no params, layers of another size).
std::unique_ptr<QuadraticTrainer> make_quadratic_trainer(const TrainerOptions& trainer, uint64_t agent_rng_seed,
                                                         const Clock& clock, const QuadraticShape& shape = {});

}  // namespace starling
