// News waiting to ride on frames: at most one per subject, the latest; each passed on a bounded number of
// times.
#pragma once

#include <compare>
#include <cstdint>
#include <map>

#include "gossip/net/message.h"

namespace starling {

class UpdateQueue {
 public:
  // Urgent: who joined, is suspected, refutes or left. The rest (status changes) waits behind.
  void put_alive(const PeerRecord& record, bool urgent);
  void put_suspect(const Suspicion& suspicion);
  void put_left(const PeerRecord& record);
  void erase(const PeerId& subject);
  bool empty() const { return items_.empty(); }
  size_t size() const { return items_.size(); }

  // Adds up to `count_max` entries, the least sent and the newest first, never about `skip`, and drops those
  // that have now been sent `sent_max` times.
  void fill(Updates& updates, size_t count_max, uint32_t sent_max, const PeerId& skip);

 private:
  enum class Kind : uint8_t { kAlive, kSuspect, kLeft };
  // What goes first is least.
  struct Rank {
    bool waits = true;
    uint32_t sent_count = 0;
    uint64_t age = 0;                // the newest is least; no two are alike
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
  std::map<Rank, Items::iterator> ranking_;   // all of them
  uint64_t next_order_ = 0;
};

}  // namespace starling
