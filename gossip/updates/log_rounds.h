// The rounds of the newest entries as a clock that all members share: a majority made them. A member that hears of few
// others' rounds, or joined, does not fall behind it. A member ahead of it comes back, since its work would be void. A
// member that comes to a round that has ended for the others sees it here, and leaves that round out.
#pragma once

#include <cstdint>
#include <optional>

#include "gossip/clock.h"
#include "gossip/exchange/round_numbers.h"
#include "gossip/updates/update_slice.h"

namespace starling {

class LogRounds {
 public:
  // References must outlive the object.
  LogRounds(const UpdateSlices& slices, const Clock& clock) : slices_(slices), clock_(clock) {}

  // Half of the slices have an entry of this round, or of a later one. The median: one owner cannot move it alone.
  uint64_t newest() const;

  // The newest number that the next round may have; `own`: that which this member would give it. Takes note of the
  // entries that came since the last call.
  uint64_t limit(const RoundNumbers& numbers, const GroupMembers& members, uint64_t own);

  void note_entry(uint32_t slice);  // this slice's log may have gone on

  // The others have ended the round after `round`, and this member did not miss that one already.
  bool went_on_after(uint64_t round) const;
  // This member leaves that round out.
  void miss() {
    missed_round_ = heard_round_;
    missed_ = heard_at_;
  }
  void begin() { missed_.reset(); }
  uint64_t heard() const { return heard_round_; }
  std::optional<TimePoint> missed() const { return missed_; }  // since when the others take the steps after it

 private:
  const UpdateSlices& slices_;
  const Clock& clock_;
  uint64_t heard_round_ = 0;  // newest(), as of the last entry
  TimePoint heard_at_;
  uint64_t missed_round_ = 0;
  std::optional<TimePoint> missed_;
};

}  // namespace starling
