#include "agent/attach/attached_agent.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/config/settings.h"
#include "agent/observe/exchange_sums.h"
#include "agent/observe/log.h"
#include "agent/observe/member_report.h"
#include "agent/observe/metrics.h"
#include "agent/observe/warnings.h"
#include "agent/process/address_watch.h"
#include "agent/process/surroundings.h"
#include "agent/process/tensor_list.h"
#include "agent/share/memory_need.h"
#include "agent/state/checkpoint_lock.h"
#include "agent/train/model_kinds.h"
#include "gossip/net/zmq_address.h"

namespace starling {
namespace {

constexpr int kPlacesTried = 64;
constexpr Duration kLookEvery = std::chrono::milliseconds(50);

// Threads made meanwhile inherit it, so that signals stay the caller's.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

AttachedPhase phase_of(const Rounds* rounds) {
  if (rounds == nullptr) return AttachedPhase::kJoining;
  if (rounds->waits_for_others()) return AttachedPhase::kGathering;
  const bool trains = rounds->phase() == Phase::kTraining || rounds->phase() == Phase::kSick;
  return trains ? AttachedPhase::kTraining : AttachedPhase::kSettling;
}

}  // namespace

// What watches an agent of the program too: its lines, its warnings and its metrics file.
class AttachedAgent::Watcher {
 public:
  Watcher(const AgentConfig& agent, const Clock& clock)
      : metrics_(agent.metrics),
        warnings_(clock, &metrics_, [](const std::string& text) { spdlog::warn("{}", text); }),
        sums_(clock, metrics_, agent.metrics_every),
        all_({&log_, &sums_, &warnings_}) {}
  Observer& all() { return all_; }

