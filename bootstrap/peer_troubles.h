// What keeps other agents from this one, for people: a line about each agent at most once a minute, and of many
// agents a few lines. Foreign frames cause them, so they are bounded.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gossip/clock.h"
#include "gossip/peer.h"

namespace starling {

// For people: its name, or the id where it has none.
inline std::string print_name(const PeerRecord& record) {
  return record.meta.name.empty() ? record.id.short_name() : record.meta.name;
}

class PeerTroubles {
 public:
  explicit PeerTroubles(const Clock& clock) : clock_(clock) {}

  void add(const PeerId& peer, std::string text) {
    const TimePoint now = clock_.now();
    std::erase_if(said_, [now](const auto& one) { return now - one.second >= kEvery; });
    if (said_.size() >= kPeersMax || !said_.emplace(peer, now).second) return;
    lines_.push_back(std::move(text));
  }
  std::vector<std::string> take() { return std::exchange(lines_, {}); }

 private:
  static constexpr Duration kEvery = std::chrono::minutes(1);
  static constexpr size_t kPeersMax = 4;

  const Clock& clock_;
  std::map<PeerId, TimePoint> said_;
  std::vector<std::string> lines_;
};

}  // namespace starling
