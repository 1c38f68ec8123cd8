// Shared by the parts of one membership: options, clock, random numbers, the process's secret, outbox and counters.
#pragma once

#include "gossip/clock.h"
#include "gossip/membership/member.h"
#include "gossip/membership/options.h"
#include "gossip/net/outbox.h"
#include "gossip/rng.h"

namespace starling {

struct MembershipContext {
  MembershipOptions options;
  const Clock& clock;
  Outbox& outbox;
  Rng rng;
  uint64_t secret;  // as in Membership's constructor
  MembershipCounters counters{};
};

}  // namespace starling
