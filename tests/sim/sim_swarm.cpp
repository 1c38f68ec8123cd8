#include "tests/sim/sim_swarm.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gossip/limits.h"
#include "gossip/net/hash.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr int kTicksPerInstantMax = 10000;   // more means that an agent spins without time passing

// What a checkpoint folder is to a real agent: survives a restart.
class MemoryModel final : public ModelFile {
 public:
  MemoryModel(std::vector<float> params, const Progress& progress) : progress_(progress) {
    const auto bytes = std::as_bytes(std::span<const float>(params));
    bytes_ = SharedBytes::copy_of(bytes);
    Blake2b256 root;
    for (size_t at = 0; at < bytes.size(); at += kTransferBlockBytes) {
      hashes_.push_back(xxh3_128(bytes.subspan(at, std::min(kTransferBlockBytes, bytes.size() - at))));
      root.update(std::as_bytes(std::span(hashes_.back())));
    }
    root_ = root.finish();
    std::memcpy(&snapshot_, root_.data(), sizeof snapshot_);
  }
  uint64_t snapshot() const override { return snapshot_; }
  uint64_t round() const override { return progress_.round; }
  uint64_t steps() const override { return progress_.steps; }
  uint64_t total_bytes() const override { return bytes_.size; }
  const std::array<uint8_t, 32>& root() const override { return root_; }
  const std::vector<std::array<uint8_t, 16>>& hashes() const override { return hashes_; }
  SharedBytes block(uint32_t index) const override {
    const size_t at = index * kTransferBlockBytes;
    return {bytes_.owner, bytes_.data + at, std::min(kTransferBlockBytes, bytes_.size - at)};
  }

 private:
  Progress progress_;
  SharedBytes bytes_;
  uint64_t snapshot_ = 0;
  std::array<uint8_t, 32> root_{};
  std::vector<std::array<uint8_t, 16>> hashes_;
};

struct Disk {
  bool written = false;
  Progress progress;
  std::vector<float> params, momentum;
  std::vector<std::byte> trainer_state;
  std::vector<BlockState> blocks;
  std::string settings;
};

class MemoryKeeper final : public StateKeeper {
 public:
  explicit MemoryKeeper(Disk& disk) : disk_(disk) {}
  std::string save(const Progress& progress, Trainer& trainer, const std::vector<BlockState>& blocks) override {
    const View params = trainer.params(), momentum = trainer.momentum();
    disk_.progress = progress;
    disk_.params.assign(params.data, params.data + params.count);
    disk_.momentum.assign(momentum.data, momentum.data + momentum.count);
    disk_.trainer_state = trainer.save_state();
    disk_.blocks = blocks;
    disk_.written = true;
    model_ = std::make_shared<MemoryModel>(disk_.params, progress);
    return "";
  }
  bool restore(Progress* progress, Trainer& trainer, std::vector<BlockState>* blocks) override {
    if (!disk_.written || !trainer.load_state(disk_.trainer_state)) return false;
    std::copy(disk_.params.begin(), disk_.params.end(), trainer.params().data);
    std::copy(disk_.momentum.begin(), disk_.momentum.end(), trainer.momentum().data);
    *progress = disk_.progress;
    *blocks = disk_.blocks;
    return true;
  }
  std::shared_ptr<const ModelFile> model() const override { return model_; }

 private:
  Disk& disk_;
  std::shared_ptr<const ModelFile> model_;
};

}  // namespace

struct SimSwarm::Slot {
  SimAgentOptions options;
  PeerId id;
  Endpoint endpoint;
  uint64_t generation = 1000;
  bool alive = false, paused = false;
  Disk disk;
  MetricsFile metrics{""};
  std::unique_ptr<Transport> transport;
  std::unique_ptr<InlineWorker> worker;
  QuadraticTrainer* trainer = nullptr;   // owned by the agent
  View params, momentum;                 // of the trainer; looked at between ticks, whatever it does
  std::unique_ptr<Agent> agent;
};

SimSwarm::SimSwarm(uint64_t rng_seed, const SwarmConfig& swarm, const LinkOptions& links)
    : network_(clock_, rng_seed, links), swarm_(swarm), rng_seed_(rng_seed) {}

SimSwarm::~SimSwarm() = default;

size_t SimSwarm::add(const SimAgentOptions& options) {
  const size_t index = slots_.size();
  auto slot = std::make_unique<Slot>();
  slot->options = options;
  Rng rng(rng_seed_ * 1000003 + index);
  for (uint8_t& byte : slot->id.bytes) byte = static_cast<uint8_t>(rng.below(256));
  slot->endpoint = {"10.0.0." + std::to_string(index + 1), 7400};
  slots_.push_back(std::move(slot));
  start(index);
  return index;
}

