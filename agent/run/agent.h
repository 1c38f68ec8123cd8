// An agent: joins a swarm (or starts one), trains, exchanges, answers, leaves. One non-blocking tick() at a time, so
// N of them run in one thread under the simulator. All that touches the world enters by constructor.
//
//   Entry: settings, trainer, first params ─> Rounds: steps and exchanges ─> farewell
#pragma once

#include <cstdint>
#include <memory>

#include "agent/observe/events.h"
#include "agent/run/deadline_watch.h"
#include "agent/run/entry.h"
#include "agent/run/parts.h"
#include "agent/run/rounds.h"
#include "agent/run/router_log.h"
#include "agent/run/swarm_clock.h"
#include "agent/run/swarm_sampler.h"
#include "bootstrap/router.h"
#include "gossip/exchange/exchange.h"
#include "gossip/worker.h"

namespace starling {

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
  Trainer* trainer() { return entry_.trainer(); }
  MemberMeta meta() const;

 private:
  enum class Stage { kEntering, kRunning, kParting, kGone };

  void on_bootstrap(const FrameHeader& header, const BootstrapMessage& message, const SharedBytes& payload) override;
  void on_exchange(const FrameHeader& header, const ExchangeMessage& message, const SharedBytes& payload) override;
  void on_member(const MemberEvent& event) override;
  void on_settings_adopted() override;
  void on_frame_refused(const ReceivedFrame& frame, const char* cause) override;

  void prepare_exchange();           // the model is there
  void begin_rounds(const Progress& from, const char* how);
  void part(const char* reason);
  void say_farewell();
  AgentStatus status() const;        // once there are rounds
  void report_status();

  AgentOptions options_;
  AgentParts parts_;
  Router router_;                    // holds the agreed text
  RouterLog router_log_;
  SwarmClock swarm_clock_;
  Entry entry_;                      // owns trainer, model and keeper
  std::unique_ptr<SwarmSampler> sampler_;
  std::unique_ptr<Codec> host_codec_;   // as in ExchangeParts
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<Rounds> rounds_;

  Stage stage_ = Stage::kEntering;
  bool leaving_ = false;
  bool reported_finish_ = false, farewell_said_ = false;
  TimePoint born_, part_deadline_, leave_deadline_, next_status_;
  DeadlineWatch deadline_watch_;
};

}  // namespace starling
