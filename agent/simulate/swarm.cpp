#include "agent/simulate/swarm.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

#include "agent/observe/log.h"
#include "agent/observe/warnings.h"
#include "agent/simulate/keeper.h"
#include "gossip/net/hash.h"
#include "gossip/rng.h"
#include "gossip/worker.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr int kTicksPerInstantMax = 10000;  // more means that an agent spins without time passing

// A transport that knows whether a frame has arrived.
class Inbox final : public Transport {
 public:
  explicit Inbox(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
  bool waiting() {
    if (!first_) first_ = inner_->poll();
    return first_.has_value();
  }
  SendStatus send(const Endpoint& to, Channel channel, Frame frame) override {
    return inner_->send(to, channel, std::move(frame));
  }
  std::optional<ReceivedFrame> poll() override { return first_ ? std::exchange(first_, std::nullopt) : inner_->poll(); }
  void wait_until(TimePoint deadline) override { inner_->wait_until(deadline); }
  void wake() override { inner_->wake(); }
  void forget(const Endpoint& peer) override { inner_->forget(peer); }
  Endpoint local() const override { return inner_->local(); }
  TransportCounters counters() const override { return inner_->counters(); }

 private:
  std::unique_ptr<Transport> inner_;
  std::optional<ReceivedFrame> first_;
};

}  // namespace

Endpoint sim_endpoint(size_t index) {
  STARLING_CHECK(index < 250 * 250);
  return {"10.0." + std::to_string(index / 250) + "." + std::to_string(index % 250 + 1), 7400};
}

struct SimSwarm::Slot {
  SimAgentOptions options;
  PeerId id;
  Endpoint endpoint;
  uint64_t generation = 1000;
  bool alive = false, paused = false, begun = false;
  uint64_t bytes_before = 0;  // sent in earlier lives
  TimePoint deadline;         // of the agent, as of its last tick
  SimDisk disk;
  Log log;
  std::optional<Warnings> warnings;  // of this life
  std::optional<Observers> observers;
  std::unique_ptr<Inbox> inbox;
  std::unique_ptr<InlineWorker> worker;
  TimedTrainer* trainer = nullptr;  // owned by the agent
  View params, momentum;            // of the trainer
  std::unique_ptr<Agent> agent;

  bool runs() const { return alive && !paused && !agent->finished(); }
};

SimSwarm::SimSwarm(uint64_t rng_seed, const SwarmConfig& swarm, const LinkOptions& links,
                   SimTrainerFactory make_trainer)
    : network_(clock_, rng_seed, links), swarm_(swarm), rng_seed_(rng_seed), make_trainer_(std::move(make_trainer)) {}

SimSwarm::~SimSwarm() = default;

size_t SimSwarm::add(const SimAgentOptions& options) {
  const size_t index = slots_.size();
  auto slot = std::make_unique<Slot>();
  slot->options = options;
  Rng rng(rng_seed_ * 1000003 + index);
  for (uint8_t& byte : slot->id.bytes) byte = static_cast<uint8_t>(rng.below(256));
  slot->endpoint = sim_endpoint(index);
  slots_.push_back(std::move(slot));
  next_ticks_.push_back(TimePoint::max());
  has_frames_.push_back(false);
  start(index);
  return index;
}

void SimSwarm::start(size_t index, uint64_t raised_stop) {
  Slot& slot = *slots_[index];
  slot.generation += 1;
  has_frames_[index] = false;
  slot.inbox = std::make_unique<Inbox>(network_.open(slot.endpoint, [this, index] { has_frames_[index] = true; }));
  slot.worker = std::make_unique<InlineWorker>();
  AgentOptions options;
  options.config.swarm = swarm_;
  options.config.has_swarm = !slot.options.adopt_settings;
  options.config.agent.name = "agent-" + std::to_string(index);
  options.config.agent.checkpoint_every = slot.options.checkpoint_every;
  options.config.agent.evaluate_every = Duration::zero();
  if (slot.options.bootstrap.empty() && index > 0) options.config.agent.bootstrap = {sim_endpoint(0)};
  for (size_t other : slot.options.bootstrap) options.config.agent.bootstrap.push_back(sim_endpoint(other));
  options.self = slot.id;
  options.generation = slot.generation;
  options.advertise = slot.endpoint;
  options.stored_settings = slot.disk.settings;
  options.raised_stop = raised_stop;
  options.rng_seed = rng_seed_ * 7919 + index * 101 + slot.generation;
  slot.warnings.emplace(clock_, nullptr, [this, index](const std::string& text) {
    if (on_warning_) on_warning_(index, text);
  });
  slot.observers.emplace(std::vector<Observer*>{&slot.log, &*slot.warnings});
  const AgentParts parts{
      *slot.inbox,
      clock_,
      *slot.worker,
      *slot.worker,
      *slot.observers,
      [this, &slot, index](const SwarmConfig& swarm) {
        auto trainer = std::make_unique<TimedTrainer>(
            [&](std::function<void()> on_idle) { return make_trainer_(index, swarm, clock_, std::move(on_idle)); },
            clock_, slot.options.step_time);
        slot.trainer = trainer.get();
        slot.params = trainer->params();
        slot.momentum = trainer->momentum();
        return trainer;
      },
      [&slot](uint64_t, const std::string& settings) {
        slot.disk.settings = settings;
        return make_sim_keeper(slot.disk);
      }};
  slot.agent = std::make_unique<Agent>(options, parts);
  slot.alive = true;
  slot.paused = slot.begun = false;
  slot.deadline = clock_.now();
  schedule(index);
}

