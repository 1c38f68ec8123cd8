// Is the longest deadline of an exchange long enough for the links there are? Latency is known only once an agent has
// met others, so this looks on while it runs.
#pragma once

#include "agent/config/config.h"
#include "agent/run/rounds.h"
#include "gossip/clock.h"
#include "gossip/exchange/exchange.h"
#include "gossip/membership/membership.h"

namespace starling {

class DeadlineWatch {
 public:
  // Now and then. Warns when half of the exchanges take longer than `longest`, swarm.exchange.deadline_max. Throws
  // std::runtime_error, with the remedy, when of the first exchanges not one block was there in time, and none can be:
  // what is on its way takes longer than the deadline (the median over the members measured).
  void look(Duration longest, const ExchangeStatus& exchange, const ExchangeCounts& tally,
            const Membership& membership, TimePoint now);

 private:
  TimePoint next_warning_;
};

}  // namespace starling
