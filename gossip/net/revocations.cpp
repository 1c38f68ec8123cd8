#include "gossip/net/revocations.h"

#include <algorithm>
#include <optional>
#include <span>

#include "gossip/limits.h"
#include "gossip/net/hash.h"

namespace starling {

static_assert(kRevocationsMax * kRevocationBytes + 1024 <= kControlFrameBytesMax);

std::vector<PeerId> Revocations::take(std::string_view bytes) {
  std::vector<PeerId> added;
  for (; bytes.size() >= kRevocationBytes && !full(); bytes.remove_prefix(kRevocationBytes)) {
    const std::string_view one = bytes.substr(0, kRevocationBytes);
    PeerId claimed;
    std::ranges::copy(one.substr(1, claimed.bytes.size()), claimed.bytes.begin());
    if (contains(claimed)) continue;
    const std::optional<PeerId> id = read_revocation(swarm_, one);
    if (!id) break;
    revoked_.emplace(*id, one);
    added.push_back(*id);
  }
  if (added.empty()) return added;
  std::string ids;
  for (const auto& [id, signed_bytes] : revoked_) {
    ids.append(reinterpret_cast<const char*>(id.bytes.data()), id.bytes.size());
  }
  sum_ = xxh3_64(std::as_bytes(std::span(ids)));
  return added;
}

std::vector<PeerId> Revocations::ids() const {
  std::vector<PeerId> ids;
  for (const auto& [id, signed_bytes] : revoked_) ids.push_back(id);
  return ids;
}

std::string Revocations::bytes() const {
  std::string all;
  for (const auto& [id, signed_bytes] : revoked_) all += signed_bytes;
  return all;
}

std::string Revocations::bytes_of(const std::vector<PeerId>& ids) const {
  std::string some;
  for (const PeerId& id : ids) {
    if (const auto found = revoked_.find(id); found != revoked_.end()) some += found->second;
  }
  return some;
}

}  // namespace starling
