// How far training has come, as one short line: "step 1754/2000 · 88 % · 42 steps/s · ETA 6 s · loss 0.11 · acc 97.5 %
// · 3 peers". On a terminal it renews itself; elsewhere it is logged every 30 s. What was not measured is left out.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "agent/observe/events.h"
#include "agent/observe/terminal_line.h"
#include "gossip/clock.h"

namespace starling {

class ProgressLog final : public Observer {
 public:
  // Both outlive the object.
  ProgressLog(const Clock& clock, TerminalLine& line) : clock_(clock), line_(line) {}

  void on(const Event& event) override;

 private:
  void look_at(const AgentStatus& status, bool last);
  std::string print(const AgentStatus& status) const;
  std::string print_eta(const AgentStatus& status) const;
  std::string print_accuracy(const AgentStatus& status) const;

  // Where the swarm was, to tell how fast it is.
  struct Place {
    TimePoint at;
    uint64_t steps = 0;
  };

  const Clock& clock_;
  TerminalLine& line_;
  std::deque<Place> lately_;
  std::optional<TimePoint> first_steps_began_;
  TimePoint evaluated_, next_;
  uint64_t evaluated_steps_ = 0;
  std::string printed_;  // the last one that was logged
};

}  // namespace starling
