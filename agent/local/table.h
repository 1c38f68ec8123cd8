// A running swarm as a table in the terminal.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "agent/local/member.h"
#include "gossip/clock.h"

namespace starling {

// One line for each member under a line of headings; `columns` is the width to keep to, 0 = any. "to mean" and "spread"
// are the distances of its model to the mean of all and to the farthest other, over its own size; "exchanges" are those
// done/late/failed; "a round" is what it sent in the last one.
std::vector<std::string> render_table(const SwarmMembers& members, size_t columns);

// All members in one line: "12 s  spread 0.012  agent-0 training 120 41.2 %  ...".
std::string render_compact(const SwarmMembers& members, double elapsed_s);

// On a terminal: a table that is redrawn in place, four times a second, with events as lines above it.
// Elsewhere: the compact line every two seconds, events as lines between.
class LiveTable {
 public:
  explicit LiveTable(Clock& clock);

  // Times of the compact lines count from here; at first from the construction.
  void set_origin(TimePoint origin) { origin_ = origin; }

  // Draws if it is time to, or `force`.
  void update(const SwarmMembers& members, bool force);
  void event(const std::string& line);
  void finish();   // leaves the table as it stands; later output goes below

 private:
  void erase();

  Clock& clock_;
  TimePoint origin_;
  TimePoint next_;
  bool terminal_;
  size_t drawn_lines_ = 0;
};

}  // namespace starling