void SimSwarm::schedule(size_t index) {
  next_ticks_[index] = slots_[index]->runs() ? slots_[index]->deadline : TimePoint::max();
}

void SimSwarm::kill(size_t index) {
  Slot& slot = *slots_[index];
  slot.alive = false;
  if (!slot.agent) return;
  network_.kill(slot.endpoint);
  slot.bytes_before += slot.inbox->counters().bytes_sent;
  slot.agent.reset();
  slot.trainer = nullptr;
  slot.worker.reset();
  slot.inbox.reset();
  schedule(index);
}

void SimSwarm::restart(size_t index, uint64_t raised_stop) {
  if (slots_[index]->alive) kill(index);
  start(index, raised_stop);
}

void SimSwarm::pause(size_t index, bool paused) {
  slots_[index]->paused = paused;
  schedule(index);
}

bool SimSwarm::alive(size_t index) const { return slots_[index]->alive; }
bool SimSwarm::living(size_t index) const { return slots_[index]->alive && !slots_[index]->agent->finished(); }
bool SimSwarm::training(size_t index) const { return slots_[index]->alive && slots_[index]->agent->rounds(); }
bool SimSwarm::ended() const {
  return std::all_of(slots_.begin(), slots_.end(), [](const auto& slot) {
    return !slot->alive || (slot->agent->rounds() && slot->agent->rounds()->ended());
  });
}

Agent& SimSwarm::agent(size_t index) { return *slots_[index]->agent; }
TimedTrainer& SimSwarm::trainer(size_t index) { return *slots_[index]->trainer; }
PeerId SimSwarm::id(size_t index) const { return slots_[index]->id; }
Endpoint SimSwarm::endpoint(size_t index) const { return slots_[index]->endpoint; }
View SimSwarm::params(size_t index) const { return slots_[index]->params; }
View SimSwarm::momentum(size_t index) const { return slots_[index]->momentum; }
uint64_t SimSwarm::bytes_received(size_t index) const {
  return slots_[index]->inbox ? slots_[index]->inbox->counters().bytes_received : 0;
}
uint64_t SimSwarm::bytes_sent(size_t index) const {
  const Slot& slot = *slots_[index];
  return slot.bytes_before + (slot.inbox ? slot.inbox->counters().bytes_sent : 0);
}

void SimSwarm::tick(size_t index) {
  Slot& slot = *slots_[index];
  try {
    do {
      slot.agent->tick();
      if (!slot.begun && slot.agent->rounds()) {
        slot.begun = true;
        if (on_begin_) on_begin_(index);
      }
    } while (slot.worker->has_completions() || slot.inbox->waiting());
  } catch (const std::runtime_error& error) {
    if (!on_failure_) throw std::runtime_error("agent " + std::to_string(index) + ": " + error.what());
    kill(index);
    on_failure_(index, error.what());
    return;
  }
  slot.deadline = slot.agent->next_deadline();
  has_frames_[index] = false;
  schedule(index);
}

void SimSwarm::tick_due() {
  const TimePoint now = clock_.now();
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (next_ticks_[i] <= now || (has_frames_[i] && slots_[i]->runs())) tick(i);
  }
}

TimePoint SimSwarm::next_event() const {
  TimePoint next = network_.next_event_time();
  for (const TimePoint tick : next_ticks_) next = std::min(next, tick);
  return next;
}

void SimSwarm::run_for(Duration duration) {
  run_until([] { return false; }, duration);
}

bool SimSwarm::run_until(const std::function<bool()>& condition, Duration at_most) {
  const TimePoint end = clock_.now() + at_most;
  int ticks_at_this_instant = 0;
  while (clock_.now() < end) {
    tick_due();
    if (condition()) return true;
    const TimePoint next = std::min(end, next_event());
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
  for (size_t a = 0; a < slots_.size(); ++a) {
    if (!training(a)) continue;
    const View params = slots_[a]->params;
    mean.resize(params.count);
    for (size_t i = 0; i < params.count; ++i) mean[i] += params.data[i];
    agents += 1;
  }
  for (double& value : mean) value /= agents;
  return mean;
}

double rms_distance(ConstView params, const std::vector<double>& point) {
  double squares = 0;
  for (size_t i = 0; i < params.count; ++i) squares += (params.data[i] - point[i]) * (params.data[i] - point[i]);
  return std::sqrt(squares / static_cast<double>(params.count));
}

double SimSwarm::distance_to(size_t index, const std::vector<double>& point) const {
  return rms_distance(slots_[index]->params, point);
}

double SimSwarm::worst_distance_to(const std::vector<double>& point) const {
  double worst = 0;
  for (size_t a = 0; a < slots_.size(); ++a) {
    if (training(a)) worst = std::max(worst, distance_to(a, point));
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
