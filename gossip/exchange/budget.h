// Limits how many exchanges use one snapshot, and what it offers each: weight 1 to the first, 1/2 to the second, 1/4 to
// the third. An agent that answered every proposal from the same snapshot at full weight would add up several deltas,
// each computed as if it were the only one, and overshoot. A swarm whose speeds differ by a factor of 8 then diverges.
#pragma once

#include <array>
#include <cstddef>

namespace starling {

class SnapshotBudget {
 public:
  static constexpr std::array<double, 3> kOffers = {1, 0.5, 0.25};

  // Offers the first `count` of kOffers. REQUIRES: count <= kOffers.size().
  explicit SnapshotBudget(size_t count = kOffers.size()) : count_(count) {}
  // Offers 1 so many times: for snapshots that the caller knows to be fresh enough. REQUIRES: as above.
  static SnapshotBudget whole(size_t count) {
    SnapshotBudget budget(count);
    budget.offers_.fill(1);
    return budget;
  }

  double largest_free() const {   // 0: all offers are taken
    for (size_t i = 0; i < count_; ++i) {
      if (!taken_[i]) return offers_[i];
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
    for (size_t k = 0; k < offers_.size(); ++k) {
      const size_t i = taken ? k : offers_.size() - 1 - k;
      if (offers_[i] != offer || taken_[i] == taken) continue;
      taken_[i] = taken;
      return;
    }
  }

  size_t count_;
  std::array<double, 3> offers_ = kOffers;
  std::array<bool, 3> taken_{};
};

}  // namespace starling
