// How long the exchanges that this agent begins take.
#pragma once

#include <optional>
#include <vector>

#include "gossip/exchange/deadline.h"
#include "gossip/pairs/pair_exchange.h"

namespace starling {

// Keeps the deadline of the exchanges that this agent begins. An exchange that timed out is watched for a while: its
// late arrivals show how long the deadline should have been.
class LateArrivals {
 public:
  LateArrivals(Duration deadline_min, Duration deadline_max) : deadline_(deadline_min, deadline_max) {}

  const AdaptiveDeadline& deadline() const { return deadline_; }
  void ended(const ProposedExchange& exchange, TimePoint now);     // decided, or timed out
  void too_slow(Duration longest) { deadline_.arrived(longest); }  // it would have taken longer still
  void arrived(const ExchangeId& xid, const PeerId& from, TimePoint now);
  void forget(const PeerId& peer);
  void tick(TimePoint now);
  TimePoint next_deadline() const;

 private:
  static constexpr size_t kLateMax = 64;

  struct Late {
    ExchangeId xid;
    PeerId peer;
    TimePoint started_at, expires_at;
    Duration deadline{};
    std::optional<TimePoint> last_arrival;
  };
  AdaptiveDeadline deadline_;
  std::vector<Late> late_;
};

}  // namespace starling
