// The members that a member of a group waits for in a round, and for how long.
//
// It does not wait for a member that was seen in a later round, because that member sends nothing more of this one. Nor
// does it wait for a member that was silent for a whole round, until it is heard again. A member ahead of most others
// extends its first deadline once per round.
#pragma once

#include <cstdint>
#include <vector>

#include "gossip/exchange/group_members.h"
#include "gossip/exchange/round_numbers.h"
#include "gossip/exchange/round_times.h"

namespace starling {

class RoundWait {
 public:
  // References must outlive the object.
  RoundWait(Duration deadline_min, Duration deadline_max, Duration round_max, const Clock& clock,
            const RoundNumbers& numbers)
      : clock_(clock), numbers_(numbers), times_(deadline_min, deadline_max, round_max) {}

  void begin(const GroupMembers& members, uint64_t round);
  void begin_again() { times_.begin_again(clock_.now()); }  // the same round: nobody was waited for before

  // The ranks that the round need not wait for: all others if this agent is itself behind the median, to catch up.
  std::vector<size_t> ahead() const;
  // Others need not be waited for: they sent nothing of the round before, though one of the two owned one of `blocks`.
  std::vector<size_t> silent(size_t blocks) const;

  // Every arrival feeds the deadline of its phase. `late`: it belongs to the round before.
  void arrived(uint8_t phase) { times_.arrived(phase, clock_.now()); }
  void waited(uint8_t phase, Duration duration) { times_.waited(phase, duration); }  // for one member, in all
  void arrived_late(uint8_t phase) { times_.arrived_late(phase, clock_.now()); }
  void most_came() { times_.most_came(clock_.now()); }  // of the first phase, from most others
  void take_back_time();                                // ends an extension once the others have caught up

  // True: the deadline is over now, and the caller must pass it. first_ends() extends the deadline where that is due.
  [[nodiscard]] bool first_ends();
  [[nodiscard]] bool second_ends() const { return times_.second_due(clock_.now()); }
  void pass_first(bool nothing_came) { times_.pass_first(nothing_came); }
  void pass_second(bool nothing_came) { times_.pass_second(nothing_came); }
  bool first_over() const { return times_.first_over(); }
  bool second_over() const { return times_.second_over(); }

  TimePoint next() const { return times_.next(); }
  TimePoint second_at() const { return times_.second_at(); }    // the last deadline
  TimePoint overdue_at() const { return times_.overdue_at(); }  // of what comes in the second phase
  Duration elapsed() const { return clock_.now() - times_.begun_at(); }
  Duration elapsed_before() const { return clock_.now() - times_.before_begun_at(); }  // since the round before began
  Duration first_wait() const { return times_.first_wait(); }
  Duration fast_second() const { return times_.fast_second(); }  // a quarter came sooner; 0: not known yet
  Duration usual() const { return times_.usual(); }              // of the slower phase

 private:
  bool ahead_of_most() const;

  const Clock& clock_;
  const RoundNumbers& numbers_;
  RoundTimes times_;
  GroupMembers members_;  // of the round
  uint64_t round_ = 0;
};

}  // namespace starling
