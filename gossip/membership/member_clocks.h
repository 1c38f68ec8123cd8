// What time it is, as far as memberships end by it: a median of wall clocks, so that no single one decides, this
// machine's neither.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "gossip/clock.h"
#include "gossip/peer.h"

namespace starling {

class MemberClocks {
 public:
  static constexpr Duration kCountsFor = std::chrono::minutes(10);  // since the member told it
  static constexpr std::chrono::seconds kAnswer{3}, kPatience{30};

  explicit MemberClocks(const Clock& clock) : clock_(clock), began_(clock.now()) {}

  // What the member's wall clock shows now, in seconds since 1970; 0: it did not tell.
  void hear(const PeerId& member, uint64_t unix_s);

  // Seconds since 1970: the median of this machine's clock and of those that count. Of an even number of clocks, the
  // one of the middle two that is nearer this machine's. So beside one other this machine's own decides: nothing tells
  // which of two is right. 0: there is no wall clock, as in a simulation.
  uint64_t now();
  // What now() is at least, whatever this machine's clock shows; 0: fewer than two others count.
  uint64_t earliest();

  void forget(const PeerId& member);
  void forget_all();  // this machine slept: what they told then is old by an unknown time

  // Whether now() is more than this machine's clock where others live, or was waited for long enough: older members do
  // not tell their clocks, and a lone member hears none.
  bool heard(size_t others);

  size_t count();     // of the clocks of others that count
  int64_t ahead_s();  // of this machine's clock before now(), or before the only other one; negative: behind

 private:
  struct Told {
    int64_t at_zero_s;  // what it showed when this machine's monotonic clock was at zero
    TimePoint when;
  };
  void look();
  int64_t monotonic_s() const;

  const Clock& clock_;
  std::map<PeerId, Told> told_;
  TimePoint began_;  // to hear them
  TimePoint next_look_{};
  int64_t lowest_ = INT64_MIN, highest_ = INT64_MAX;  // as at_zero_s; now() lies between the outer two
};

}  // namespace starling
