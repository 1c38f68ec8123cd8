// An agent: joins a swarm (or starts one), trains, exchanges, answers, leaves. One non-blocking tick() at a time, so
// N of them run in one thread under the simulator. All that touches the world enters by constructor.
//
//   make trainer ─> contact somebody ─> [fetch the model] ─> rounds ─> leave
//   (without settings of its own an agent contacts first: it trains only what the swarm trains)
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "agent/config/config.h"
#include "agent/observe/events.h"
#include "agent/run/deadline_watch.h"
#include "agent/run/peer_sampler.h"
#include "agent/run/rounds.h"
#include "agent/run/router_log.h"
#include "agent/run/swarm_clock.h"
#include "agent/train/trainer.h"
#include "bootstrap/joiner.h"
#include "bootstrap/router.h"
#include "gossip/exchange/exchange.h"
#include "gossip/worker.h"

namespace starling {

struct AgentOptions {
  Config config;
  PeerId self;
  uint64_t generation = 0;
  Endpoint advertise;
  std::string stored_settings;   // agreed text of an earlier life in the same state folder; empty: none. It counts
                                 // unless the config has other settings
  uint64_t rng_seed = 1;         // of this agent's own choices: partners, probes, back-off
};

struct AgentParts {
  Transport& transport;
  const Clock& clock;
  Worker& worker;
  Observer& observer;
  // Worker thread. Throws std::runtime_error for a wrong start (data, device).
  std::function<std::unique_ptr<Trainer>(const SwarmConfig&)> make_trainer;
  // Where this agent keeps states of the swarm with this id; told the agreed text to keep beside them.
  std::function<std::unique_ptr<StateKeeper>(uint64_t swarm_id, const std::string& settings)> make_keeper;
};

class Agent final : public Router::Handler {
 public:
  Agent(const AgentOptions& options, const AgentParts& parts);
  ~Agent() override;

  void tick();                       // throws std::runtime_error for a start that cannot work
  TimePoint next_deadline() const;
  void leave();                      // politely, from the control thread: finished() soon after
  bool finished() const { return stage_ == Stage::kGone; }

  const Rounds* rounds() const { return rounds_.get(); }   // null until training begins
  const Exchange* exchange() const { return exchange_.get(); }   // null: trains alone, or not yet
  const Router& router() const { return router_; }
  Trainer* trainer() { return trainer_.get(); }
  MemberMeta meta() const;

 private:
  enum class Stage { kMakingTrainer, kContacting, kRestoring, kFetching, kRunning, kParting, kGone };

  void on_bootstrap(const FrameHeader& header, const BootstrapMessage& message, const SharedBytes& payload) override;
  void on_exchange(const FrameHeader& header, const ExchangeMessage& message, const SharedBytes& payload) override;
  void on_member(const MemberEvent& event) override;
  void on_settings_adopted() override;
  void on_frame_refused(const ReceivedFrame& frame, const char* cause) override;

  void take_stored_settings();
  void make_trainer();
  void trainer_made();
  void contact_answered();
  void enter();                      // settings, trainer and contact are there: looks for a state of its own
  void restored(const Progress* own);   // goes on from it; null, there is none: from a donor's model or the genesis
  void begin_fetch();
  void keep_asking();
  void fetched();
  void begin_rounds(const Progress& from, const char* how);
  void part(const char* reason);
  void say_farewell();
  AgentStatus status() const;        // once there are rounds
  void report_status();
  void say_waiting(const std::string& what);
  void warn_of_broken_doubts(uint64_t broken);

  AgentOptions options_;
  AgentParts parts_;
  SwarmConfig swarm_;
  std::string own_genesis_hash_, swarm_genesis_hash_;
  Router router_;                    // holds the agreed text
  RouterLog router_log_;
  SwarmClock swarm_clock_;
  std::unique_ptr<Contact> contact_;
  std::unique_ptr<ModelFetch> fetch_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<StateKeeper> keeper_;
  std::unique_ptr<SharedModel> model_;
  std::unique_ptr<PeerSampler> sampler_;
  std::unique_ptr<Codec> host_codec_;   // as in ExchangeParts
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<Rounds> rounds_;
  std::exception_ptr start_error_;

  Stage stage_ = Stage::kMakingTrainer;
  bool adopted_ = false;             // the settings are somebody else's
  bool leaving_ = false;
  bool reported_finish_ = false, farewell_said_ = false;
  TimePoint born_, contact_began_, part_deadline_, leave_deadline_, next_status_, next_waiting_;
  TimePoint next_rejoin_;
  DeadlineWatch deadline_watch_;
  uint64_t warned_doubts_ = 0;
  TimePoint next_doubts_warning_;
};

}  // namespace starling