 private:
  MetricsFile metrics_;
  Log log_;
  Warnings warnings_;
  ExchangeSums sums_;
  Observers all_;
};

AttachedAgent::AttachedAgent(const AttachedOptions& options) : options_(options), handover_(clock_) {
  const LogScope scope(&log_);
  const SignalsBlocked signals_stay_the_callers;
  check_tensors(options_.tensors, options_.memory.params.count);
  config_ = read_config();
  place_ = take_place();
  take_stored_settings();
  watcher_ = std::make_unique<Watcher>(config_.agent, clock_);
  session_ = make_session();
  for (ThreadWorker* const each : {&session_->worker(), &session_->writer()}) {
    each->submit([this] { log_this_thread_to(&log_); }, [] {});
  }
  fork_guard_ = std::make_unique<ForkGuard>(place_->folder() + "/lock", session_->bound().port);
  handover_.set_wake([this] { session_->wake(); });
  if (options_.whole_rounds) handover_.keep_rounds_whole();
  if (options_.copied) handover_.ask_for_params();
  control_ = std::thread([this] { live(); });
}

AttachedAgent::~AttachedAgent() {
  leave();
  control_.join();
}

Config AttachedAgent::read_config() {
  Config base;
  base.swarm.model.kind = "attached";
  base.swarm.exchange.deadline_max = kDeadlineAuto;
  base.swarm.model.params = options_.memory.params.count;
  base.swarm.model.signature = signature_of(options_.tensors);
  Config config = load_config_over(base, options_.config, options_.set);
  if (model_kind(config.swarm.model.kind).attached) return config;
  throw ConfigError(
      fmt::format("{}: swarm.model.kind: {}: a model of the program, which 'starling agent' trains; write kind: "
                  "attached for a loop of your own ('starling init --task own FILE' writes such a config)",
                  options_.config.empty() ? "this configuration" : options_.config, config.swarm.model.kind));
}

std::unique_ptr<StatePlace> AttachedAgent::take_place() {
  const std::string unnamed = AgentConfig().state, wanted = config_.agent.state;
  for (int i = 2; wanted == unnamed && i < kPlacesTried && is_locked(config_.agent.state); ++i) {
    config_.agent.state = fmt::format("{}-{}", unnamed, i);
  }
  if (config_.agent.state != wanted) {
    spdlog::info("the state folder {} is in use by another agent here; this one takes {}", wanted, config_.agent.state);
  }
  return std::make_unique<StatePlace>(config_.agent.state, given_identity(config_.agent));
}

// An earlier life's settings win: the weights that this life began with would make another swarm.
void AttachedAgent::take_stored_settings() {
  const std::string stored = place_->stored_settings();
  if (!stored.empty()) {
    restarted_ = true;
    const SwarmConfig agreed = parse_agreed_settings(stored, place_->settings_path()).swarm;
    const Config asked = load_config_over({.swarm = agreed}, options_.config, options_.set, [](const std::string&) {});
    if (asked.swarm.stop_after != agreed.stop_after) config_.stop_after = asked.swarm.stop_after;
    config_.has_swarm = false;
  } else if (!config_.agent.bootstrap.empty()) {
    config_.has_swarm = false;
  } else if (!config_.has_swarm) {
    throw std::runtime_error(fmt::format(
        "there is no swarm to join: name a member with --bootstrap, or begin a swarm with --config FILE or a "
        "setting such as local_steps (and the folder {} holds none to go on with)",
        place_->folder()));
  }
}

std::unique_ptr<Session> AttachedAgent::make_session() {
  const bool unnamed = config_.agent.listen == AgentConfig().listen;
  for (int i = 0;; ++i) {
    try {
      auto session = std::make_unique<Session>(config_, *place_, clock_, watcher_->all());
      if (i > 0)
        spdlog::info("port {} is taken here; this agent listens on {}", AgentConfig().listen.port,
                     session->bound().to_string());
      return session;
    } catch (const PortTaken&) {
      if (!unnamed || i == kPlacesTried) throw;
      config_.agent.listen.port = static_cast<uint16_t>(config_.agent.listen.port + 2);
    }
  }
}

// A file and keys that a joiner names must say what the swarm agreed on.
void AttachedAgent::refuse_other_wishes(const SwarmConfig& agreed) const {
  SwarmConfig asked =
      load_config_over({.swarm = agreed}, options_.config, options_.set, [](const std::string&) {}).swarm;
  if (restarted_) asked.stop_after = agreed.stop_after;  // which prolongs the run
  if (asked.exchange.deadline_max == kDeadlineAuto) asked.exchange.deadline_max = agreed.exchange.deadline_max;
  if (same_settings(asked, agreed)) return;
  const std::string genesis(64, '0');
  throw std::runtime_error(fmt::format(
      "{} other settings than this agent asks for:\n{}\n(Here: what was asked; there: what the swarm agreed on.) Leave "
      "them out to take the swarm's{}",
      restarted_ ? "the state folder " + place_->folder() + " belongs to a swarm with" : "the swarm has",
      describe_difference(agreed_settings(asked, genesis), agreed_settings(agreed, genesis)),
      restarted_ ? ", or begin another swarm with a new folder (--state)" : ""));
}

std::unique_ptr<Trainer> AttachedAgent::make_trainer(const SwarmConfig& agreed) {
  if (!model_kind(agreed.model.kind).attached) {
    throw std::runtime_error(fmt::format(
        "this swarm trains a model of the program ({}), no loop of its members' own; join it with 'starling agent'",
        agreed.model.kind));
  }
  const std::string difference = describe_model_difference(options_.tensors, agreed.model);
  if (!difference.empty()) {
    throw std::runtime_error(
        difference +
        ". Make the model as the other members do, with the same sizes, the same part shared and the same frozen "
        "weights" +
        (restarted_ ? fmt::format("; the state folder {} goes on with theirs, and another swarm needs a new one "
                                  "(--state)",
                                  place_->folder())
                    : ""));
  }
  if (agreed.model.params != options_.memory.params.count) {
    throw std::runtime_error(
        fmt::format("the swarm's model has {} elements, this one {}, of the same tensors: they lie "
                    "otherwise; use the same version of this library",
                    agreed.model.params, options_.memory.params.count));
  }
  refuse_other_wishes(agreed);
  require_memory_for(agreed, {});
  if (options_.whole_rounds && agreed.round > Duration::zero()) {
    throw std::runtime_error(
        "the swarm's rounds end by the clock (swarm.round), and the processes that train one model together must count "
        "steps; begin the swarm with local_steps instead, or train with one process a machine");
  }
  AttachedMemory memory = options_.memory;
  memory.state_from = state_from(options_.tensors);
  if (!agreed.exchange.carry_momentum) {
    memory.momentum = {};
  } else if (memory.momentum.count == 0) {
    throw std::runtime_error(
        "the swarm shares the momentum (swarm.exchange.share), and this loop's optimizer has none that can be shared. "
        "Only that of torch.optim.SGD with float32 params can be: mixed moments of Adam diverge. Begin the swarm with "
        "share: [params], or take SGD with a momentum");
  }
  const uint64_t samples = std::accumulate(options_.labels.begin(), options_.labels.end(), uint64_t{0});
  const auto labels = std::count_if(options_.labels.begin(), options_.labels.end(), [](uint64_t n) { return n > 0; });
  TrainerData data{1, samples == 0 ? "a loop of its own" : fmt::format("{} samples, {} labels", samples, labels)};
  data.labels = options_.labels;
  data.adaptive = options_.adaptive;
  return std::make_unique<AttachedTrainer>(memory, std::move(data), handover_);
}

void AttachedAgent::live() {
  log_this_thread_to(&log_);
  std::string error;
  try {
    std::optional<AddressWatch> addresses;
    std::optional<Surroundings> surroundings;
    session_->begin({[this](const SwarmConfig& swarm) { return make_trainer(swarm); }, [this] { name_tensors(); },
                     [this] { return leave_asked_.load(); },
                     [this, &surroundings](const Agent& agent) {
                       surroundings->tick();
                       turn(agent);
                     }});
    addresses.emplace(config_.agent, session_->bound(), session_->advertise(), [this] { session_->wake(); });
    surroundings.emplace(session_->agent(), *place_, *addresses, clock_, false);
    const bool open = session_->ticket().empty();
    const std::string admitted = how_others_are_admitted(*place_);
    spdlog::info(
        "this agent listens on {} and the next port, state in {}; {}", session_->bound().to_string(), place_->folder(),
        !admitted.empty() ? admitted
        : open ? "others join with --bootstrap " + session_->advertise().to_string()
               : "others join with the ticket in " + place_->folder() + "/ticket: --bootstrap HOST:PORT#TICKET");
    session_->run();
    look(session_->agent());
    if (surroundings->begins_again() && !leave_asked_) {
      error = surroundings->begins_again_because() + "; then join() again";
    }
  } catch (const std::exception& caught) {
    error = caught.what();
  }
  handover_.end(error);
  const std::lock_guard lock(mutex_);
  status_.phase = AttachedPhase::kEnded;
  ended_.notify_all();
}

// For 'starling export'. Not before the swarm has let this agent in: the folder may hold another model.
void AttachedAgent::name_tensors() const {
  ModelPlan plan;
  plan.param_count = options_.memory.params.count;
  for (const ModelTensor& tensor : options_.tensors) {
    if (tensor.frozen) continue;
    plan.slots.push_back({tensor.name, tensor.shape, tensor.offset, elements_of(tensor)});
  }
  store_tensor_list(place_->folder(), plan);
}

void AttachedAgent::turn(const Agent& agent) {
  const Rounds* const rounds = agent.rounds();
  const AttachedPhase phase = phase_of(rounds);
  if (phase == AttachedPhase::kSettling) handover_.end("");
  const uint64_t round = rounds ? rounds->progress().round : 0;
  if (phase == looked_phase_ && round == looked_round_ && clock_.now() < next_look_) return;
  looked_phase_ = phase;
  looked_round_ = round;
  next_look_ = clock_.now() + kLookEvery;
  look(agent);
}

void AttachedAgent::look(const Agent& agent) {
  const Rounds* const rounds = agent.rounds();
  const std::lock_guard lock(mutex_);
  status_.phase = phase_of(rounds);
  status_.peers = peer_count(agent.router().membership());
  if (rounds == nullptr) return;
  const SwarmConfig& swarm = agent.swarm();
  status_.steps = rounds->progress().steps;
  status_.round = rounds->progress().round;
  status_.swarm_steps = rounds->steps().swarm_steps();
  status_.stop_after = rounds->steps().stop_after();
  status_.exchanges = rounds->tally().completed();
  status_.failed = rounds->tally().failed;
  status_.distance = rounds->relative_distance();
  status_.carries_momentum = swarm.exchange.carry_momentum;
  status_.agreed = rounds->settled();
}

AttachedStatus AttachedAgent::status() const {
  const double rate = handover_.rate();  // of the steps that the loop takes now, which the last look may not know yet
  const std::lock_guard lock(mutex_);
  AttachedStatus status = status_;
  if (rate > 0) status.rate_scale = rate / OptimizerConfig().learning_rate;
  return status;
}

std::string AttachedAgent::place() const {
  return fmt::format("{}, {}", place_->folder(), session_->advertise().to_string());
}

void AttachedAgent::leave() {
  leave_asked_ = true;
  handover_.leave();
}

bool AttachedAgent::wait_for_end(Duration patience) {
  std::unique_lock lock(mutex_);
  return ended_.wait_for(lock, patience, [this] { return status_.phase == AttachedPhase::kEnded; });
}

}  // namespace starling
