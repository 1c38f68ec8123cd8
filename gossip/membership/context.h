// Shared by the parts of one membership: options, clock, random numbers, the process's secret, outbox and counters.
#pragma once

#include "gossip/clock.h"
#include "gossip/membership/member.h"
#include "gossip/membership/options.h"
#include "gossip/net/outbox.h"
#include "gossip/net/revocations.h"
#include "gossip/rng.h"

namespace starling {

struct MembershipContext {
  MembershipOptions options;
  const Clock& clock;
  Outbox& outbox;
  Rng rng;
  uint64_t secret;                     // as in Membership's constructor
  Revocations* revocations = nullptr;  // null: the swarm is not certified
  MembershipCounters counters{};

  uint64_t revoked_sum() const { return revocations ? revocations->sum() : 0; }
  bool is_revoked(const PeerId& id) const { return revocations && revocations->contains(id); }
};

}  // namespace starling
