// Limits how many exchanges use one snapshot, and the weight of each: 1 for the first, 1/2 for the second, 1/4 for the
// third. At full weight several deltas of one snapshot would add up and overshoot: each is computed as if it were
// alone. A swarm with agents of very different speeds then diverges.
#pragma once

#include <array>
#include <cstddef>

namespace starling {

class SnapshotBudget {
 public:
  static constexpr std::array<double, 3> kOffers = {1, 0.5, 0.25};

  // Offers the first `count` of kOffers. REQUIRES: count <= kOffers.size().
  explicit SnapshotBudget(size_t count = kOffers.size()) : count_(count) {}

  double largest_free() const {  // 0: all offers are taken
    for (size_t i = 0; i < count_; ++i) {
      if (!taken_[i]) return kOffers[i];
    }
    return 0;
  }

  // Takes the largest free offer and returns it; 0: all offers are taken.
  double take() {
    const double offer = largest_free();
    set(offer, true);
    return offer;
  }

  void hold(double offer) { set(offer, true); }        // for an exchange that began on an older snapshot
  void give_back(double offer) { set(offer, false); }  // after an exchange that applied nothing

 private:
  void set(double offer, bool taken) {
    for (size_t i = 0; i < kOffers.size(); ++i) {
      if (kOffers[i] == offer) taken_[i] = taken;
    }
  }

  size_t count_;
  std::array<bool, 3> taken_{};
};

}  // namespace starling
