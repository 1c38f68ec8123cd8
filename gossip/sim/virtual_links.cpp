#include "gossip/sim/virtual_links.h"

#include <algorithm>

namespace starling {

const LinkOptions& VirtualLinks::at(const Endpoint& from, const Endpoint& to) const {
  const auto own = own_.find({from, to});
  return own == own_.end() ? others_ : own->second;
}

Duration VirtualLinks::occupy(const Endpoint& from, const Endpoint& to, size_t byte_count, TimePoint now) {
  const double bytes_per_s = at(from, to).bytes_per_s;
  if (bytes_per_s <= 0) return Duration::zero();
  TimePoint& free = free_[{from, to}];
  free = std::max(free, now) + from_seconds(static_cast<double>(byte_count) / bytes_per_s);
  return free - now;
}

}  // namespace starling
