// What one snapshot may give away: 1 to its first exchange, 1/2 to the second, 1/4 to the third. An agent
// that answered every proposal from one snapshot would move by a multiple of its distance to the others: a
// swarm whose fastest is 8x its slowest diverges then.
#pragma once

#include <array>
#include <cstddef>

namespace starling {

class SnapshotBudget {
 public:
  static constexpr std::array<double, 3> kShares = {1, 0.5, 0.25};

  // Of these shares, the first `count`. REQUIRES: count <= kShares.size().
  explicit SnapshotBudget(size_t count = kShares.size()) : count_(count) {}

  double largest_free() const {   // 0: spent
    for (size_t i = 0; i < count_; ++i) {
      if (!taken_[i]) return kShares[i];
    }
    return 0;
  }

  // Takes the largest share that is free; 0: spent.
  double take() {
    const double share = largest_free();
    set(share, true);
    return share;
  }

  void hold(double share) { set(share, true); }      // of an exchange that began on an older snapshot
  void give_back(double share) { set(share, false); }  // it ended and nothing was applied

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
