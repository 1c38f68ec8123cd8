// The sums behind the timers, as pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gossip/clock.h"

namespace starling {

// How many further accusers shorten a suspicion. A swarm too small to have them needs none.
// `member_count` counts us and the suspect here and below.
uint32_t confirmations_wanted(double suspicion, size_t member_count);

// How long a suspicion with so many confirmations lasts from its start: from six times the minimum down to
// it, by the logarithm of the confirmations (Lifeguard). The minimum grows with the time gossip needs.
Duration suspicion_timeout(double suspicion, Duration probe_interval, size_t member_count,
                           uint32_t confirmations);

// How often one update is passed on by each member.
uint32_t retransmit_count(size_t member_count);

}  // namespace starling
