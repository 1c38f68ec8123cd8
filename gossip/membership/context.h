// Shared by the parts of one membership: options, clock, random numbers, the process's secret, outbox and counters.
#pragma once

#include <optional>

#include "gossip/clock.h"
#include "gossip/membership/member.h"
#include "gossip/membership/options.h"
#include "gossip/net/member_keys.h"
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
  const MemberKeys* keys = nullptr;    // null: the swarm is open, and records are not signed
  MembershipCounters counters{};
  PeerId from{};                         // the sender of the message in hand
  bool lies = false;                     // and it holds a forged record
  std::optional<ForgedRecord> forged{};  // the last one; as Membership::take_forged()

  uint64_t revoked_sum() const { return revocations ? revocations->sum() : 0; }
  void begin_message(const PeerId& sender) {
    from = sender;
    lies = false;
  }
  uint64_t told_clock() const { return revocations ? clock.unix_seconds() : 0; }  // as PingAck::unix_s
  bool is_revoked(const PeerId& id) const { return revocations && revocations->contains(id); }
};

}  // namespace starling
