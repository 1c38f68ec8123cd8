// Is the longest deadline of an exchange long enough for the links there are? Latency is known only after an agent has
// met others, so this is checked while it runs.
#pragma once

#include "agent/report/exchange_counts.h"
#include "gossip/clock.h"
#include "gossip/exchange/exchange.h"
#include "gossip/membership/membership.h"

namespace starling {

class DeadlineWatch {
 public:
  // To be called now and then. Warns if half of the exchanges take longer than `longest` (swarm.exchange.deadline_max).
  // Throws std::runtime_error, with the remedy, if no block of the first exchanges arrived in time and none can: the
  // median latency of the measured members exceeds the deadline.
  void look(Duration longest, const ExchangeStatus& exchange, const ExchangeCounts& tally,
            const Membership& membership, TimePoint now);

 private:
  TimePoint next_warning_;
};

}  // namespace starling
