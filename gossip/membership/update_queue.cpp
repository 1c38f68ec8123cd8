#include "gossip/membership/update_queue.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

namespace starling {

void UpdateQueue::put(const PeerId& subject, Item item) {
  item.order = next_order_++;
  items_[subject] = std::move(item);
}

void UpdateQueue::put_alive(const PeerRecord& record, bool urgent) {
  // A status change must not take the urgency from the join or the refutation that is still on its way.
  const auto held = items_.find(record.id);
  const bool still_urgent = held != items_.end() && held->second.urgent && held->second.kind == Kind::kAlive;
  put(record.id, Item{.kind = Kind::kAlive, .record = record, .urgent = urgent || still_urgent});
}

void UpdateQueue::put_suspect(const Suspicion& suspicion) {
  put(suspicion.subject, Item{.kind = Kind::kSuspect, .suspicion = suspicion, .urgent = true});
}

void UpdateQueue::put_left(const PeerRecord& record) {
  put(record.id, Item{.kind = Kind::kLeft, .record = record, .urgent = true});
}

void UpdateQueue::fill(Updates& updates, size_t count_max, uint32_t sent_max, const PeerId& skip) {
  using Slot = std::pair<const PeerId, Item>;
  std::vector<Slot*> ready;
  ready.reserve(items_.size());
  for (Slot& slot : items_) {
    if (slot.first != skip) ready.push_back(&slot);
  }
  const size_t count = std::min(count_max, ready.size());
  std::partial_sort(ready.begin(), ready.begin() + static_cast<std::ptrdiff_t>(count), ready.end(),
                    [](const Slot* a, const Slot* b) {
                      return std::tuple(!a->second.urgent, a->second.sent_count, b->second.order) <
                             std::tuple(!b->second.urgent, b->second.sent_count, a->second.order);
                    });
  for (size_t i = 0; i < count; ++i) {
    Item& item = ready[i]->second;
    switch (item.kind) {
      case Kind::kAlive: updates.alive.push_back(item.record); break;
      case Kind::kSuspect: updates.suspect.push_back(item.suspicion); break;
      case Kind::kLeft: updates.left.push_back(item.record); break;
    }
    if (++item.sent_count >= sent_max) items_.erase(PeerId(ready[i]->first));
  }
}

}  // namespace starling
