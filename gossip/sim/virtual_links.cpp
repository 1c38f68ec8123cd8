#include "gossip/sim/virtual_links.h"

#include <algorithm>

namespace starling {

const LinkOptions& VirtualLinks::at(const Endpoint& from, const Endpoint& to) const {
  const auto own = own_.find({from, to});
  return own == own_.end() ? others_ : own->second;
}

TimePoint NodeLane::occupy(Channel channel, Duration length, TimePoint now) {
  TimePoint& free = channel == Channel::kControl ? control_free_ : free_;
  const TimePoint begin = std::max(free, now);
  free = begin + length;
  if (channel == Channel::kControl) free_ = std::max(free_, now) + length;
  return begin;
}

}  // namespace starling