void SimSwarm::start(size_t index) {
  Slot& slot = *slots_[index];
  slot.generation += 1;
  slot.transport = network_.open(slot.endpoint);
  slot.worker = std::make_unique<InlineWorker>();
  AgentOptions options;
  options.config.swarm = swarm_;
  options.config.has_swarm = !slot.options.adopt_settings;
  options.config.agent.name = "agent-" + std::to_string(index);
  options.config.agent.checkpoint_every = std::chrono::seconds(2);
  options.config.agent.evaluate_every = Duration::zero();
  options.config.agent.compute_ms = seconds(slot.options.step_time) * 1e3;
  if (slot.options.bootstrap.empty() && index > 0) options.config.agent.bootstrap = {slots_[0]->endpoint};
  for (size_t other : slot.options.bootstrap) options.config.agent.bootstrap.push_back(slots_[other]->endpoint);
  options.self = slot.id;
  options.generation = slot.generation;
  options.advertise = slot.endpoint;
  options.stored_settings = options.config.has_swarm ? "" : slot.disk.settings;
  options.rng_seed = rng_seed_ * 7919 + index * 101 + slot.generation;
  const AgentParts parts{
      *slot.transport, clock_, *slot.worker, slot.metrics,
      [this, &slot, index](const SwarmConfig& swarm) {
        AgentConfig agent;
        agent.compute_ms = seconds(slot.options.step_time) * 1e3;
        auto trainer = make_quadratic_trainer(swarm, agent, rng_seed_ * 31 + index, clock_);
        slot.trainer = trainer.get();
        slot.params = trainer->params();
        slot.momentum = trainer->momentum();
        return trainer;
      },
      [&slot](uint64_t, const std::string& settings) {
        slot.disk.settings = settings;
        return std::make_unique<MemoryKeeper>(slot.disk);
      }};
  slot.agent = std::make_unique<Agent>(options, parts);
  slot.alive = true;
  slot.paused = false;
}

void SimSwarm::kill(size_t index) {
  Slot& slot = *slots_[index];
  slot.alive = false;
  network_.kill(slot.endpoint);
  slot.agent.reset();
  slot.trainer = nullptr;
  slot.worker.reset();
  slot.transport.reset();
}

void SimSwarm::restart(size_t index) {
  if (slots_[index]->alive) kill(index);
  start(index);
}

void SimSwarm::pause(size_t index, bool paused) { slots_[index]->paused = paused; }

bool SimSwarm::living(size_t index) const {
  return slots_[index]->alive && !slots_[index]->agent->finished();
}
Agent& SimSwarm::agent(size_t index) { return *slots_[index]->agent; }
QuadraticTrainer& SimSwarm::trainer(size_t index) { return *slots_[index]->trainer; }
PeerId SimSwarm::id(size_t index) const { return slots_[index]->id; }
Endpoint SimSwarm::endpoint(size_t index) const { return slots_[index]->endpoint; }

void SimSwarm::tick_all() {
  for (const auto& slot : slots_) {
    if (!slot->alive || slot->paused) continue;
    do {
      const bool was_training = slot->agent->rounds() != nullptr;
      slot->agent->tick();
      if (!was_training && slot->agent->rounds() && slot->options.random_start) {
        Rng rng(rng_seed_ ^ std::hash<PeerId>()(slot->id));
        for (const View view : {slot->params, slot->momentum}) {
          std::vector<double>& sum = view.data == slot->params.data ? initial_params_ : initial_momentum_;
          sum.resize(view.count);
          for (size_t i = 0; i < view.count; ++i) {
            view.data[i] = static_cast<float>(rng.uniform() * 2 - 1);
            sum[i] += slot->agent->rounds()->mass() * view.data[i];
          }
        }
      }
    } while (slot->worker->has_completions());
  }
}

void SimSwarm::run_for(Duration duration) {
  run_until([] { return false; }, duration);
}

bool SimSwarm::run_until(const std::function<bool()>& condition, Duration at_most) {
  const TimePoint end = clock_.now() + at_most;
  int ticks_at_this_instant = 0;
  while (clock_.now() < end) {
    tick_all();
    if (condition()) return true;
    TimePoint next = std::min(end, network_.next_event_time());
    for (const auto& slot : slots_) {
      if (slot->alive && !slot->paused && !slot->agent->finished()) next = std::min(next, slot->agent->next_deadline());
    }
    if (next > clock_.now()) {
      clock_.advance_to(next);
      ticks_at_this_instant = 0;
    } else {
      STARLING_CHECK(++ticks_at_this_instant < kTicksPerInstantMax);
    }
    network_.deliver_due();
  }
  return condition();
}

std::vector<double> SimSwarm::mean_params() const {
  std::vector<double> mean;
  double agents = 0;
  for (const auto& slot : slots_) {
    if (!slot->alive || !slot->trainer) continue;
    const View params = slot->params;
    mean.resize(params.count);
    for (size_t i = 0; i < params.count; ++i) mean[i] += params.data[i];
    agents += 1;
  }
  for (double& value : mean) value /= agents;
  return mean;
}

std::vector<double> SimSwarm::sum_mass_params(bool momentum) const {
  std::vector<double> sum;
  for (const auto& slot : slots_) {
    if (!slot->alive || !slot->trainer || !slot->agent->rounds()) continue;
    const View view = momentum ? slot->momentum : slot->params;
    sum.resize(view.count);
    for (size_t i = 0; i < view.count; ++i) sum[i] += slot->agent->rounds()->mass() * view.data[i];
  }
  return sum;
}

double SimSwarm::worst_distance_to(const std::vector<double>& point) const {
  double worst = 0;
  for (const auto& slot : slots_) {
    if (!slot->alive || !slot->trainer) continue;
    const View params = slot->params;
    double squares = 0;
    for (size_t i = 0; i < params.count; ++i) squares += (params.data[i] - point[i]) * (params.data[i] - point[i]);
    worst = std::max(worst, std::sqrt(squares / static_cast<double>(params.count)));
  }
  return worst;
}

uint64_t SimSwarm::digest() const {
  uint64_t digest = network_.digest();
  for (const auto& slot : slots_) {
    if (!slot->alive || !slot->trainer) continue;
    const View params = slot->params;
    digest = digest * 0x9e3779b97f4a7c15ull ^ xxh3_64(std::as_bytes(std::span(params.data, params.count)));
  }
  return digest;
}

}  // namespace starling
