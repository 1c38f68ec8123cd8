// News waiting to be piggybacked on frames: the latest one per subject, each sent a bounded number of times.
#pragma once

#include <compare>
#include <cstdint>
#include <map>

#include "gossip/net/message.h"

namespace starling {

class UpdateQueue {
 public:
  // Urgent news (joined, suspected, refuted, left) goes before status changes.
  void put_alive(const PeerRecord& record, bool urgent);
  void put_suspect(const Suspicion& suspicion);
  void put_left(const PeerRecord& record);
  void erase(const PeerId& subject);
  bool empty() const { return items_.empty(); }
  size_t size() const { return items_.size(); }

  // Adds up to `count_max` entries: the least often sent first, of these the newest; none about `skip`. Drops urgent
  // entries that have been sent `sent_max` times, and others after half of that, as the next status follows soon.
  void fill(Updates& updates, size_t count_max, uint32_t sent_max, const PeerId& skip);

 private:
  enum class Kind : uint8_t { kAlive, kSuspect, kLeft };
  // The smallest rank is sent first.
  struct Rank {
    bool waits = true;
    uint32_t sent_count = 0;
    uint64_t age = 0;  // the newest is least; no two are alike
    auto operator<=>(const Rank&) const = default;
  };
  struct Item {
    Kind kind = Kind::kAlive;
    PeerRecord record;
    Suspicion suspicion;
    Rank rank;
  };
  using Items = std::map<PeerId, Item>;
  void put(const PeerId& subject, Item item);
  Items items_;
  std::map<Rank, Items::iterator> ranking_;  // all of them
  uint64_t next_order_ = 0;
};

}  // namespace starling
