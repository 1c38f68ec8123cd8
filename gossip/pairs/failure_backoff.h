// Counts the exchanges that one peer, or several that count as one, let end undecided in a row. The first few are free,
// since any network loses frames. Each further one costs 2^j deadlines, in which the peer is neither served nor asked;
// above 16 deadlines no more than about two minutes, since a link that failed for long may be back.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "gossip/clock.h"

namespace starling {

class FailureBackoff {
 public:
  // Exchanges of the peer and of this agent count apart: otherwise a peer that never votes would clear itself by
  // proposing. `initiated`: by this agent. `began`: the peer answered. A peer that did not answer is only not asked,
  // since its queue may be long.
  void add(bool initiated, bool began, uint32_t free, uint32_t doublings_max, TimePoint now, Duration deadline) {
    const uint32_t in_a_row = ++in_a_row_[initiated];
    if (in_a_row <= free) return;
    const Duration longest = std::max(kTimesMax * deadline, kLongMax);
    const TimePoint until =
        now + std::min((uint32_t{1} << std::min(in_a_row - free - 1, doublings_max)) * deadline, longest);
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
  static constexpr int kTimesMax = 16;
  static constexpr Duration kLongMax = std::chrono::seconds(128);

  uint32_t in_a_row_[2]{};
  TimePoint not_served_until_{}, not_asked_until_{};
};

}  // namespace starling
