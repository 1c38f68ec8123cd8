// The ids that the holder of a certified swarm's key has removed from it, for ever. Each member keeps all of them and
// tells others; the set only grows, so the order in which members hear is irrelevant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gossip/net/member_keys.h"
#include "gossip/peer.h"

namespace starling {

inline constexpr size_t kRevocationsMax = 512;  // all of them fit into one control frame

class Revocations {
 public:
  explicit Revocations(const PeerId& swarm) : swarm_(swarm) {}

  // Revocations, one behind the other: foreign bytes. The ids that are new. All behind one that the swarm's key has not
  // signed are passed over, so that each call of a liar costs one signature; so is what exceeds the bound.
  std::vector<PeerId> take(std::string_view bytes);
  bool contains(const PeerId& id) const { return revoked_.contains(id); }
  std::vector<PeerId> ids() const;  // in order
  size_t count() const { return revoked_.size(); }
  bool full() const { return count() >= kRevocationsMax; }
  uint64_t sum() const { return sum_; }                        // XXH3-64 of the ids in order; 0: there are none
  std::string bytes() const;                                   // of all, as take() reads them
  std::string bytes_of(const std::vector<PeerId>& ids) const;  // of those that are there

 private:
  const PeerId swarm_;
  std::map<PeerId, std::string> revoked_;
  uint64_t sum_ = 0;
};

}  // namespace starling
