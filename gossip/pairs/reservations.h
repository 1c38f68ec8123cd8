// Boundaries that a slow agent has reserved for its peers. A slow agent has one payload for others during its steps.
// Each peer that finds it spent is told to come at another boundary: otherwise all come for the next payload, and all
// but one in vain.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "gossip/peer.h"

namespace starling {

class Reservations {
 public:
  static constexpr uint64_t kAheadMax = 16;  // boundaries, and as many peers

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
