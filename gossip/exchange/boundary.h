// A boundary of the agent's rounds, as an exchange runs it: what the caller does next, until the steps begin.
// OneExchange runs it for an exchange that is made once a boundary.
#pragma once

#include <cstdint>

#include "gossip/clock.h"

namespace starling {

inline constexpr uint32_t kAttemptsMax = 3;  // at a boundary: a busy partner does not end the round

struct Boundary {
  uint64_t number = 0;     // counts the boundaries of this agent, as Snapshot::boundary
  bool waits = true;       // false: an exchange that begins goes on beside the steps
  bool closing = false;    // this agent leaves: no further attempt
  Duration steps{};        // how long the steps after it will take, and a job before them; 0: none follow
  bool published = false;  // in this boundary, by publish()
  bool mixed = false;      // the last Due::kApply brought deltas
};

enum class Due : uint8_t {
  kWait,             // until the exchange is not under way any more
  kPublish,          // apply what was decided, encode, publish()
  kPublishForSteps,  // likewise, with Snapshot::next_at
  kApply,            // apply what was decided
  kSteps             // the boundary has ended
};

class OneExchange {
 public:
  // `exchange` has retract() and begin(). `retries`: where nothing was mixed, another partner may be free.
  template <class E>
  Due next(const Boundary& boundary, bool retries, E& exchange) {
    if (boundary.number != number_) *this = OneExchange(boundary.number);
    if (!boundary.published) {
      exchange.retract();
      return Due::kPublish;
    }
    if (waits_) {
      waits_ = false;
      return Due::kApply;
    }
    const bool again = retries && !boundary.mixed && !boundary.closing;
    if (attempts_ == kAttemptsMax || (attempts_ > 0 && !again)) return Due::kSteps;
    ++attempts_;
    waits_ = exchange.begin() && boundary.waits;
    return waits_ ? Due::kWait : Due::kSteps;
  }

  OneExchange() = default;

 private:
  explicit OneExchange(uint64_t number) : number_(number) {}

  uint64_t number_ = 0;  // of the boundary
  uint32_t attempts_ = 0;
  bool waits_ = false;
};

}  // namespace starling
