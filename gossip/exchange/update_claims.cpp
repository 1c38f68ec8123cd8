#include "gossip/exchange/update_claims.h"

#include <algorithm>

namespace starling {

// A claim that is taken back is remembered all the same: a liar would make it again.
bool UpdateClaims::hear(const PeerId& from, const LogHead& head, const LogHead& own, uint64_t round) {
  const bool more = greater(head, own);
  if (!more && !claims_.contains(from)) return false;
  Claim& claim = claims_.try_emplace(from, Claim{head, 0, round}).first->second;
  claim.head = head;
  claim.weight = std::max(claim.weight, head.weight);
  return more;
}

bool UpdateClaims::lacks(const LogHead& own, uint64_t round) const {
  size_t old = 0;
  for (const auto& [peer, claim] : claims_) {
    if (!greater(claim.head, own)) continue;
    if (round <= claim.since + kClaimRounds || ++old >= 2) return true;
  }
  return false;
}

uint64_t UpdateClaims::behind(const LogHead& own) const {
  uint64_t most = 0;
  for (const auto& [peer, claim] : claims_) {
    const bool longer = greater(claim.head, own) && claim.head.length > own.length;
    if (longer) most = std::max(most, claim.head.length - own.length);
  }
  return most;
}

void UpdateClaims::add_holders(const LogHead& head, std::set<PeerId>* members) const {
  for (const auto& [peer, claim] : claims_) {
    if (claim.head == head) members->insert(peer);
  }
}

void UpdateClaims::settle(const LogHead& own) {
  std::erase_if(claims_, [&](const auto& claim) {
    return own.weight >= claim.second.weight && !greater(claim.second.head, own);
  });
}

}  // namespace starling
