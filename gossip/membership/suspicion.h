// The formulas behind the timers, as pure functions. `member_count` includes this agent and the suspect.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gossip/clock.h"

namespace starling {

// How many further accusers shorten a suspicion. It is 0 in a swarm too small to have them.
uint32_t confirmations_wanted(double suspicion, size_t member_count);

// How long a suspicion lasts from its start: six times the minimum without confirmations, falling to the minimum with
// the logarithm of their number (Lifeguard). The minimum grows with the time that gossip needs.
Duration suspicion_timeout(double suspicion, Duration probe_interval, size_t member_count, uint32_t confirmations);

// How often each member passes on one update.
uint32_t retransmit_count(size_t member_count);

}  // namespace starling
