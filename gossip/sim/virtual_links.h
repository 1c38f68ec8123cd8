// The links of a simulated network: their properties, which of them are cut, and how long a node's connection to it is
// busy with its frames.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "gossip/clock.h"
#include "gossip/net/transport.h"
#include "gossip/peer.h"

namespace starling {

// The properties of one direction of one link, or of all links without their own options.
struct LinkOptions {
  double loss = 0;       // probability that a frame is lost
  double duplicate = 0;  // probability that it comes twice
  Duration delay_min{};  // uniform in [delay_min, delay_max]
  Duration delay_max{};
};

// One direction of a node's connection to the network, its uplink or its downlink: it carries one frame after the
// other.
// Control frames do not wait for bulk ones: they are small and have a TCP connection of their own. Bulk ones wait for
// both.
class NodeLane {
 public:
  // Busy for so long with a frame, as soon as such a frame finds the lane free. The value is when that begins.
  TimePoint occupy(Channel channel, Duration length, TimePoint now);

 private:
  TimePoint control_free_{}, free_{};
};

class VirtualLinks {
 public:
  explicit VirtualLinks(const LinkOptions& others) : others_(others) {}

  void set_others(const LinkOptions& options) { others_ = options; }  // of every link without its own
  void set(const Endpoint& from, const Endpoint& to, const LinkOptions& options) { own_[{from, to}] = options; }
  const LinkOptions& at(const Endpoint& from, const Endpoint& to) const;

  void cut(const Endpoint& a, const Endpoint& b) { cut_.insert(std::minmax(a, b)); }  // both directions
  void heal(const Endpoint& a, const Endpoint& b) { cut_.erase(std::minmax(a, b)); }
  void heal_all() { cut_.clear(); }
  bool is_cut(const Endpoint& a, const Endpoint& b) const { return cut_.contains(std::minmax(a, b)); }

 private:
  using Link = std::pair<Endpoint, Endpoint>;
  LinkOptions others_;
  std::map<Link, LinkOptions> own_;
  std::set<Link> cut_;  // the smaller endpoint first
};

}  // namespace starling
