// One life of an agent in this process: its ports, its worker, and the loop of its control thread. Signals, the heap,
// the exit status and what is shown of a run are its caller's, so a foreign program may be one.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/config/config.h"
#include "agent/process/path_check.h"
#include "agent/process/state_folder.h"
#include "agent/process/thread_worker.h"
#include "agent/process/trust.h"
#include "agent/process/trust_watch.h"
#include "agent/run/agent.h"
#include "gossip/net/zmq_transport.h"

namespace starling {

class Session {
 public:
  struct Hooks {
    // Worker thread. Throws std::runtime_error for a wrong start (data, device).
    std::function<std::unique_ptr<Trainer>(const SwarmConfig&)> make_trainer;
    std::function<void()> entered;           // the swarm has let this agent in
    std::function<bool()> leave_asked;       // before each tick: whether the agent is to leave
    std::function<void(const Agent&)> turn;  // after each tick
  };

  // Binds the ports and reads what earlier lives stored. Throws std::runtime_error or ConfigError, with cause and
  // remedy. All references outlive the object.
  Session(const Config& config, const StatePlace& place, const Clock& clock, Observer& observer);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const StatePlace& place() const { return place_; }
  Endpoint bound() const { return transport_.local(); }
  const Endpoint& advertise() const { return options_.advertise; }
  // HOST:PORT#TICKET; empty: the swarm is open. A secret.
  std::string ticket() const { return place_.ticket(options_.advertise); }
  bool has_model() const { return options_.has_model; }  // of an earlier life
  ThreadWorker& worker() { return worker_; }
  ThreadWorker& writer() { return writer_; }  // of checkpoints
  void wake() { transport_.wake(); }          // from any thread

  void begin(Hooks hooks);            // throws std::runtime_error: the folder belongs to another swarm than the config
  Agent& agent() { return *agent_; }  // REQUIRES: begin()
  // Returns when the agent has finished. What a tick throws is thrown again once the others know that it leaves.
  void run();

 private:
  void run_turns();

  const StatePlace& place_;
  const Trusted trusted_;
  const Clock& clock_;
  Observer& observer_;
  ZmqContext context_;
  ZmqTransport transport_;
  const AgentOptions options_;
  ThreadWorker worker_, writer_;
  PathCheck paths_;
  Hooks hooks_;
  std::unique_ptr<Agent> agent_;
  std::unique_ptr<TrustWatch> trust_watch_;
  struct StopFirst {
    ThreadWorker &worker, &writer;
    ~StopFirst() {
      worker.stop();
      writer.stop();
    }
  } stop_first_{worker_, writer_};  // their jobs use the agent
};

}  // namespace starling
