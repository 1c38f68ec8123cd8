// A router's events as log lines, for agents and registries alike.
#pragma once

#include "bootstrap/router.h"

namespace starling {

class RouterLog {
 public:
  explicit RouterLog(const Clock& clock) : clock_(clock) {}

  void member(const Membership& membership, const MemberEvent& event) const;
  // At most one line in five seconds, whatever arrives; RouterCounters count all.
  void refused(const ReceivedFrame& frame, const char* cause, const RouterCounters& counters);

 private:
  const Clock& clock_;
  TimePoint next_refusal_;
};

}  // namespace starling
