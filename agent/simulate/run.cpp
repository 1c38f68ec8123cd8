#include "agent/simulate/run.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <variant>

#include <fmt/format.h>

#include "agent/run/pair_drift.h"
#include "agent/simulate/swarm.h"
#include "gossip/rng.h"

namespace starling {
namespace {

constexpr double kScoresPerRun = 20;
constexpr size_t kSeeds = 3;        // addresses that an agent knows when it starts
constexpr double kPatience_s = 60;  // without --seconds, the limit is kSlack times the steps' own time, plus this
constexpr double kSlack = 20;

// Of a message of a pair exchange; null: of another one.
const ExchangeId* pair_exchange_of(const Message& message) {
  const auto* exchanges = std::get_if<ExchangeMessage>(&message);
  if (exchanges == nullptr) return nullptr;
  const auto id = [](const auto& kind) -> const ExchangeId* {
    if constexpr (requires { ExchangeId(kind.xid); }) return &kind.xid;
    return nullptr;
  };
  return std::visit(id, *exchanges);
}

// Nothing of it arrives, however often it is sent.
bool is_lost(const ExchangeId& xid, double part, uint64_t rng_seed) {
  const uint64_t of_whom = std::hash<PeerId>()(xid.proposer) + 0x9e3779b97f4a7c15ull * xid.generation;
  return Rng(rng_seed ^ (of_whom + 0xd1b54a32d192ed03ull * xid.counter)).uniform() < part;
}

class Run {
 public:
  Run(const SimulateOptions& options, const Config& config, SimTask& task, const OnSimProgress& on_progress)
      : options_(options),
        config_(config.swarm),
        checkpoint_every_(config.agent.checkpoint_every),
        task_(task),
        on_progress_(on_progress),
        agenda_(options.scenario),
        swarm_(config_.rng_seed, config_, links(options),
               [this](size_t agent, const SwarmConfig& swarm, const Clock& clock, std::function<void()> on_idle) {
                 return task_.make(shards_[agent], swarm, clock, std::move(on_idle));
               }),
        origin_(swarm_.clock().now()) {
    swarm_.network().set_node_rate(options.bytes_per_s);
    if (options.exchange_loss > 0) swarm_.network().set_filter([this](PassingFrame& frame) { lose_exchange(frame); });
  }

  SwarmOutcome run();

 private:
  static LinkOptions links(const SimulateOptions& options) {
    LinkOptions links;
    links.delay_min = options.latency;
    links.delay_max = options.latency + options.jitter;
    links.loss = options.loss;
    return links;
  }
  void lose_exchange(PassingFrame& frame) const {
    const ExchangeId* xid = pair_exchange_of(frame.message);
    if (xid != nullptr && is_lost(*xid, options_.exchange_loss, config_.rng_seed)) frame.copies.clear();
  }
  double now_s() { return seconds(swarm_.clock().now() - origin_); }
  TimePoint at(double moment_s) const { return origin_ + from_seconds(moment_s); }
  double limit_s() const;
  void add_first_agents();
  void act(const ScenarioEvent& event);
  void join();
  uint64_t step_of(size_t agent);
  uint64_t median_step_now();
  void tell(const std::string& text) { outcome_.events.push_back({now_s(), text}); }
  void look();
  CurvePoint look_at(size_t agent);
  View model_of(size_t agent);
  std::optional<LogReport> log_of(size_t agent);
  std::optional<PairReport> pairs_of(size_t agent);
  void close(bool ended);

