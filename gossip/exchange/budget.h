// Limits how many exchanges use one snapshot and at which weight: 1 for the first, 1/2 for the second, 1/4 for the
// third. An agent that answered every proposal from the same snapshot at full weight would add up several deltas, each
// computed as if it were the only one, and overshoot. A swarm whose speeds differ by a factor of 8 then diverges.
#pragma once

#include <array>
#include <cstddef>

namespace starling {

class SnapshotBudget {
 public:
  static constexpr std::array<double, 3> kShares = {1, 0.5, 0.25};

  // Offers the first `count` of kShares. REQUIRES: count <= kShares.size().
  explicit SnapshotBudget(size_t count = kShares.size()) : count_(count) {}

  double largest_free() const {   // 0: all shares are taken
    for (size_t i = 0; i < count_; ++i) {
      if (!taken_[i]) return kShares[i];
    }
    return 0;
  }

  // Takes the largest free share and returns it; 0: all shares are taken.
  double take() {
    const double share = largest_free();
    set(share, true);
    return share;
  }

  void hold(double share) { set(share, true); }        // for an exchange that began on an older snapshot
  void give_back(double share) { set(share, false); }  // after an exchange that applied nothing

 private:
  void set(double share, bool taken) {
    for (size_t i = 0; i < kShares.size(); ++i) {
      if (kShares[i] == share) taken_[i] = taken;
    }
  }

  size_t count_;
  std::array<bool, 3> taken_{};
};

}  // namespace starling
