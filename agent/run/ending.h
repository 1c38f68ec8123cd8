// How an agent's rounds end. After the last step it settles. Then, as when it is stopped, it begins no new exchange and
// waits until every open, doubtful or unacknowledged one has ended, because partners have applied, or will apply, their
// halves. Last, a finished model is evaluated, and every model is saved.
#pragma once

#include <functional>
#include <optional>

#include "agent/config/config.h"
#include "agent/run/boundary_jobs.h"
#include "agent/run/settling.h"
#include "agent/share/sharing.h"
#include "agent/run/swarm_clock.h"
#include "gossip/clock.h"

namespace starling {

class Ending {
 public:
  enum class Reason { kStopped, kFinished };

  // All references outlive the object.
  Ending(const SwarmConfig& swarm, Sharing& sharing, BoundaryJobs& jobs, const SwarmClock& swarm_clock,
         const Clock& clock)
      : settling_(swarm.final_distance, swarm.settle_max), sharing_(sharing), jobs_(jobs), swarm_clock_(swarm_clock),
        clock_(clock) {}

  void begin_settling() { settling_.begin(clock_.now()); }
  bool settled() const;
  Settling& settling() { return settling_; }

  // False: exchanges are still open; ask again soon. True: the last jobs have begun, and `ended` is called after them.
  // `progress` is read when the model is saved. REQUIRES: the trainer is idle.
  [[nodiscard]] bool begin(Reason reason, const Progress& progress, std::function<void()> ended);
  bool finished() const { return finished_; }   // the final model is evaluated, and about to be saved

 private:
  bool exchanges_ended(Duration patience);

  Settling settling_;
  Sharing& sharing_;
  BoundaryJobs& jobs_;
  const SwarmClock& swarm_clock_;
  const Clock& clock_;
  std::optional<TimePoint> patience_until_;
  bool finished_ = false;
};

}  // namespace starling
