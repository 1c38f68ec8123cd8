// The phase after the last step: exchanges without steps until the models agree, then the final evaluation.
//
// An agent ends when every other model lies within kBall of the final distance of its own, as the records tell. Records
// may be old: exchanges without steps leave no model outside a ball that held all at one moment. Those of different
// moments can deceive, where one far model has met another in between; that was not seen to matter in simulation. By an
// estimate from 16 buckets, a quarter of a distance ends once in a thousand times too early, at half of it. The rms of
// all params is that of the largest ones: at the whole distance small tensors may still differ by their own size.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "agent/run/agreement.h"
#include "gossip/clock.h"
#include "gossip/group/group_guard.h"

namespace starling {

class Settling {
 public:
  Settling(double final_distance, Duration settle_max) : final_distance_(final_distance), settle_max_(settle_max) {}

  void begin(TimePoint now) {
    active_ = true;
    began_ = now;
  }
  void abandon() { active_ = false; }  // the params were lost, so the agent takes steps again
  bool active() const { return active_; }
  double final_distance() const { return final_distance_; }

  // News of a member takes longer to spread the more members there are.
  bool overdue(TimePoint now, size_t members) const {
    return now - began_ >= settle_max_ + static_cast<int64_t>(members) * kPerMember;
  }
  bool agreed(const Agreement& agreement) const {
    return agreement.unknown == 0 && near(agreement.farthest.value_or(0));
  }
  double ball() const { return kBall * final_distance_; }  // over the rms params, like all of these
  bool near(double distance) const { return distance <= ball(); }

  // In units of the own rms: `factor` times the distance of the farthest, were it not for those that may be broken.
  // nullopt: fewer than half of the others have told theirs.
  std::optional<double> far(const Agreement& agreement, double factor) const {
    std::vector<double> distances;
    for (const Apart& other : agreement.others) {
      if (std::isfinite(other.distance)) distances.push_back(other.distance);
    }
    const size_t others = agreement.members, broken = std::max<size_t>(1, (others + 1) / 8);
    if (others == 1) return std::numeric_limits<double>::infinity();  // of two, nobody knows which one lies
    if (distances.size() <= broken || 2 * distances.size() < others) return std::nullopt;
    std::sort(distances.begin(), distances.end(), std::greater<>());
    return std::max((others == 2 ? GroupGuard::kFarOfFew : factor) * distances[broken], final_distance_);
  }

 private:
  static constexpr double kBall = 0.25;
  static constexpr Duration kPerMember = std::chrono::milliseconds(20);

  double final_distance_;
  Duration settle_max_;
  bool active_ = false;
  TimePoint began_;
};

}  // namespace starling
