// A simulated network: frames between virtual transports, with loss, doubling, delay and therefore reordering, on a
// clock that moves only when told. Frames are the same encoded bytes as on a real network and obey the same
// limits. The same rng seed and the same calls give the same run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "gossip/clock.h"
#include "gossip/net/message.h"
#include "gossip/net/transport.h"
#include "gossip/rng.h"

namespace starling {

class VirtualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void advance_to(TimePoint time);   // REQUIRES: not before now()
  void advance(Duration duration) { advance_to(now_ + duration); }

 private:
  TimePoint now_{std::chrono::hours(1)};   // so that "long ago" can be represented
};

// The properties of one direction of one link, or of all links without their own options.
struct LinkOptions {
  double loss = 0;                 // probability that a frame is lost
  double duplicate = 0;            // probability that it comes twice
  Duration delay_min{};            // uniform in [delay_min, delay_max]
  Duration delay_max{};
  double bytes_per_s = 0;          // 0 = no limit; frames of one link wait for each other
};

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

  // A transport bound there; the network outlives it. REQUIRES: the address is free.
  std::unique_ptr<Transport> open(const Endpoint& endpoint);

  void set_default_links(const LinkOptions& links) { links_ = links; }
  void set_link(const Endpoint& from, const Endpoint& to, const LinkOptions& options);
  // Sees every frame that decodes, before the link loses or delays it; what it changes is encoded anew, with checksums
  // that fit. Null: none.
  void set_filter(Filter filter) { filter_ = std::move(filter); }
  void cut(const Endpoint& a, const Endpoint& b);      // both directions, until heal
  void heal(const Endpoint& a, const Endpoint& b);
  void heal_all() { cut_.clear(); }
  void kill(const Endpoint& endpoint);                 // its transport is dead; what is on its way to it is lost

  void lose_all() { in_flight_.clear(); }              // all that is on its way

  TimePoint next_event_time() const;                   // max: nothing is on its way
  void deliver_due();                                  // what has arrived by now
  size_t payload_bytes_in_flight() const;
  uint64_t digest() const { return digest_; }          // of all frames delivered, in order
  uint64_t delivered() const { return delivered_; }

 private:
  class Port;
  struct Flight {
    Endpoint from, to;
    ReceivedFrame frame;
  };
  using Order = std::pair<TimePoint, uint64_t>;        // time, then the order of sending
  void send(const Endpoint& from, const Endpoint& to, Channel channel, Frame frame);
  std::vector<Duration> filter(const Endpoint& from, const Endpoint& to, ReceivedFrame* frame);
  void put(const Endpoint& from, const Endpoint& to, Duration delay, const ReceivedFrame& frame);
  const LinkOptions& link(const Endpoint& from, const Endpoint& to) const;
  bool is_cut(const Endpoint& a, const Endpoint& b) const;

  VirtualClock& clock_;
  Rng rng_;
  LinkOptions links_;
  Filter filter_;
  std::map<std::pair<Endpoint, Endpoint>, LinkOptions> special_links_;
  std::map<std::pair<Endpoint, Endpoint>, TimePoint> link_free_;
  std::set<std::pair<Endpoint, Endpoint>> cut_;
  std::map<Endpoint, Port*> ports_;
  std::map<Order, Flight> in_flight_;
  uint64_t sequence_ = 0, digest_ = 0, delivered_ = 0;
};

}  // namespace starling
