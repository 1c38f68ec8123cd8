// An agent: joins a swarm (or starts one), trains, exchanges, answers, leaves. One non-blocking tick() at a time, so
// N of them run in one thread under the simulator. All that touches the world enters by constructor.
//
//   Entry: settings, trainer, first params ─> Rounds: steps and exchanges ─> farewell
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "agent/observe/deadline_watch.h"
#include "agent/observe/events.h"
#include "agent/run/entry.h"
#include "agent/run/farewell.h"
#include "agent/run/parts.h"
#include "agent/run/round_bytes.h"
#include "agent/run/rounds.h"
#include "agent/share/sharing.h"
#include "agent/run/swarm_clock.h"
#include "agent/run/swarm_sampler.h"
#include "bootstrap/router.h"
#include "gossip/exchange/exchange.h"
#include "gossip/exchange/update_exchange.h"
#include "gossip/worker.h"

namespace starling {

class Agent final : public Router::Handler {
 public:
  Agent(const AgentOptions& options, const AgentParts& parts);
  ~Agent() override;

  void tick();                       // throws std::runtime_error for a start that cannot work
  TimePoint next_deadline() const;
  void leave();                      // politely, from the control thread: finished() soon after
  // After tick() threw, of a GPU that was lost, say: nothing is trained or exchanged any more. The agent only says that
  // it leaves, so that nobody takes it for dead; finished() soon after.
  void abandon();
  bool finished() const { return farewell_.gone(); }

  const Rounds* rounds() const { return rounds_.get(); }   // null until training begins
  const ExchangeMachine* exchange() const { return machine_; }   // null: trains alone, or not yet
  const UpdateGroup* updates() const { return updates_ ? &updates_->group() : nullptr; }   // null: none, or not yet
  const Router& router() const { return router_; }
  Trainer* trainer() { return entry_.trainer(); }
  MemberMeta meta() const;

 private:

  void on_bootstrap(const FrameHeader& header, const BootstrapMessage& message, const SharedBytes& payload) override;
  void on_exchange(const FrameHeader& header, const ExchangeMessage& message, const SharedBytes& payload) override;
  void on_member(const MemberEvent& event) override;

  void prepare_exchange();           // the model is there
  void make_sharing();               // and holds the params to begin with
  void begin_rounds(const Progress& from, const char* how);
  void part(const char* reason);
  void watch_deadline();
  void count_bytes();
  void watch_telling();
  Phase phase() const;
  AgentStatus status() const;

  AgentOptions options_;
  AgentParts parts_;
  Router router_;                    // holds the agreed text
  SwarmClock swarm_clock_;
  Entry entry_;                      // owns trainer, model and keeper
  std::unique_ptr<SwarmSampler> sampler_;
  std::unique_ptr<Codec> host_codec_;   // as in ExchangeParts
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<UpdateExchange> updates_;
  ExchangeMachine* machine_ = nullptr;   // the one of both that there is; null: none yet, or the agent trains alone
  std::unique_ptr<Sharing> sharing_;
  std::unique_ptr<Rounds> rounds_;
  Farewell farewell_;

  bool leaving_ = false;             // told to, by leave()
  bool abandoned_ = false;           // by abandon()
  TimePoint born_, leave_deadline_, next_status_;
  DeadlineWatch deadline_watch_;
  RoundBytes round_bytes_;
  std::string tells_none_because_;   // as it was said last
};

}  // namespace starling
