#include "gossip/pairs/late_arrivals.h"

#include <algorithm>

namespace starling {

void LateArrivals::ended(const ProposedExchange& exchange, TimePoint now) {
  if (now < exchange.deadline_at) return deadline_.arrived(now - exchange.started_at);
  if (late_.size() >= kLateMax) late_.erase(late_.begin());
  late_.push_back({exchange.xid, exchange.peer, exchange.started_at, exchange.deadline_at + exchange.deadline,
                   exchange.deadline, exchange.last_arrival});
}

void LateArrivals::arrived(const ExchangeId& xid, const PeerId& from, TimePoint now) {
  for (Late& entry : late_) {
    if (entry.xid == xid && entry.peer == from) entry.last_arrival = now;
  }
}

void LateArrivals::forget(const PeerId& peer) {
  std::erase_if(late_, [&](const Late& entry) { return entry.peer == peer; });
}

void LateArrivals::tick(TimePoint now) {
  std::erase_if(late_, [&](const Late& entry) {
    if (entry.expires_at > now) return false;
    if (entry.last_arrival) {
      deadline_.arrived(*entry.last_arrival - entry.started_at);
    } else {
      deadline_.missed(entry.deadline);
    }
    return true;
  });
}

TimePoint LateArrivals::next_deadline() const {
  TimePoint next = TimePoint::max();
  for (const Late& entry : late_) next = std::min(next, entry.expires_at);
  return next;
}

}  // namespace starling
