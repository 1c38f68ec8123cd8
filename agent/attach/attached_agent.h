// One agent in a foreign process: a Session on a thread of its own. The caller's loop is its trainer. All its threads
// block every signal; it sets no handler and touches nothing of the process's but its own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/attach/attached_trainer.h"
#include "agent/attach/fork_guard.h"
#include "agent/attach/handover.h"
#include "agent/attach/log_ring.h"
#include "agent/attach/model_tensors.h"
#include "agent/process/session.h"

namespace starling {

struct AttachedOptions {
  std::string config;            // a YAML file; empty: none
  std::vector<std::string> set;  // "swarm.local_steps=8"
  AttachedMemory memory;         // outlives the agent; between two boundaries the loop's, else the agent's
  std::vector<ModelTensor> tensors;
  bool whole_rounds = false;     // as Handover keeps them
  bool copied = false;           // as Handover asks for params
  std::vector<uint64_t> labels;  // as TrainerData's
  bool adaptive = false;         // likewise
};

enum class AttachedPhase { kJoining, kGathering, kTraining, kSettling, kEnded };

// What the control thread knew last.
struct AttachedStatus {
  AttachedPhase phase = AttachedPhase::kJoining;
  uint64_t steps = 0, swarm_steps = 0;  // of this model, and of the swarm's clock
  uint64_t round = 0, stop_after = 0;
  uint64_t peers = 0;  // living members that train, without this one
  uint64_t exchanges = 0, failed = 0;
  double rate_scale = 1;  // of the schedule, a newcomer's ramp, and after a bad loss
  double distance = -1;   // to other models, of their rms; negative: not known
  bool carries_momentum = false;
  std::optional<bool> agreed;  // the models did at the end; nullopt: not known, or there was nobody
};

class AttachedAgent {
 public:
  // Locks the state folder and binds the ports; where both are the default and taken, the next free ones, and says so.
  // Throws std::runtime_error or ConfigError, with cause and remedy.
  explicit AttachedAgent(const AttachedOptions& options);
  ~AttachedAgent();  // leaves, and waits for the end: seconds at most
  AttachedAgent(const AttachedAgent&) = delete;
  AttachedAgent& operator=(const AttachedAgent&) = delete;

  Handover& handover() { return handover_; }
  LogRing& log() { return log_; }
  AttachedStatus status() const;
  std::string place() const;             // "STATE, HOST:PORT"
  void leave();                          // from the loop's thread; returns at once
  bool wait_for_end(Duration patience);  // whether the agent has ended

 private:
  Config read_config();
  std::unique_ptr<StatePlace> take_place();
  void take_stored_settings();
  std::unique_ptr<Session> make_session();
  void live();
  void name_tensors() const;
  void turn(const Agent& agent);
  void look(const Agent& agent);
  std::unique_ptr<Trainer> make_trainer(const SwarmConfig& agreed);
  void refuse_other_wishes(const SwarmConfig& agreed) const;

  const AttachedOptions options_;
  LogRing log_;
  const SteadyClock clock_;
  Handover handover_;
  Config config_;
  bool restarted_ = false;
  std::unique_ptr<StatePlace> place_;
  class Watcher;
  std::unique_ptr<Watcher> watcher_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<ForkGuard> fork_guard_;
  std::atomic<bool> leave_asked_ = false;
  AttachedPhase looked_phase_ = AttachedPhase::kEnded;  // at the last look
  uint64_t looked_round_ = 0;
  TimePoint next_look_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  AttachedStatus status_;
  std::thread control_;
};

}  // namespace starling
