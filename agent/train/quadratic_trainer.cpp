#include "agent/train/quadratic_trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "agent/train/model_kinds.h"
#include "gossip/rng.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr uint64_t kGenesisStream = 0x47454e45534953ull;  // "GENESIS"
constexpr uint64_t kTargetStream = 0x544152474554ull;     // "TARGET"
constexpr uint64_t kNoiseStream = 0x4e4f495345ull;        // "NOISE"
constexpr uint64_t kStateMagic = 0x3144415551524c53ull;   // "SLRQUAD1"

struct State {
  uint64_t magic;
  uint64_t dimension;
  uint64_t steps;
  double last_loss;
};

float draw_value(Rng& rng, bool integer_grid) {
  if (integer_grid) return static_cast<float>(static_cast<int>(rng.below(17)) - 8);
  return static_cast<float>(4 * rng.uniform() - 2);
}

// A sum of four uniforms: close enough to a normal, and without transcendental functions, so the same on every machine.
double draw_noise(Rng& rng) {
  const double sum = rng.uniform() + rng.uniform() + rng.uniform() + rng.uniform();
  return (sum - 2) * 1.7320508075688772;  // variance 4/12 -> 1
}

double backward_s(const std::vector<PretendedLayer>& layers) {
  double sum = 0;
  for (const PretendedLayer& layer : layers) sum += layer.backward_s;
  return sum;
}

// The layers of `trainer`, and how long a step is: compute_ms, if it is given, scales what they take.
void add_layers(const TrainerOptions& trainer, QuadraticOptions& options) {
  uint64_t params = 0;
  for (const PretendedLayer& layer : trainer.layers) params += layer.params;
  if (params != options.dimension) {
    throw std::runtime_error("the layers of STARLING_TEST_LAYERS have " + std::to_string(params) +
                             " params, the model has " + std::to_string(options.dimension) +
                             "; set swarm.model.dimension: " + std::to_string(params));
  }
  options.layers = trainer.layers;
  const double step_s = trainer.forward_s + backward_s(trainer.layers);
  const double slower = trainer.compute_ms > 0 && step_s > 0 ? 1e-3 * trainer.compute_ms / step_s : 1;
  for (PretendedLayer& layer : options.layers) layer.backward_s *= slower;
  options.step_time = from_seconds(step_s * slower);
}

}  // namespace

std::vector<float> quadratic_genesis(const QuadraticOptions& options, uint64_t swarm_rng_seed) {
  std::vector<float> params(options.dimension, 0.0f);
  Rng rng(swarm_rng_seed ^ kGenesisStream);
  if (!options.zero_genesis) {
    for (float& x : params) x = draw_value(rng, options.integer_grid);
  }
  return params;
}

QuadraticTrainer::QuadraticTrainer(const QuadraticOptions& options, uint64_t swarm_rng_seed, uint64_t agent_rng_seed,
                                   const Clock& clock)
    : options_(options),
      agent_rng_seed_(agent_rng_seed),
      clock_(clock),
      params_(quadratic_genesis(options, swarm_rng_seed)),
      idle_at_(clock.now()) {
  STARLING_CHECK(options_.dimension > 0);
  if (options_.momentum > 0) momentum_.assign(options_.dimension, 0.0f);
  Rng rng(agent_rng_seed_ ^ kTargetStream);
  target_.reserve(options_.dimension);
  for (uint64_t i = 0; i < options_.dimension; ++i) target_.push_back(draw_value(rng, options_.integer_grid));
}

std::vector<TrainerSection> QuadraticTrainer::sections() {
  STARLING_CHECK(idle());
  const auto view_of = [](std::vector<float>& values) {
    return View{values.data(), values.size(), MemorySpace::kHost};
  };
  std::vector<TrainerSection> sections = {{"params", SectionKind::kMixed, view_of(params_), options_.shape.state_from}};
  if (!momentum_.empty()) sections.push_back({"momentum", SectionKind::kLocal, view_of(momentum_)});
  return sections;
}

double QuadraticTrainer::loss() const { return loss(0, params_.size()); }

double QuadraticTrainer::loss(size_t begin, size_t end) const {
  double sum = 0;
  for (size_t i = begin; i < end; ++i) {
    const double difference = static_cast<double>(params_[i]) - target_[i];
    sum += difference * difference;
  }
  return 0.5 * options_.shape.curvature * sum / static_cast<double>(end - begin);
}

void QuadraticTrainer::step(const LocalSteps& steps) {
  Rng rng(Rng(agent_rng_seed_ ^ kNoiseStream).next_u64() ^ steps_);  // by step: a resumed run draws the same noise
  if (options_.layers.empty()) {
    step(steps, rng, 0, params_.size());
  } else {
    for (size_t begin = steps_ % kRunsInTurn * kRunElements; begin < params_.size();
         begin += kRunsInTurn * kRunElements) {
      step(steps, rng, begin, std::min(begin + kRunElements, params_.size()));
    }
  }
  ++steps_;
}

