// A running swarm as a table in the terminal.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "agent/local/member.h"
#include "agent/report/redrawn.h"
#include "gossip/clock.h"

namespace starling {

// One line for each member under a line of headings. `columns` is the width to keep to, 0 = any. The column "exchanges"
// counts the completed ones. `details` adds the exchanges completed in part ("late"), two distances and the bytes of
// the last round. Distances are from a member's model to the mean and to the farthest other, over its own size.
std::vector<std::string> render_table(const SwarmMembers& members, size_t columns, bool details = false);

// All members in one line: "12 s  spread 0.012  agent-0 training 120 41.2 %  ...".
std::string render_compact(const SwarmMembers& members, double elapsed_s);

// On a terminal: a table that is redrawn in place, four times a second, with events as lines above it.
// Elsewhere: the compact line every two seconds, events as lines between. Only finish() waits for its reader.
class LiveTable {
 public:
  explicit LiveTable(Clock& clock, bool details = false);

  // Times of the compact lines count from here; at first from the construction.
  void set_origin(TimePoint origin) { origin_ = origin; }

  // Draws if it is time to, or `force`.
  void update(const SwarmMembers& members, bool force);
  void event(const std::string& line);
  void finish();  // leaves the table as it stands; later output goes below

 private:
  Clock& clock_;
  TimePoint origin_;
  TimePoint next_;
  bool details_;
  Redrawn drawn_{stdout};
};

}  // namespace starling
