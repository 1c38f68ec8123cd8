// An agent whose steps take long has one payload for others during them. Each who finds that spent is told to come in
// steps of its own, so that they do not all come for the next payload, and all but one in vain again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "gossip/peer.h"

namespace starling {

class Appointments {
 public:
  static constexpr uint64_t kAheadMax = 16;   // boundaries, and as many peers

  // The boundary before the peer's steps: the first one from `first` on that no other has, or else the last there is.
  uint64_t with(const PeerId& peer, uint64_t first) {
    std::erase_if(boundaries_, [&](const auto& row) { return row.first == peer || row.second < first; });
    const auto taken = [this](uint64_t boundary) {
      return std::any_of(boundaries_.begin(), boundaries_.end(),
                         [&](const auto& row) { return row.second == boundary; });
    };
    uint64_t boundary = first;
    while (boundary < first + kAheadMax && taken(boundary)) ++boundary;
    if (boundaries_.size() < kAheadMax) boundaries_[peer] = boundary;
    return boundary;
  }

 private:
  std::map<PeerId, uint64_t> boundaries_;
};

}  // namespace starling