void QuadraticTrainer::step(const LocalSteps& steps, Rng& rng, size_t begin, size_t end) {
  const double factor = options_.shape.rate_factor ? *options_.shape.rate_factor : 1;
  const float rate = static_cast<float>(steps.learning_rate * factor), keep = static_cast<float>(options_.momentum);
  const float curvature = static_cast<float>(options_.shape.curvature);
  for (size_t i = begin; i < end; ++i) {
    float direction = curvature * (params_[i] - target_[i]);
    if (options_.gradient_noise > 0) direction += static_cast<float>(options_.gradient_noise * draw_noise(rng));
    if (steps.correction.count > 0) direction += steps.correction.data[i];
    if (!momentum_.empty()) direction = momentum_[i] = keep * momentum_[i] + direction;
    params_[i] -= rate * direction;
  }
}

// It computes at once, so the params are already what the step makes of them.
void QuadraticTrainer::tell_final(const LocalSteps& steps) {
  for (size_t end = params_.size(); end > 0;) {
    const size_t count = (end - 1) % kFinalElements + 1;
    end -= count;
    (void)steps.on_final({end, count, clock_.now()});
  }
}

// Backward ends with the step, and is what the layers take.
void QuadraticTrainer::tell_layers(const LocalSteps& steps, TimePoint end) const {
  double left_s = backward_s(options_.layers);
  size_t offset = params_.size();
  for (const PretendedLayer& layer : options_.layers) {
    left_s -= layer.backward_s;
    offset -= layer.params;
    (void)steps.on_final({offset, layer.params, end - from_seconds(std::max(0.0, left_s))});
  }
}

void QuadraticTrainer::start_steps(const LocalSteps& steps) {
  STARLING_CHECK(idle());
  STARLING_CHECK(steps.correction.count == 0 || steps.correction.count == params_.size());
  const TimePoint start = clock_.now();
  report_ = StepReport{};
  double loss_sum = 0;
  for (uint32_t i = 0; i < steps.count && report_.finite; ++i) {
    if (steps.learning_rate != 0) {
      const double loss_here = options_.layers.empty() ? loss() : loss(0, std::min(params_.size(), kLossElements));
      report_.finite = std::isfinite(loss_here);
      if (!report_.finite) break;
      last_loss_ = loss_here;
      step(steps);
    } else {
      ++steps_;
    }
    loss_sum += last_loss_;
    ++report_.steps;
  }
  report_.samples = report_.steps * options_.batch;
  report_.mean_loss = report_.steps > 0 ? loss_sum / static_cast<double>(report_.steps) : 0;
  idle_at_ = start + static_cast<int64_t>(report_.steps) * options_.step_time;
  report_.compute_time = std::max(idle_at_, clock_.now()) - start;
  if (!options_.layers.empty()) {
    report_.backward_time =
        std::min(report_.compute_time, static_cast<int64_t>(report_.steps) * from_seconds(backward_s(options_.layers)));
    report_.forward_time = report_.compute_time - report_.backward_time;
  }
  if (!steps.on_final || !report_.finite) return;
  if (options_.layers.empty())
    tell_final(steps);
  else
    tell_layers(steps, idle_at_);
}

void QuadraticTrainer::start_evaluation() {
  STARLING_CHECK(idle());
  evaluation_ = Evaluation{.accuracy = 0, .loss = loss(), .samples = 0};
}

StepReport QuadraticTrainer::take_steps() {
  STARLING_CHECK(idle());
  return report_;
}

std::optional<Evaluation> QuadraticTrainer::take_evaluation() {
  STARLING_CHECK(idle());
  return std::exchange(evaluation_, std::nullopt);
}

std::vector<std::byte> QuadraticTrainer::save_state() {
  STARLING_CHECK(idle());
  const State state{kStateMagic, options_.dimension, steps_, last_loss_};
  std::vector<std::byte> bytes(sizeof state);
  std::memcpy(bytes.data(), &state, sizeof state);
  return bytes;
}

bool QuadraticTrainer::load_state(std::span<const std::byte> bytes) {
  STARLING_CHECK(idle());
  State state;
  if (bytes.size() != sizeof state) return false;
  std::memcpy(&state, bytes.data(), sizeof state);
  if (state.magic != kStateMagic || state.dimension != options_.dimension || !std::isfinite(state.last_loss)) {
    return false;
  }
  steps_ = state.steps;
  last_loss_ = state.last_loss;
  return true;
}

TrainerData QuadraticTrainer::data() const {
  return {options_.shape.samples, "a quadratic of " + std::to_string(options_.dimension) + " params"};
}

std::unique_ptr<QuadraticTrainer> make_quadratic_trainer(const TrainerOptions& trainer, uint64_t agent_rng_seed,
                                                         const Clock& clock, const QuadraticShape& shape) {
  refuse_optimizer("quadratic", trainer.optimizer);
  if (trainer.optimizer.nesterov || trainer.optimizer.weight_decay != 0) {
    throw std::runtime_error(
        "the quadratic model knows neither nesterov nor weight_decay; "
        "leave them out of swarm.optimizer");
  }
  if (trainer.model.dimension == 0) {
    throw std::runtime_error("a quadratic without params; set swarm.model.dimension to at least 1");
  }
  QuadraticOptions options;
  options.dimension = trainer.model.dimension;
  options.momentum = trainer.optimizer.momentum;
  options.shape = shape;
  options.gradient_noise = trainer.model.noise;
  options.batch = trainer.batch;
  options.step_time = from_seconds(trainer.compute_ms * 1e-3);
  if (!trainer.layers.empty()) add_layers(trainer, options);
  return std::make_unique<QuadraticTrainer>(options, trainer.swarm_rng_seed, agent_rng_seed, clock);
}

}  // namespace starling
