// Pairs that exchange one part of their model at a time. A model is cut into a few fragments. Each holds a run of whole
// blocks of every section, so that momentum goes with its params.
//
// The fragment of an exchange follows from how many exchanges its two agents had. Both know that number, so proposals
// that cross carry the same fragment, and any `count` exchanges of a pair cover each block once. Where the two
// disagree, as after a decision that only one of them knows, the proposer's number counts. A pair begins with a
// fragment derived from its ids: in a large swarm few pairs meet often, and so each fragment is as frequent as any
// other. An exchange that is taken back does not count.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "compression/layout.h"
#include "gossip/exchange/bitmap.h"
#include "gossip/peer.h"

namespace starling {

// The blocks of each fragment; each block is in one. REQUIRES: count > 0. A fragment is empty if no section has `count`
// blocks.
std::vector<Bitmap> cut_fragments(const Layout& layout, uint32_t count);

// Which fragment is next with each peer.
class FragmentTurns {
 public:
  FragmentTurns(const PeerId& self, uint32_t count) : self_(self), count_(count) {}

  uint32_t next_with(const PeerId& peer) const;
  void mixed(const PeerId& peer, uint32_t fragment);       // an exchange of this fragment counts from now on
  void taken_back(const PeerId& peer, uint32_t fragment);  // it does not after all
  void forget(const PeerId& peer) { next_.erase(peer); }   // its process has ended, and with it what it knew

 private:
  PeerId self_;
  uint32_t count_;
  std::map<PeerId, uint32_t> next_;  // of peers that took part in one exchange at least
};

}  // namespace starling
