// How an agent's rounds end. After the last step it settles. Then, as when it is stopped, it begins no new exchange and
// waits until every open, doubtful or unacknowledged one has ended, because partners have applied, or will apply, their
// halves. Last, a finished model is evaluated, and every model is saved.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "agent/config/config.h"
#include "agent/run/boundary_jobs.h"
#include "agent/run/given_up.h"
#include "agent/run/settling.h"
#include "agent/share/make_exchange.h"
#include "agent/share/sharing.h"
#include "agent/run/swarm_clock.h"
#include "gossip/clock.h"
#include "gossip/membership/membership.h"

namespace starling {

class Ending {
 public:
  enum class Reason { kStopped, kFinished };

  // All references outlive the object.
  Ending(const SwarmConfig& swarm, Sharing& sharing, BoundaryJobs& jobs, const Membership& membership,
         const SwarmClock& swarm_clock, const Clock& clock)
      : settling_(swarm.final_distance, swarm.settle_max), far_factor_(settling_far_for(swarm)), sharing_(sharing),
        jobs_(jobs), membership_(membership), swarm_clock_(swarm_clock), clock_(clock), given_up_(membership) {}

  void begin_settling();
  void on_member(const MemberEvent& event);   // every one, since the agent takes steps
  // While settling in pairs: what does not count, as Snapshot says. nullopt: not known yet, or all counts.
  std::optional<Far> far();
  bool settling_ended();             // the models agree, or it took too long
  // Nullopt: settling has not ended, or there was nobody to agree with.
  std::optional<bool> settled() const { return settled_; }
  Settling& settling() { return settling_; }
  std::optional<Agreement> agreement() const;   // nullopt: the own params are not measured yet

  // False: exchanges are still open; ask again soon. True: the last jobs have begun, and `ended` is called after them.
  // `progress` is read when the model is saved. REQUIRES: the trainer is idle.
  [[nodiscard]] bool begin(Reason reason, const Progress& progress, std::function<void()> ended);
  bool finished() const { return finished_; }   // the final model is evaluated, and about to be saved

 private:
  // Ids can be invented. So only members that answered this agent count, once all had the time to.
  Counts counting() const;
  bool others_join() const;
  bool exchanges_ended(Duration patience);
  bool agreed(const GivenUp::Missed& missed) const;   // with all that are here, or may come back
  bool lies_near(const MemberMeta& meta) const;   // its model, as it told last
  std::string one_suspected() const;
  std::string print_disagreement(const GivenUp::Missed& missed) const;

  Settling settling_;
  const double far_factor_;
  Sharing& sharing_;
  BoundaryJobs& jobs_;
  const Membership& membership_;
  const SwarmClock& swarm_clock_;
  const Clock& clock_;
  GivenUp given_up_;
  TimePoint began_;                  // to settle
  std::optional<Far> far_;           // since settling began
  std::optional<TimePoint> patience_until_;
  bool settling_over_ = false;       // for good: exchanges that are still open may take a while to end
  std::optional<bool> settled_;
  bool finished_ = false;
};

}  // namespace starling
