// What one peer, or several that count as one, let end undecided in a row. Some of that is free, since any network
// loses frames. Each exchange beyond costs 2^j deadlines, in which they are neither served nor asked.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gossip/clock.h"

namespace starling {

class Undecided {
 public:
  // Theirs and ours count apart: else a peer that never votes would clear itself by its own proposals.
  // `initiated`: by this agent. `began`: they answered; of a proposal of ours that they never answered, they are only
  // not asked: their queue may be long.
  void add(bool initiated, bool began, uint32_t free, uint32_t doublings_max, TimePoint now, Duration deadline) {
    const uint32_t in_a_row = ++in_a_row_[initiated];
    if (in_a_row <= free) return;
    const TimePoint until = now + (uint32_t{1} << std::min(in_a_row - free - 1, doublings_max)) * deadline;
    not_asked_until_ = std::max(not_asked_until_, until);
    if (began) not_served_until_ = std::max(not_served_until_, until);
  }
  void decided(bool initiated) { in_a_row_[initiated] = 0; }

  uint32_t in_a_row(bool initiated) const { return in_a_row_[initiated]; }
  bool any() const { return in_a_row_[false] > 0 || in_a_row_[true] > 0; }
  // In the past: they may be served, or asked.
  TimePoint not_served_until() const { return not_served_until_; }
  TimePoint not_asked_until() const { return not_asked_until_; }

 private:
  uint32_t in_a_row_[2]{};
  TimePoint not_served_until_{}, not_asked_until_{};
};

}  // namespace starling
