// Notes which members live, for the agent's next life. A state machine on the control thread; the worker writes.
#pragma once

#include <cstdint>
#include <functional>

#include "agent/state/known_members.h"
#include "gossip/clock.h"
#include "gossip/membership/membership.h"
#include "gossip/worker.h"

namespace starling {

class MemberNotes {
 public:
  using Write = std::function<void(const KnownMembers&)>;

  // `before`: of earlier lives. `write`: called on the worker; may throw std::runtime_error, which is logged.
  MemberNotes(KnownMembers before, Write write, const Membership& membership, Worker& worker, const Clock& clock);

  // `round`: this agent's. Writes what is new, at most every few seconds.
  void tick(uint64_t round);
  // The run came to its end, at this step of the swarm or, 0, for another reason. Writes that at once.
  void finished(uint64_t stop_after);

 private:
  void look(uint64_t round);
  void write();

  const Write write_;
  const Membership& membership_;
  Worker& worker_;
  const Clock& clock_;
  KnownMembers known_, written_;
  TimePoint next_look_, next_;
};

}  // namespace starling
