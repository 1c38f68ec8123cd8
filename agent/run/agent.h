// An agent: joins a swarm (or starts one), trains, exchanges, answers, leaves. One non-blocking tick() at a time, so
// N of them run in one thread under the simulator. All that touches the world enters by constructor.
//
//   JoinPhase: settings, trainer, first params ─> Rounds: steps and exchanges ─> farewell
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/observe/deadline_watch.h"
#include "agent/observe/events.h"
#include "agent/observe/trouble_notice.h"
#include "agent/run/adoption.h"
#include "agent/run/class_watch.h"
#include "agent/run/join_phase.h"
#include "agent/run/member_notes.h"
#include "agent/run/parts.h"
#include "agent/run/round_bytes.h"
#include "agent/run/rounds.h"
#include "agent/run/shutdown.h"
#include "agent/run/status_report.h"
#include "agent/run/swarm_clock.h"
#include "agent/run/swarm_sampler.h"
#include "agent/run/swarm_stop.h"
#include "agent/run/unreached.h"
#include "agent/share/make_exchange.h"
#include "agent/share/sharing.h"
#include "bootstrap/router.h"
#include "gossip/exchange/exchange.h"
#include "gossip/updates/update_exchange.h"
#include "gossip/worker.h"

namespace starling {

class Agent final : public Router::Handler {
 public:
  Agent(const AgentOptions& options, const AgentParts& parts);
  ~Agent() override;

  void tick();  // throws std::runtime_error for a start that cannot work
  TimePoint next_deadline() const;
  void leave();  // politely, from the control thread: finished() once the step in hand has ended and is saved
  // After tick() threw, of a GPU that was lost, say: nothing is trained or exchanged any more. The agent only says that
  // it leaves, so that nobody takes it for dead; finished() soon after.
  void abandon();
  bool finished() const { return farewell_.gone(); }
  // From now on others reach this agent there; or its machine slept, and all links are to be made anew.
  void move_to(const Endpoint& endpoint) { router_.move_to(endpoint); }
  void revoke(std::string_view entries) { router_.membership().revoke(entries); }  // as Membership's
  MemberClocks& clocks() { return clocks_; }                                       // by which memberships end
  bool all_silent() const;  // agents are known, and for seconds none of them has answered
  // Members hold this generation of it, of no process that lives, and take no lower one; 0: none.
  uint64_t overtaken() const { return router_.twins().overtaken(); }

  const SwarmConfig& swarm() const { return entry_.swarm(); }
  const Rounds* rounds() const { return rounds_.get(); }        // null until it holds the params to begin with
  const ExchangeMachine* exchange() const { return machine_; }  // null: trains alone, or not yet
  RoomStatus room_status() const;
  const UpdateGroup* updates() const { return updates_ ? &updates_->group() : nullptr; }  // null: none, or not yet
  const Router& router() const { return router_; }
  Trainer* trainer() { return entry_.trainer(); }
  MemberMeta meta() const;

 private:
  void on_bootstrap(const FrameHeader& header, const BootstrapMessage& message, const SharedBytes& payload) override;
  void on_exchange(const FrameHeader& header, const ExchangeMessage& message, const SharedBytes& payload) override;
  void on_member(const MemberEvent& event) override;

  void prepare_exchange();  // the model is there
  void make_sharing();      // and holds the params to begin with
  void begin_rounds(const Progress& from, const char* how);
  void tell_joined();
  void part(const char* reason);
  void look_at_stops(uint64_t own_steps);
  std::string author_of_stop(const Counts& counts) const;
  void look_at_classes();
  void watch_deadline();
  void count_bytes();
  void count_pairs();
  void watch_telling();
  void look_at_paths();
  void look_at_twin();
  void compare_clocks(const PeerRecord& record);
  Phase phase() const;
  AgentStatus status() const;

  AgentOptions options_;
  AgentParts parts_;
  MemberClocks clocks_;
  Router router_;  // holds the agreed text
  SwarmClock swarm_clock_;
  JoinPhase entry_;                    // owns trainer, model and keeper
  std::optional<ClassWatch> classes_;  // nullopt: the data are not read yet
  std::unique_ptr<SwarmSampler> sampler_;
  ExchangeParts exchange_;
  std::unique_ptr<UpdateExchange> updates_;
  ExchangeMachine* machine_ = nullptr;  // the one of both that there is; null: none yet, or the agent trains alone
  std::unique_ptr<Sharing> sharing_;
  std::optional<SwarmStop> stop_;  // nullopt: the settings are not known yet
  std::unique_ptr<Rounds> rounds_;
  std::optional<Adoption> adoption_;  // since there are rounds
  std::optional<Joined> joined_;      // to be told with the first step
  Shutdown farewell_;
  std::unique_ptr<MemberNotes> member_notes_;  // null: nothing keeps them

  bool leaving_ = false;    // told to, by leave()
  bool abandoned_ = false;  // by abandon()
  TimePoint born_, leave_deadline_, next_status_;
  DeadlineWatch deadline_watch_;
  TroubleNotice twin_notice_, clock_notice_;
  Unreached unreached_;
  RoundBytes round_bytes_;
  std::optional<PairwiseCounters> pairs_in_training_;  // nullopt: it trains
  std::string tells_none_because_;                     // as it was said last
};

}  // namespace starling
