#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include <spdlog/spdlog.h>

#include "agent/commands/commands.h"
#include "agent/config/settings.h"
#include "agent/data/dataset.h"
#include "agent/observe/log.h"
#include "agent/observe/exchange_sums.h"
#include "agent/observe/metrics.h"
#include "agent/observe/warnings.h"
#include "agent/process/device_fallback.h"
#include "agent/process/heap.h"
#include "agent/process/signals.h"
#include "agent/process/state_folder.h"
#include "agent/process/thread_worker.h"
#include "agent/run/agent.h"
#include "agent/state/checkpoint.h"
#include "agent/state/file_keeper.h"
#include "agent/train/make_trainer.h"
#include "agent/train/model_kinds.h"
#include "bootstrap/router.h"
#include "gossip/net/zmq_transport.h"

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

// Says in `loaded` what data there is, if the model needs any.
DatasetPair load_own_data(const SwarmConfig& swarm, const AgentConfig& agent, std::optional<DataLoaded>* loaded) {
  if (!model_kind(swarm.model.kind).needs_data) return {};
  DatasetPair data = load_data(agent.data, swarm.model.samples(), swarm.rng_seed);
  if (data.test.count() == 0) spdlog::warn("no test data: accuracy is not measured (name a folder with --test-data)");
  *loaded = describe_data(data.train);
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
void invite(const Endpoint& advertise) {
  const bool local = is_loopback(advertise.host);
  const std::string apart = " --listen " + Endpoint{advertise.host, 0}.to_string() + " --state NEW_FOLDER   "
                            "(from elsewhere: --advertise HOST:PORT here)";
  spdlog::info("others{} join with: starling agent --bootstrap {} --data FOLDER{}", local ? " on this machine" : "",
               advertise.to_string(), local ? apart : "");
}

void warn_of_unused_shard(const DataConfig& data) {
  if (data.sharding != "all" || data.shard_count == 1) return;
  spdlog::warn("--shard {}/{} has no effect: with agent.data.sharding 'all' this agent trains on all data; add "
               "--sharding iid, labels or dirichlet", data.shard + 1, data.shard_count);
}

// The stored settings, parsed here once so that an error names the file. Empty: none.
std::string checked_settings(const StatePlace& place) {
  const std::string text = place.stored_settings();
  if (text.empty()) return text;
  try {
    (void)parse_agreed_settings(text, place.settings_path());
  } catch (const ConfigError& error) {
    throw ConfigError(std::string(error.what()) + "\n(An earlier run stored these settings. Copy the file from another "
                      "agent of that swarm, or move it away: this agent then joins by --bootstrap or --config as if "
                      "it were new.)");
  }
  if (holds_only_other_swarms(place.folder() + "/checkpoints", swarm_id_of(text))) {
    throw std::runtime_error("the checkpoints in " + place.folder() + "/checkpoints are not of the swarm that " +
                             place.settings_path() + " describes: the file was edited or exchanged. Put the old one "
                             "back, or name a new folder with --state");
  }
  return text;
}

void run_to_the_end(Agent& agent, const StopSignals& signals, ZmqTransport& transport, HeapWatch& heap) {
  while (!agent.finished()) {
    agent.tick();
    heap.tick();
    transport.expect_members(agent.router().membership().alive_count());
    if (signals.stop_asked()) agent.leave();
    if (agent.finished()) break;
    transport.wait_until(agent.next_deadline());
  }
}

// For an agent whose tick() threw: the others see it leave, not die.
void say_farewell(Agent& agent, Transport& transport) {
  try {
    agent.abandon();
    while (!agent.finished()) {
      agent.tick();
      transport.wait_until(agent.next_deadline());
    }
  } catch (const std::exception& error) {
    spdlog::warn("and the others could not be told that this agent leaves: {}", error.what());
  }
}

struct StopFirst {
  ThreadWorker& worker;
  ~StopFirst() { worker.stop(); }
};

// One life of an agent, on the device that the config names.
int run_agent_once(const Config& config) {
  StopSignals signals;
  const SteadyClock clock;
  const StatePlace place(config.agent.state);
  MetricsFile metrics(config.agent.metrics);
  Log log;
  Warnings warnings(clock, &metrics, [](const std::string& text) { spdlog::warn(text); });
  ExchangeSums sums(clock, metrics, config.agent.metrics_every);
  Observers observers({&log, &sums, &warnings});
  ZmqContext context;
  ZmqTransport transport(config.agent.listen, context);
  const StopSignals::WakeScope wake_on_stop(signals, [&transport] { transport.wake(); });

  AgentOptions options;
  options.config = config;
  options.self = place.id();
  options.generation = place.generation();
  options.advertise = advertised(config.agent, transport.local());
  options.stored_settings = checked_settings(place);
  options.rng_seed = own_rng_seed(place.id(), place.generation()) ^ unguessable_seed();
  options.secret = unguessable_seed();

  const auto wake = [&transport] { transport.wake(); };
  ThreadWorker worker(wake);
  HeapWatch heap(clock, worker);
  bool invited = false;
  std::optional<DataLoaded> loaded;   // written by the worker's make_trainer, which ends before make_keeper is called
  const AgentParts parts{
      transport, clock, worker, observers,
      [&](const SwarmConfig& swarm) {
        uint64_t own_seed;
        std::memcpy(&own_seed, place.id().bytes.data(), sizeof own_seed);
        return make_trainer(trainer_options(swarm, config.agent), load_own_data(swarm, config.agent, &loaded),
                            own_seed, clock, wake);
      },
      [&](uint64_t swarm_id, const std::string& settings) -> std::unique_ptr<StateKeeper> {
        if (loaded) observers.on(*loaded);
        if (!std::exchange(invited, true)) {
          invite(options.advertise);
        }
        place.store_settings(settings);
        return std::make_unique<FileKeeper>(place.folder(), swarm_id, place.generation(), config.agent.checkpoint_keep);
      }};
  std::unique_ptr<Agent> agent;
  const StopFirst stop_first{worker};   // its jobs use the agent
  agent = std::make_unique<Agent>(options, parts);   // refuses a config of another swarm than the folder's
  greet(config, place, transport.local(), options.advertise, observers);
  try {
    run_to_the_end(*agent, signals, transport, heap);
  } catch (...) {
    if (agent->rounds() != nullptr) {
      spdlog::warn("this agent leaves, as below; started again with --state {} it goes on from its last checkpoint",
                   place.folder());
    }
    say_farewell(*agent, transport);
    throw;
  }
  if (!agent->rounds() && worker.busy()) {
    // It draws data or makes the model for seconds, and cannot be interrupted; there is nothing to save yet.
    spdlog::default_logger()->flush();
    std::_Exit(0);
  }
  return 0;
}

}  // namespace

int run_agent_process(const Config& config) {
  keep_freed_memory();
  warn_of_unused_shard(config.agent.data);
  return run_on_gpu_or_cpu(config, run_agent_once);
}

}  // namespace starling
