#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include <spdlog/spdlog.h>

#include "agent/commands/commands.h"
#include "agent/commands/invite.h"
#include "agent/data/dataset.h"
#include "agent/observe/exchange_sums.h"
#include "agent/observe/log.h"
#include "agent/observe/metrics.h"
#include "agent/observe/progress.h"
#include "agent/observe/site_scores.h"
#include "agent/observe/terminal_line.h"
#include "agent/observe/warnings.h"
#include "agent/process/address_watch.h"
#include "agent/process/device_fallback.h"
#include "agent/process/exit_status.h"
#include "agent/process/heap.h"
#include "agent/process/host_address.h"
#include "agent/process/session.h"
#include "agent/process/signals.h"
#include "agent/process/state_folder.h"
#include "agent/process/surroundings.h"
#include "agent/report/format.h"
#include "agent/report/resource_limits.h"
#include "agent/share/memory_need.h"
#include "agent/state/genesis_file.h"
#include "agent/train/make_trainer.h"
#include "agent/train/model_kinds.h"
#include "kernels/device_failure.h"

namespace starling {
namespace {

DataLoaded describe_data(const Dataset& data) {
  std::vector<bool> seen(256);
  for (uint8_t label : data.labels) seen[label] = true;
  DataLoaded loaded;
  loaded.samples = data.count();
  for (size_t label = 0; label < seen.size(); ++label) {
    if (seen[label]) loaded.labels.push_back(static_cast<int64_t>(label));
  }
  return loaded;
}

struct OwnData {
  DataLoaded told;
  std::vector<std::string> classes;
};

// Says in `loaded` what data there is, if the model needs any.
DatasetPair load_own_data(const SwarmConfig& swarm, const AgentConfig& agent, std::optional<OwnData>* loaded) {
  if (!model_kind(swarm.model.kind).needs_data) return {};
  DatasetPair data = load_data(agent.data, swarm.model.samples(), swarm.rng_seed);
  if (data.test.count() == 0) {
    spdlog::warn(
        "no test data: accuracy is not measured (name a folder with --test-data, or hold out a part of the agent's own "
        "samples with --set agent.data.hold_out=0.1)");
  }
  if (agent.data.hold_out > 0) {
    spdlog::info("{} of this agent's {} samples are held out: accuracy is measured on them (agent.data.hold_out)",
                 data.test.count(), data.train.count() + data.test.count());
  }
  *loaded = OwnData{describe_data(data.train), data.train.classes};
  return data;
}

void greet(const Config& config, const StatePlace& place, const Endpoint& bound, const Endpoint& advertise,
           Observer& observer) {
  const std::string name = config.agent.name.empty() ? place.id().short_name() : config.agent.name;
  const std::string id = config.agent.name.empty() ? "" : " (" + place.id().short_name() + ")";
  spdlog::info("agent {}{} listens on {} and the next port", name, id, bound.to_string());
  observer.on(Started{name, place.id().hex(), advertise.to_string(), place.generation()});
}

// Two agents on one machine need a port and a state folder each.
void invite(const Session& session, const DataConfig& data) {
  const Endpoint& advertise = session.advertise();
  const bool local = is_loopback(advertise.host);
  const std::string apart = " --listen " + Endpoint{advertise.host, 0}.to_string() +
                            " --state NEW_FOLDER   (from elsewhere: --advertise HOST:PORT here)";
  const std::string shard = data.sharding == "all" ? "" : " --sharding " + data.sharding + " --shard I/N";
  say_join_line(local ? "others on this machine join with" : "others join with", session.place(), advertise,
                shard + (local ? apart : ""));
}

void warn_of_loopback(const AgentConfig& agent, const Endpoint& advertise) {
  const std::string problem = loopback_problem(advertise, agent.bootstrap);
  if (!problem.empty()) spdlog::warn("{}", problem);
}

void tell_of_unused_shard(const DataConfig& data) {
  if (data.sharding != "all" || data.shard_count == 1) return;
  spdlog::info(
      "this agent trains on all data (agent.data.sharding: all), and --shard {}/{} only orders them; to divide them, "
      "add --sharding iid, labels or dirichlet",
      data.shard + 1, data.shard_count);
}

void warn_of_threads(uint32_t threads) {
  const unsigned processors = std::thread::hardware_concurrency();
  if (processors == 0 || threads <= processors) return;
  spdlog::warn(
      "--threads {} on {}: threads that wait for a processor make each step many times slower; leave --threads out, "
      "and the fastest number is found by trial, or give at most {}",
      threads, print_count(processors, "processor"), processors);
}

// Of sockets, of files and of links to the least number of members; and of threads beside those of a step.
constexpr uint64_t kDescriptorsNeeded = 64, kThreadsNeeded = 12;

void require_room_for(const AgentConfig& agent) {
  const uint64_t threads = agent.threads > 0 ? agent.threads : std::thread::hardware_concurrency();
  require_room(kDescriptorsNeeded, threads + kThreadsNeeded);
}

constexpr const char* kLeaving = "leaving; again to stop now";
constexpr const char* kFinishingStep = "finishing this step; again to stop now";

// How good the model is here and at the other sites, as far as they told when they left.
void say_scores(const Agent& agent) {
  const Membership& membership = agent.router().membership();
  PeerRecord self = membership.self();
  self.meta = agent.meta();
  std::vector<PeerRecord> records = {self};
  for (const Member& member : membership.all()) {
    const bool left = member.state == MemberState::kLeft && member.record.meta.phase != Phase::kFinished;
    if (member.state != MemberState::kDead && !left) records.push_back(member.record);
  }
  for (const SiteScores& scores : score_sites(records, self.id, agent.swarm().model.kind == "lstm")) {
    if (scores.sites > 1) spdlog::info("{}", print_scores(scores, "this one"));
  }
}

// How a run has ended: the exit status, and the reason where it is not 0.
int exit_status(const Agent& agent, const Session& session, const std::vector<Endpoint>& bootstrap) {
  const Rounds* rounds = agent.rounds();
  if (!rounds) {
    spdlog::info("leaving before a first step: the state folder holds what it held");
    return 0;
  }
  if (!rounds->save_error().empty()) {
    spdlog::error("the model of step {} is not saved: {}", rounds->progress().steps, rounds->save_error());
    return kNotSaved;
  }
  const SwarmConfig& swarm = agent.swarm();
  const bool others_named = std::any_of(bootstrap.begin(), bootstrap.end(),
                                        [&](const Endpoint& named) { return named != session.advertise(); });
  const bool none_heard = others_named && agent.router().membership().all().empty();
  const bool nothing_shared = rounds->steps().taken() > 0 && rounds->tally().completed() == 0;
  if (nothing_shared && swarm.exchange.kind != ExchangeKind::kNone && (swarm.wait_for > 1 || none_heard)) {
    spdlog::error(
        "this run took {} without one exchange, so its model is that of this agent alone (swarm.wait_for: {}); look "
        "above for what its peers answered, and whether both ports of each agent are reachable",
        print_count(rounds->steps().taken(), "step"), swarm.wait_for);
    return kNothingShared;
  }
  return rounds->settled().value_or(true) ? 0 : kApart;  // a warning has said with which member
}

std::unique_ptr<Trainer> own_trainer(const SwarmConfig& swarm, const Config& config, const Session& session,
                                     std::optional<OwnData>* loaded, const Clock& clock,
                                     const std::function<void()>& wake) {
  const AgentConfig& agent = config.agent;
  uint64_t own_seed;
  std::memcpy(&own_seed, session.place().id().bytes.data(), sizeof own_seed);
  TrainerOptions options = trainer_options(swarm, agent);
  options.draw_later = true;
  require_memory_for(swarm, agent);
  spdlog::info("with this model and exchange an agent takes about {} of memory on a CPU",
               print_bytes(kProgramMemory + memory_need(swarm, agent)));
  auto trainer = make_trainer(options, load_own_data(swarm, agent, loaded), own_seed, clock, wake);
  if (!agent.genesis.empty() && !session.has_model()) begin_from(agent.genesis, swarm.model, *trainer);
  return trainer;
}

constexpr int kBeginsAgain = -1;  // no exit status: another life follows

// One life of an agent, on the device that the config names. `again`: not the first of this process. `port`: where it
// listens, set once it does.
int run_agent_once(const Config& config, bool again, uint16_t* port) {
  TerminalLine line;  // outlives all threads that log
  StopSignals signals;
  const SteadyClock clock;
  const StatePlace place(config.agent.state, given_identity(config.agent), again);
  MetricsFile metrics(config.agent.metrics);
  ProgressLog progress(clock, line);
  Log log;
  Warnings warnings(clock, &metrics, [](const std::string& text) { spdlog::warn(text); });
  ExchangeSums sums(clock, metrics, config.agent.metrics_every);
  Observers observers({&progress, &log, &sums, &warnings});
  std::optional<OwnData> loaded;  // written by the worker's make_trainer, which ends before `entered` is called
  bool invited = false;
  require_room_for(config.agent);
  Session session(config, place, clock, observers);
  *port = session.bound().port;
  const auto wake = [&session] { session.wake(); };
  const StopSignals::WakeScope wake_on_stop(signals, wake);
  HeapWatch heap(clock, session.worker());
  std::optional<AddressWatch> addresses;
  std::optional<Surroundings> surroundings;
  // The worker may be in it when this function is left by an error, so it holds no reference to what is declared here
  // after the session.
  session.begin({[&config, &session, &loaded, &clock, wake](const SwarmConfig& swarm) {
                   return own_trainer(swarm, config, session, &loaded, clock, wake);
                 },
                 [&] {
                   if (loaded) {
                     place.store_classes(loaded->classes);
                     observers.on(loaded->told);
                   }
                   if (!std::exchange(invited, true)) invite(session, config.agent.data);
                 },
                 [&signals] { return signals.stop_asked(); },
                 [&](const Agent& agent) {
                   surroundings->tick();
                   const bool steps = agent.rounds() && !agent.rounds()->waits_for_others() && !agent.rounds()->ended();
                   signals.set_reply(steps ? kFinishingStep : kLeaving);
                   heap.tick();
                 }});
  addresses.emplace(config.agent, session.bound(), session.advertise(), wake);
  surroundings.emplace(session.agent(), place, *addresses, clock, again);
  greet(config, place, session.bound(), session.advertise(), observers);
  warn_of_loopback(config.agent, session.advertise());
  try {
    session.run();
  } catch (const DeviceFailure& failure) {
    if (!signals.stop_asked()) throw;
    throw std::runtime_error(std::string(failure.what()) +
                             "; this agent was told to leave and has its last checkpoint: start it again to go on");
  }
  if (surroundings->begins_again() && !signals.stop_asked()) {
    spdlog::info("this agent starts again with a higher generation, so that members accept it");
    return kBeginsAgain;
  }
  if (session.agent().rounds()) say_scores(session.agent());
  const int status = exit_status(session.agent(), session, config.agent.bootstrap);
  if (!session.agent().rounds() && session.worker().busy()) {
    // It draws data or makes the model for seconds, and cannot be interrupted; there is nothing to save yet.
    spdlog::default_logger()->flush();
    std::_Exit(0);
  }
  return status;
}

}  // namespace

int run_agent_process(const Config& config) {
  refuse_absent_data(config.agent.data);
  keep_freed_memory();
  tell_of_unused_shard(config.agent.data);
  warn_of_threads(config.agent.threads);
  uint16_t port = 0;  // of the life before
  for (bool again = false;; again = true) {
    const auto run = [&port, again](Config chosen) {
      if (port != 0) chosen.agent.listen.port = port;  // members and newcomers know it
      return run_agent_once(chosen, again, &port);
    };
    const int status = run_on_gpu_or_cpu(config, run);
    if (status != kBeginsAgain) return status;
  }
}

}  // namespace starling
