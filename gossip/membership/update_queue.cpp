#include "gossip/membership/update_queue.h"

#include <utility>
#include <vector>

namespace starling {

void UpdateQueue::put(const PeerId& subject, Item item) {
  erase(subject);
  item.rank.age = ~next_order_++;
  const auto held = items_.emplace(subject, std::move(item)).first;
  ranking_.emplace(held->second.rank, held);
}

void UpdateQueue::erase(const PeerId& subject) {
  const auto held = items_.find(subject);
  if (held == items_.end()) return;
  ranking_.erase(held->second.rank);
  items_.erase(held);
}

void UpdateQueue::put_alive(const PeerRecord& record, bool urgent) {
  // A status change replaces the waiting record of a join or a refutation, and must keep its urgency.
  const auto held = items_.find(record.id);
  const bool still_urgent = held != items_.end() && !held->second.rank.waits && held->second.kind == Kind::kAlive;
  put(record.id, Item{.kind = Kind::kAlive, .record = record, .rank = {.waits = !urgent && !still_urgent}});
}

void UpdateQueue::put_suspect(const Suspicion& suspicion) {
  put(suspicion.subject, Item{.kind = Kind::kSuspect, .suspicion = suspicion, .rank = {.waits = false}});
}

void UpdateQueue::put_left(const PeerRecord& record) {
  put(record.id, Item{.kind = Kind::kLeft, .record = record, .rank = {.waits = false}});
}

void UpdateQueue::fill(Updates& updates, size_t count_max, uint32_t sent_max, const PeerId& skip) {
  std::vector<Items::iterator> first;
  for (auto ranked = ranking_.begin(); ranked != ranking_.end() && first.size() < count_max;) {
    if (ranked->second->first == skip) {
      ++ranked;
      continue;
    }
    first.push_back(ranked->second);
    ranked = ranking_.erase(ranked);
  }
  for (const Items::iterator& slot : first) {
    Item& item = slot->second;
    switch (item.kind) {
      case Kind::kAlive: updates.alive.push_back(item.record); break;
      case Kind::kSuspect: updates.suspect.push_back(item.suspicion); break;
      case Kind::kLeft: updates.left.push_back(item.record); break;
    }
    if (++item.rank.sent_count >= (item.rank.waits ? (sent_max + 1) / 2 : sent_max)) {
      items_.erase(slot);
    } else {
      ranking_.emplace(item.rank, slot);
    }
  }
}

}  // namespace starling
