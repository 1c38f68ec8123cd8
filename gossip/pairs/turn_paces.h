// Which agents are slow from boundary to boundary where agents meet by turns, by their steps and their uplink. Each
// agent announces both times, without its waiting: agents that wait for each other have the same rate of steps. An
// agent is slow above 1.5 times the upper median of all known times. So less than half of them are slow, and of two
// agents none. One peer moves the median by one place at most, so a liar makes only itself slow. A slow agent is asked
// last, and keeps to no schedule: otherwise all wait for it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gossip/clock.h"
#include "gossip/limits.h"
#include "gossip/peer.h"

namespace starling {

class TurnPaces {
 public:
  static constexpr size_t kLast = 9;      // own times, of which the median counts
  static constexpr size_t kKnownMin = 3;  // times, this agent's among them
  static constexpr int64_t kSlowNumerator = 3, kSlowDenominator = 2;
  static constexpr int64_t kThin = 2;  // times the upper median

  void stepped(Duration took) { last_[count_++ % kLast] = took; }
  void sends_in(Duration takes) { upload_ = takes; }  // a payload, beside its messages
  Duration own() const {                              // 0: not known
    std::vector<Duration> times(last_.begin(), last_.begin() + static_cast<std::ptrdiff_t>(std::min(count_, kLast)));
    return times.empty() ? Duration::zero() : upper_median(times) + upload_;
  }
  // By its uplink more than by its steps, and by far.
  bool thin() const { return own() / kThin > longest_ / kSlowNumerator * kSlowDenominator && 2 * upload_ > own(); }
  void heard(const PeerId& peer, Duration its) {  // 0: it does not say
    if (its <= Duration::zero()) return;
    const auto place = std::lower_bound(peers_.begin(), peers_.end(), peer, comes_before);
    if (place != peers_.end() && place->peer == peer) {
      place->time = its;
    } else if (peers_.size() < kMembersMax) {
      peers_.insert(place, {peer, its});
    } else {
      peers_ = {{peer, its}};
    }
  }
  void forget(const PeerId& peer) {
    std::erase_if(peers_, [&](const Pace& pace) { return pace.peer == peer; });
  }

  void compare_with(const std::vector<PeerId>& others) {  // from now on. REQUIRES: sorted
    std::vector<Duration> times;
    times.reserve(others.size() + 1);
    if (own() > Duration::zero()) times.push_back(own());
    auto pace = peers_.begin();
    for (const PeerId& peer : others) {
      while (pace != peers_.end() && pace->peer < peer) ++pace;
      if (pace != peers_.end() && pace->peer == peer) times.push_back(pace->time);
    }
    longest_ = times.size() < kKnownMin ? Duration::max() : kSlowNumerator * upper_median(times) / kSlowDenominator;
  }
  bool slow() const { return own() > longest_; }  // this agent is
  bool slow(const PeerId& peer) const {
    const auto place = std::lower_bound(peers_.begin(), peers_.end(), peer, comes_before);
    return place != peers_.end() && place->peer == peer && place->time > longest_;
  }
  void add_slow(std::vector<PeerId>& peers) const {
    for (const Pace& pace : peers_) {
      if (pace.time > longest_) peers.push_back(pace.peer);
    }
  }

 private:
  struct Pace {
    PeerId peer;
    Duration time{};
  };
  static bool comes_before(const Pace& pace, const PeerId& peer) { return pace.peer < peer; }
  static Duration upper_median(std::vector<Duration> times) {
    if (times.empty()) return Duration::zero();
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
  }

  std::array<Duration, kLast> last_{};
  size_t count_ = 0;
  Duration upload_{};
  std::vector<Pace> peers_;             // sorted
  Duration longest_ = Duration::max();  // that is not slow
};

}  // namespace starling
