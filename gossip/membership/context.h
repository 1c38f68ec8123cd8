// What the parts of one membership have in common: its settings, time, chance, the way out, and what is counted.
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
  MembershipCounters counters{};
};

}  // namespace starling
