// The links of a simulated network: their properties, which of them are cut, and how long a frame takes on each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "gossip/clock.h"
#include "gossip/peer.h"

namespace starling {

// The properties of one direction of one link, or of all links without their own options.
struct LinkOptions {
  double loss = 0;                 // probability that a frame is lost
  double duplicate = 0;            // probability that it comes twice
  Duration delay_min{};            // uniform in [delay_min, delay_max]
  Duration delay_max{};
  double bytes_per_s = 0;          // 0 = no limit; frames of one link wait for each other
};

class VirtualLinks {
 public:
  explicit VirtualLinks(const LinkOptions& others) : others_(others) {}

  void set_others(const LinkOptions& options) { others_ = options; }   // of every link without its own
  void set(const Endpoint& from, const Endpoint& to, const LinkOptions& options) { own_[{from, to}] = options; }
  const LinkOptions& at(const Endpoint& from, const Endpoint& to) const;

  void cut(const Endpoint& a, const Endpoint& b) { cut_.insert(std::minmax(a, b)); }   // both directions
  void heal(const Endpoint& a, const Endpoint& b) { cut_.erase(std::minmax(a, b)); }
  void heal_all() { cut_.clear(); }
  bool is_cut(const Endpoint& a, const Endpoint& b) const { return cut_.contains(std::minmax(a, b)); }

  // Occupies the link with that many bytes as soon as it is free; the value is how long they take from `now` on, the
  // wait included. Zero on a link without a rate.
  Duration occupy(const Endpoint& from, const Endpoint& to, size_t byte_count, TimePoint now);

 private:
  using Link = std::pair<Endpoint, Endpoint>;
  LinkOptions others_;
  std::map<Link, LinkOptions> own_;
  std::map<Link, TimePoint> free_;
  std::set<Link> cut_;   // the smaller endpoint first
};

}  // namespace starling
