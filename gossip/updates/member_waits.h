// How long a member of a group was waited for in each phase of a round: one time, that of its last block. In a round
// that is open while the own steps go on most blocks cost no wait at all. Counted one by one they would make the usual
// wait zero, however long the last ones take.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "gossip/clock.h"

namespace starling {

class MemberWaits {
 public:
  // A round begins; late blocks of the one before are still taken. tell(phase, wait) is called for the members of the
  // round before that with blocks that never came.
  template <typename Tell>
  void begin(size_t members, const Tell& tell) {
    for (const Waits& waits : before_) settle(waits, tell);
    before_ = std::exchange(now_, std::vector<Waits>(members));
  }

  // A block of this member came `after` waiting began; `last`: it was its last one, so that the wait is known: true.
  [[nodiscard]] bool came(size_t rank, uint8_t phase, Duration after, bool last) {
    return note(now_[rank][phase], after, last);
  }
  // Of the round before. REQUIRES: it had the same members.
  [[nodiscard]] bool came_late(size_t rank, uint8_t phase, Duration after, bool last) {
    return note(before_[rank][phase], after, last);
  }

 private:
  using Waits = std::array<std::optional<Duration>, 2>;  // by phase: so far; nullopt: nothing came, or it was told
  static bool note(std::optional<Duration>& wait, Duration after, bool last) {
    wait = last ? std::nullopt : std::optional(after);
    return last;
  }
  template <typename Tell>
  static void settle(const Waits& waits, const Tell& tell) {
    for (uint8_t phase = 0; phase < 2; ++phase) {
      if (waits[phase]) tell(phase, *waits[phase]);
    }
  }

  std::vector<Waits> now_, before_;  // by rank
};

}  // namespace starling
