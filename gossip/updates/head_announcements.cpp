#include "gossip/updates/head_announcements.h"

#include <algorithm>
#include <utility>

namespace starling {

// A claim that is taken back is remembered all the same: a liar would make it again.
bool HeadAnnouncements::hear(const PeerId& from, const LogHead& head, const LogHead& own, uint64_t round) {
  said_[from] = {head, round};
  const bool more = greater(head, own);
  if (!more && !claims_.contains(from)) return false;
  const auto vain = vain_.find(from);
  const bool again = vain != vain_.end() && round <= vain->second + kVainRounds;
  Claim& claim = claims_.try_emplace(from, Claim{head, 0, again ? vain->second : round}).first->second;
  claim.doubted = claim.doubted && claim.head == head;
  claim.head = head;
  claim.weight = std::max(claim.weight, head.weight);
  return more;
}

void HeadAnnouncements::doubt(const LogHead& head) {
  for (auto& [peer, claim] : claims_) claim.doubted = claim.doubted || claim.head == head;
}

bool HeadAnnouncements::lacks(const LogHead& own, uint64_t round) const {
  bool weak = false;  // one so far
  for (const auto& [peer, claim] : claims_) {
    if (!greater(claim.head, own)) continue;
    const bool is_weak = claim.doubted || round > claim.since + kClaimRounds;
    if (!is_weak || std::exchange(weak, true)) return true;
  }
  return false;
}

bool HeadAnnouncements::lacks_of(const PeerId& peer, const LogHead& own) const {
  const auto at = claims_.find(peer);
  return at != claims_.end() && greater(at->second.head, own);
}

uint64_t HeadAnnouncements::behind(const LogHead& own) const {
  uint64_t most = 0;
  for (const auto& [peer, claim] : claims_) {
    const bool longer = greater(claim.head, own) && claim.head.length > own.length;
    if (longer) most = std::max(most, claim.head.length - own.length);
  }
  return most;
}

void HeadAnnouncements::add_holders(const LogHead& head, std::set<PeerId>* members) const {
  for (const auto& [peer, claim] : claims_) {
    if (claim.head == head) members->insert(peer);
  }
  for (const auto& [peer, said] : said_) {
    if (said.head == head) members->insert(peer);
  }
}

bool HeadAnnouncements::nobody_shares(const GroupMembers& members, const UpdateLog& log) const {
  for (size_t rank = 0; rank < members.count(); ++rank) {
    if (rank == members.self) continue;
    const auto said = said_.find(members.ids[rank]);
    if (said == said_.end()) return false;
    const LogHead& head = said->second.head;
    if (greater(head, log.head()) || !log.is_apart(head)) return false;
  }
  return true;
}

bool HeadAnnouncements::somebody_shares(const LogHead& own, uint64_t round) const {
  return std::any_of(said_.begin(), said_.end(),
                     [&](const auto& said) { return said.second.head == own && said.second.round + 1 >= round; });
}

bool HeadAnnouncements::sees_split(const UpdateLog& log, uint64_t round) const {
  const LogHead& own = log.head();
  return somebody_shares(own, round) && std::any_of(said_.begin(), said_.end(), [&](const auto& said) {
           const LogHead& head = said.second.head;
           const bool near = head.length + kRecentEntries > own.length;  // else it may be far behind
           return said.second.round + 1 >= round && near && greater(own, head) && log.is_apart(head);
         });
}

void HeadAnnouncements::settle(const LogHead& own) {
  std::erase_if(said_, [&](const auto& said) { return said.second.head != own; });
  std::erase_if(claims_, [&](const auto& row) {
    const auto& [peer, claim] = row;
    if (own.weight < claim.weight || greater(claim.head, own)) return false;
    if (claim.head == own) {
      vain_.erase(peer);
    } else {
      vain_[peer] = claim.since;
    }
    return true;
  });
}

}  // namespace starling
