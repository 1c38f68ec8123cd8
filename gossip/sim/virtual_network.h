// A simulated network: frames between virtual transports, with loss, doubling, delay and therefore reordering, and with
// a rate of each node, on a clock that moves only when told. Frames are the same encoded bytes as on a real network and
// obey the same limits. The same rng seed and the same calls give the same run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "gossip/net/message.h"
#include "gossip/net/transport.h"
#include "gossip/rng.h"
#include "gossip/sim/virtual_clock.h"
#include "gossip/sim/virtual_links.h"

namespace starling {

// A frame that was just sent, decoded, for a filter to judge or to change.
struct PassingFrame {
  Endpoint from, to;
  FrameHeader header;
  Message message;
  SharedBytes payload;
  // One copy of the frame arrives for each entry, that much later than by the link alone. Empty: it is lost.
  std::vector<Duration> copies{Duration::zero()};
};

class VirtualNetwork {
 public:
  using Filter = std::function<void(PassingFrame&)>;

  VirtualNetwork(VirtualClock& clock, uint64_t rng_seed, const LinkOptions& links);
  ~VirtualNetwork();

  // A transport bound there; the network outlives it. `on_arrival`: called for each frame that reaches it; may be null.
  // REQUIRES: the address is free.
  std::unique_ptr<Transport> open(const Endpoint& endpoint, std::function<void()> on_arrival = nullptr);

  void set_default_links(const LinkOptions& links) { links_.set_others(links); }
  void set_link(const Endpoint& from, const Endpoint& to, const LinkOptions& options) { links_.set(from, to, options); }
  // Of every node's uplink and of its downlink, for all frames together; 0: no limit. A frame is received while it is
  // sent: alone on both it takes its delay and its bytes once. A lost one was sent, but never received.
  void set_node_rate(double bytes_per_s) { node_bytes_per_s_ = bytes_per_s; }
  // Of one node's uplink alone.
  void set_uplink_rate(const Endpoint& node, double bytes_per_s) { uplink_bytes_per_s_[node] = bytes_per_s; }
  // Sees every frame that decodes, before the link loses or delays it; what it changes is encoded anew, with checksums
  // that fit. Null: none.
  void set_filter(Filter filter) { filter_ = std::move(filter); }
  void cut(const Endpoint& a, const Endpoint& b) { links_.cut(a, b); }  // both directions, until heal
  void heal(const Endpoint& a, const Endpoint& b) { links_.heal(a, b); }
  void heal_all() { links_.heal_all(); }
  void kill(const Endpoint& endpoint);  // its transport is dead; what is on its way to it is lost

  void lose_all() { in_flight_.clear(); }  // all that is on its way

  TimePoint next_event_time() const;  // max: nothing is on its way
  void deliver_due();                 // what has arrived by now
  size_t payload_bytes_in_flight() const;
  uint64_t digest() const { return digest_; }  // of all frames delivered, in order
  uint64_t delivered() const { return delivered_; }

 private:
  class Port;
  struct Flight {
    Endpoint from, to;
    ReceivedFrame frame;
    bool reached_downlink = false;  // else its first byte is on the way there
  };
  using Order = std::pair<TimePoint, uint64_t>;  // time, then the order of sending
  void send(const Endpoint& from, const Endpoint& to, Channel channel, Frame frame);
  std::vector<Duration> filter(const Endpoint& from, const Endpoint& to, ReceivedFrame* frame);
  double uplink_rate(const Endpoint& node) const;
  // The value is when the frame's first byte leaves the uplink; of a slower one than the downlinks, so much later that
  // the last byte comes in time.
  TimePoint leave(const Endpoint& from, const ReceivedFrame& frame);

  VirtualClock& clock_;
  Rng rng_;
  VirtualLinks links_;
  Filter filter_;
  double node_bytes_per_s_ = 0;
  std::map<Endpoint, double> uplink_bytes_per_s_;  // of those that have another one than the rest
  std::map<Endpoint, NodeLane> uplinks_, downlinks_;
  std::map<Endpoint, Port*> ports_;
  std::map<Order, Flight> in_flight_;
  uint64_t sequence_ = 0, digest_ = 0, delivered_ = 0;
};

}  // namespace starling
