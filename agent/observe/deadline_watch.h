// Is the longest deadline of an exchange long enough for the links there are? Latency is known only after an agent has
// met others, so this is checked while it runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/report/exchange_counts.h"
#include "gossip/clock.h"
#include "gossip/exchange/exchange.h"
#include "gossip/membership/membership.h"

namespace starling {

// One that ended before all of its blocks had come.
struct LateExchange {
  std::string with;  // the partner's name; empty: it has none, or the exchange was a round of several
  uint64_t blocks = 0, blocks_total = 0;
  uint64_t bytes = 0;  // received
  Duration lasted{};
};

class DeadlineWatch {
 public:
  // To be called now and then. Warns of the first exchange that `longest` (swarm.exchange.deadline_max) ended with a
  // part of its blocks, and of later ones once a minute; and if half of the exchanges take longer.
  // Throws std::runtime_error, with the remedy, if no block of the first exchanges arrived in time and none can: the
  // median latency of the measured members exceeds the deadline.
  void look(Duration longest, const ExchangeStatus& exchange, const ExchangeCounts& tally,
            const std::optional<LateExchange>& last_late, const Membership& membership, TimePoint now);

 private:
  void look_at_late(Duration longest, const ExchangeCounts& tally, const LateExchange& last, TimePoint now);

  TimePoint next_warning_, next_late_;
  uint64_t late_said_ = 0;
};

}  // namespace starling
