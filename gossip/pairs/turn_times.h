// How long an agent by turns took no step for its exchanges, and for which part of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "gossip/clock.h"

namespace starling {

class TurnTimes {
 public:
  enum class Part { kNone, kAsking, kOwn, kServing };  // as PairwiseCounters has them

  explicit TurnTimes(const Clock& clock) : clock_(clock), since_(clock.now()) {}

  void is(Part part) {  // from now on
    spent_[static_cast<size_t>(part_)] += clock_.now() - since_;
    since_ = clock_.now();
    part_ = part;
  }
  Duration all() const {  // without steps, until now
    Duration sum{};
    for (const Part part : {Part::kAsking, Part::kOwn, Part::kServing}) sum += spent(part);
    return sum;
  }
  uint64_t us(Part part) const {  // until now
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(spent(part)).count());
  }

 private:
  Duration spent(Part part) const {
    const Duration last = part == part_ ? clock_.now() - since_ : Duration::zero();
    return spent_[static_cast<size_t>(part)] + last;
  }

  const Clock& clock_;
  Part part_ = Part::kNone;
  TimePoint since_;
  std::array<Duration, 4> spent_{};
};

}  // namespace starling
