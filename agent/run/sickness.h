// An agent with a loss, a gradient or params that are not finite stops sharing first. Then it goes back
// to its last good state. recovery.h says how often, and with which learning rate afterwards.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "agent/observe/events.h"
#include "agent/run/checkpoint_jobs.h"
#include "agent/run/recovery.h"
#include "agent/share/sharing.h"
#include "gossip/clock.h"

namespace starling {

class Sickness {
 public:
  // All references outlive the object.
  Sickness(Recovery& recovery, Sharing& sharing, CheckpointJobs& checkpoints, const Clock& clock, Observer& observer)
      : recovery_(recovery), sharing_(sharing), checkpoints_(checkpoints), clock_(clock), observer_(observer) {}

  // `next` is called when the trainer holds the last good state, with its progress. `steps`: this agent's, so far.
  // REQUIRES: the trainer is idle. Throws std::runtime_error, now or instead of `next`, if going back helps no more or
  // there is nothing to go back to.
  void go_back_then(const std::string& reason, uint64_t steps, std::function<void(const Progress&)> next);

 private:
  Recovery& recovery_;
  Sharing& sharing_;
  CheckpointJobs& checkpoints_;
  const Clock& clock_;
  Observer& observer_;
};

}  // namespace starling