  const SimulateOptions& options_;
  const SwarmConfig& config_;
  const Duration checkpoint_every_;
  SimTask& task_;
  const OnSimProgress& on_progress_;
  ScenarioAgenda agenda_;
  std::vector<size_t> shards_;  // by agent
  FreeShards free_shards_;
  uint64_t lost_samples_ = 0;  // seen by agents that were killed
  SwarmOutcome outcome_;
  SimSwarm swarm_;
  TimePoint origin_, last_look_;
};

double Run::limit_s() const {
  if (options_.duration) return seconds(*options_.duration);
  const double slowest = *std::max_element(options_.speeds.begin(), options_.speeds.end());
  const double needed = static_cast<double>(config_.stop_after) * slowest * seconds(options_.compute);
  return kSlack * needed + kPatience_s + seconds(options_.scenario.end());
}

// All agents start at the same instant and bootstrap from each other, so none finds a swarm already in training.
void Run::add_first_agents() {
  for (size_t a = 0; a < options_.agents; ++a) shards_.push_back(a);
  for (size_t a = 0; a < options_.agents; ++a) {
    SimAgentOptions agent;
    agent.step_time = step_time_of(options_, a);
    agent.checkpoint_every = checkpoint_every_;
    for (size_t other = 0; other < options_.agents && agent.bootstrap.size() < kSeeds; ++other) {
      if (other != a) agent.bootstrap.push_back(other);
    }
    swarm_.add(agent);
  }
}

SwarmOutcome Run::run() {
  swarm_.set_on_warning(
      [this](size_t agent, const std::string& text) { tell("agent " + std::to_string(agent) + " warns: " + text); });
  add_first_agents();
  const double limit = limit_s();
  const double every =
      seconds(options_.compute) * static_cast<double>(steps_between_scores(options_, config_.stop_after));
  double next_look = 0;
  bool ended = false;
  while (!ended && swarm_.clock().now() < at(limit)) {
    for (const ScenarioEvent& event : agenda_.take_due(swarm_.clock().now() - origin_, median_step_now())) act(event);
    if (at(next_look) <= swarm_.clock().now()) {
      look();
      next_look += every;
    }
    TimePoint next = at(std::min(limit, next_look));
    if (const auto event = agenda_.next()) next = std::min(next, origin_ + *event);
    swarm_.run_until(
        [&] {
          on_progress_(now_s(), [this] { return median_step_now(); });
          ended = swarm_.ended();
          return ended || (agenda_.waits_for_step() && agenda_.is_step_due(median_step_now()));
        },
        next - swarm_.clock().now());
  }
  for (const std::string& text : agenda_.missed(swarm_.clock().now() - origin_)) outcome_.remarks.push_back(text);
  close(ended);
  return std::move(outcome_);
}

void Run::act(const ScenarioEvent& event) {
  using Kind = ScenarioEvent::Kind;
  if (event.kind == Kind::kJoin) {
    join();
    return;
  }
  const std::string name = "agent " + std::to_string(event.agent);
  if (event.agent >= swarm_.count() || !swarm_.alive(event.agent)) {
    if (event.kind == Kind::kResume) return;
    outcome_.remarks.push_back(fmt::format("at {:g} s {} was not there: nothing to {}", now_s(), name,
                                           event.kind == Kind::kKill ? "kill" : "pause"));
  } else if (event.kind == Kind::kKill) {
    if (swarm_.training(event.agent)) lost_samples_ += look_at(event.agent).samples;
    swarm_.kill(event.agent);
    free_shards_.add(static_cast<uint32_t>(shards_[event.agent]));
    tell(name + " killed");
  } else {
    swarm_.pause(event.agent, event.kind == Kind::kPause);
    tell(name + (event.kind == Kind::kPause ? " paused" : " goes on"));
  }
}

uint64_t Run::step_of(size_t agent) {
  return swarm_.agent(agent).rounds()->progress().steps + swarm_.trainer(agent).untaken().steps;
}

uint64_t Run::median_step_now() {
  std::vector<uint64_t> steps;
  for (size_t a = 0; a < swarm_.count(); ++a) {
    if (swarm_.training(a)) steps.push_back(step_of(a));
  }
  return median_step(std::move(steps));
}

// The newcomer has only addresses, and data.
void Run::join() {
  SimAgentOptions agent;
  agent.adopt_settings = true;
  agent.step_time = step_time_of(options_, swarm_.count());
  agent.checkpoint_every = checkpoint_every_;
  for (size_t other = 0; other < swarm_.count() && agent.bootstrap.size() < kSeeds; ++other) {
    if (swarm_.living(other)) agent.bootstrap.push_back(other);
  }
  shards_.push_back(free_shards_.take());
  tell("agent " + std::to_string(swarm_.count()) + " joins");
  swarm_.add(agent);
}

// As the agent itself evaluates and hands it out: after the exchange, before the steps that follow.
View Run::model_of(size_t agent) {
  const bool steps = swarm_.training(agent) && swarm_.agent(agent).rounds()->steps_await_exchange();
  return steps ? swarm_.trainer(agent).evaluated_params() : swarm_.params(agent);
}

CurvePoint Run::look_at(size_t agent) {
  CurvePoint point{"swarm", agent, now_s()};
  const StepReport untaken = swarm_.trainer(agent).untaken();
  if (swarm_.training(agent)) {
    const Progress& progress = swarm_.agent(agent).rounds()->progress();
    point.step = step_of(agent);
    point.samples = progress.samples + untaken.samples;
  }
  point.bytes = swarm_.bytes_sent(agent);
  return point;
}

// Evaluates every agent's model, and their mean. Before training begins, all agents hold the genesis.
void Run::look() {
  std::vector<size_t> agents, shards;
  const bool at_start = swarm_.clock().now() == origin_;
  for (size_t a = 0; a < swarm_.count(); ++a) {
    if (at_start ? !swarm_.alive(a) : !swarm_.training(a)) continue;
    agents.push_back(a);
    shards.push_back(shards_[a]);
  }
  if (agents.empty() || last_look_ == swarm_.clock().now()) return;
  last_look_ = swarm_.clock().now();
  std::vector<double> mean(swarm_.params(agents[0]).count);
  for (const size_t a : agents) {
    const View params = model_of(a);
    for (size_t i = 0; i < params.count; ++i) mean[i] += params.data[i];
  }
  for (double& value : mean) value /= static_cast<double>(agents.size());
  const std::vector<float> mean_params(mean.begin(), mean.end());
  CurvePoint all{"mean", std::nullopt, now_s()};
  all.samples = lost_samples_;
  all.score = task_.score(mean_params, shards);
  double squares = 0;
  uint64_t steps = 0;
  for (const size_t a : agents) {
    CurvePoint point = look_at(a);
    const View params = model_of(a);
    point.distance = rms_distance(params, mean);
    point.score = at_start ? all.score : task_.score({params.data, params.count}, shards);
    steps += point.step;
    all.samples += point.samples;
    squares += *point.distance * *point.distance;
    outcome_.points.push_back(std::move(point));
  }
  for (size_t a = 0; a < swarm_.count(); ++a) all.bytes += swarm_.bytes_sent(a);
  all.step = steps / agents.size();
  all.distance = std::sqrt(squares / static_cast<double>(agents.size()));
  outcome_.points.push_back(std::move(all));
}

std::optional<LogReport> Run::log_of(size_t agent) {
  if (!swarm_.training(agent) || swarm_.agent(agent).exchange() == nullptr) return std::nullopt;
  const UpdatesStatus status = swarm_.agent(agent).room_status().updates;
  if (status.log_heads.empty()) return std::nullopt;
  LogReport log{status.log_heads,
                status.counters,
                status.held_back,
                status.rounds.rounds,
                swarm_.bytes_sent(agent),
                swarm_.bytes_received(agent),
                swarm_.agent(agent).rounds()->steps().pace().times().mean()};
  for (size_t a = 0; a < swarm_.count(); ++a) {
    if (status.refused_last == swarm_.id(a)) log.refused_last = fmt::format("agent {}", a);
  }
  return log;
}

std::optional<PairReport> Run::pairs_of(size_t agent) {
  if (!swarm_.training(agent) || swarm_.agent(agent).exchange() == nullptr) return std::nullopt;
  PairReport pairs{fmt::format("agent {}", agent), swarm_.agent(agent).room_status().pairs_in_training,
                   swarm_.agent(agent).rounds()->steps().taken()};
  uint64_t agents = 0;
  for (size_t a = 0; a < swarm_.count(); ++a) agents += swarm_.training(a);
  pairs.drift = pair_drift(config_, pairs, agents);
  return pairs.any() ? std::optional(pairs) : std::nullopt;
}

void Run::close(bool ended) {
  look();
  outcome_.finished = ended;
  outcome_.virtual_s = now_s();
  outcome_.digest = swarm_.digest();
  for (size_t a = 0; a < swarm_.count(); ++a) {
    outcome_.alive += swarm_.alive(a);
    outcome_.logs.push_back(log_of(a));
    outcome_.pairs.push_back(pairs_of(a));
    if (!swarm_.training(a)) continue;
    const ExchangeCounts& tally = swarm_.agent(a).rounds()->tally();
    outcome_.done += tally.done;
    outcome_.late += tally.late;
    outcome_.failed += tally.failed;
    if (const ExchangeMachine* exchange = swarm_.agent(a).exchange()) {
      const ExchangeStatus status = exchange->status();
      outcome_.blocks += status.block_tally;
      outcome_.in_rounds = status.in_rounds;
    }
  }
  if (!ended && !options_.duration) {
    outcome_.remarks.push_back(fmt::format("stopped at {:g} s: not all agents had finished", now_s()));
  }
}

}  // namespace

Duration step_time_of(const SimulateOptions& options, size_t agent) {
  return from_seconds(seconds(options.compute) * options.speeds[agent % options.speeds.size()]);
}

uint64_t steps_between_scores(const SimulateOptions& options, uint64_t steps) {
  const double step_s = std::max(seconds(options.compute), 1e-6);
  if (options.every) return std::max<uint64_t>(1, std::llround(seconds(*options.every) / step_s));
  if (steps > 0) return std::max<uint64_t>(1, std::llround(static_cast<double>(steps) / kScoresPerRun));
  return std::max<uint64_t>(1, std::llround(seconds(*options.duration) / step_s / kScoresPerRun));
}

SwarmOutcome run_simulated_swarm(const SimulateOptions& options, const Config& config, SimTask& task,
                                 const OnSimProgress& on_progress) {
  return Run(options, config, task, on_progress).run();
}

}  // namespace starling
