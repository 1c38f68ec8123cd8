// The two deadlines of a group's round: when an owner stops waiting for contributions, and a member for averages.
#pragma once

#include <algorithm>
#include <array>

#include "gossip/exchange/deadline.h"

namespace starling {

class RoundTimes {
 public:
  // `round_max`: a round is never extended beyond it.
  RoundTimes(Duration deadline_min, Duration deadline_max, Duration round_max)
      : deadlines_{AdaptiveDeadline(deadline_min, deadline_max), AdaptiveDeadline(deadline_min, deadline_max)},
        round_max_(round_max) {}

  void begin(TimePoint now) {
    before_ = begun_at_;
    begin_again(now);
  }
  // The same round: waiting begins only now.
  void begin_again(TimePoint now) {
    begun_at_ = now;
    first_at_ = now + std::min(deadlines_[0].current(), deadlines_[1].current());
    wait_ = first_at_ - now;
    least_at_ = first_at_;
    second_at_ = first_at_ + deadlines_[1].current();
    first_over_ = second_over_ = extended_ = false;
  }

  // Every arrival feeds the deadline of its phase, late ones too. Durations count from the beginning of the round.
  void arrived(uint8_t phase, TimePoint now) { deadlines_[phase].arrived(now - begun_at_); }
  void arrived_late(uint8_t phase, TimePoint now) { deadlines_[phase].arrived(now - before_); }  // of the round before
  void waited(uint8_t phase, Duration duration) { deadlines_[phase].arrived(duration); }

  bool first_due(TimePoint now) const { return !first_over_ && first_at_ <= now; }
  bool second_due(TimePoint now) const { return first_over_ && !second_over_ && second_at_ <= now; }
  void pass_first(bool nothing_came) {
    first_over_ = true;
    if (nothing_came) deadlines_[0].missed(first_wait());
  }
  void pass_second(bool nothing_came) {
    second_over_ = true;
    if (nothing_came) deadlines_[1].missed(second_at_ - begun_at_);
  }
  bool first_over() const { return first_over_; }
  bool second_over() const { return second_over_; }

  // Most others have handed in. The missing ones are given the whole wait from now on, but none beyond the second
  // deadline: the round gets no longer.
  void most_came(TimePoint now) {
    if (first_over_) return;
    least_at_ = std::min(now + wait_, second_at_);
    first_at_ = std::max(first_at_, least_at_);
  }

  // extend() doubles the wait until the first deadline, as far as the round may last, once per round; take_back() ends
  // the extended wait at `now`.
  bool may_extend() const { return !extended_; }
  void extend() {
    extended_ = true;
    shift(std::min(first_wait(), std::max(Duration::zero(), begun_at_ + round_max_ - second_at_)));
  }
  void take_back(TimePoint now) {
    if (extended_ && !first_over_ && first_at_ > now) shift(std::max(now, std::min(first_at_, least_at_)) - first_at_);
  }

  TimePoint begun_at() const { return begun_at_; }
  TimePoint before_begun_at() const { return before_; }  // the round before
  TimePoint second_at() const { return second_at_; }
  Duration first_wait() const { return first_at_ - begun_at_; }
  Duration usual() const { return std::max(deadlines_[0].usual(), deadlines_[1].usual()); }  // of the slower phase
  Duration fast_second() const { return deadlines_[1].fast(); }
  // When what comes in the second phase has usually come. Earlier than its deadline, which begins with the first one.
  TimePoint overdue_at() const { return begun_at_ + deadlines_[1].current(); }
  TimePoint next() const { return !first_over_ ? first_at_ : !second_over_ ? second_at_ : TimePoint::max(); }

 private:
  void shift(Duration by) {
    first_at_ += by;
    second_at_ += by;
  }

  std::array<AdaptiveDeadline, 2> deadlines_;  // by phase
  Duration round_max_;
  TimePoint before_, begun_at_, first_at_, second_at_;
  Duration wait_{};     // until the first deadline, as it began
  TimePoint least_at_;  // no first deadline is taken back before
  bool first_over_ = false, second_over_ = false, extended_ = false;
};

}  // namespace starling
