// How an agent's rounds end. After the last step it settles. Then, as when it is stopped, it begins no new exchange and
// waits until every open, doubtful or unacknowledged one has ended, because partners have applied, or will apply, their
// halves. Last, a finished model is evaluated, and every model is saved.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "agent/config/config.h"
#include "agent/run/boundary_jobs.h"
#include "agent/run/lost_members.h"
#include "agent/run/settling.h"
#include "agent/run/swarm_clock.h"
#include "agent/share/make_exchange.h"
#include "agent/share/sharing.h"
#include "gossip/clock.h"
#include "gossip/membership/membership.h"

namespace starling {

class Ending {
 public:
  enum class Reason { kStopped, kFinished };

  // All references outlive the object. `find_path` as LostMembers'.
  Ending(const SwarmConfig& swarm, Sharing& sharing, BoundaryJobs& jobs, const Membership& membership,
         const SwarmClock& swarm_clock, const Clock& clock, FindPath find_path)
      : settling_(swarm.final_distance, swarm.settle_max),
        far_factor_(settling_far_for(swarm)),
        mixes_models_(swarm.exchange.source == SourceKind::kParams),
        sharing_(sharing),
        jobs_(jobs),
        membership_(membership),
        swarm_clock_(swarm_clock),
        clock_(clock),
        given_up_(membership, std::move(find_path)) {}

  // `left_behind`: the others ended without this agent, and their model is not here.
  void begin_settling(bool left_behind);
  // The run has become longer, so steps follow. False: too late, since this agent begins no exchange any more.
  [[nodiscard]] bool resume_training();
  void params_replaced() {  // by others' while settling, and not by exchanges
    replaced_ = clock_.now();
    left_behind_ = false;
  }
  void on_member(const MemberEvent& event);  // every one, since the agent takes steps
  // While settling in pairs: what does not count, as Snapshot says. nullopt: not known yet, or all counts.
  std::optional<Far> far();
  bool settling_ended();  // the models agree, or it took too long
  // Nullopt: settling has not ended, or there was nobody to agree with.
  std::optional<bool> settled() const { return settled_; }
  Settling& settling() { return settling_; }
  std::optional<Agreement> agreement() const;  // nullopt: the own params are not measured yet
  // While settling: the model that most members agree on without this agent. nullopt: there is none.
  std::optional<OthersModel> model_of_most() const;
  // The model that the others ended with, however near the own one is. nullopt: they do not agree, or not yet.
  std::optional<OthersModel> model_of_others() const;
  bool others_finished() const { return swarm_clock_.tally().taking_part == 0; }
  void took_final_model() { took_final_ = true; }  // of others, which may have left by now

  // False: exchanges are still open; ask again soon. True: the last jobs have begun, and `ended` is called after them.
  // `progress` is read when the model is saved. REQUIRES: the trainer is idle.
  [[nodiscard]] bool begin(Reason reason, const Progress& progress, std::function<void()> ended);
  bool finished() const { return finished_; }  // the final model is evaluated, and about to be saved

 private:
  // Ids can be invented. So only members that answered this agent count, once all had the time to.
  Counts counting() const;
  bool others_join() const;
  bool may_take_others() const;
  bool exchanges_ended(Duration patience);
  bool agreed(const LostMembers::Missed& missed);  // with all that are here, or may come back
  bool lies_near(const MemberMeta& meta) const;    // its model, as it told last
  std::string one_suspected() const;
  std::string print_disagreement(const LostMembers::Missed& missed) const;

  Settling settling_;
  const double far_factor_;
  const bool mixes_models_;
  Sharing& sharing_;
  BoundaryJobs& jobs_;
  const Membership& membership_;
  const SwarmClock& swarm_clock_;
  const Clock& clock_;
  LostMembers given_up_;
  TimePoint began_;  // to settle
  TimePoint replaced_;
  std::optional<Far> far_;                  // since settling began
  std::optional<Agreement> agreement_now_;  // at this boundary
  std::optional<TimePoint> patience_until_;
  bool settling_over_ = false;  // for good: exchanges that are still open may take a while to end
  bool took_final_ = false, left_behind_ = false;
  std::optional<bool> settled_;
  bool finished_ = false;
};

}  // namespace starling
