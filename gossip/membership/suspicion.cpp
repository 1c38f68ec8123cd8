#include "gossip/membership/suspicion.h"

#include <algorithm>
#include <cmath>

namespace starling {

uint32_t confirmations_wanted(double suspicion, size_t member_count) {
  const double wanted = std::max(0.0, std::floor(suspicion) - 2);
  if (static_cast<double>(member_count) - 2 < wanted) return 0;
  return static_cast<uint32_t>(wanted);
}

Duration suspicion_timeout(double suspicion, Duration probe_interval, size_t member_count, uint32_t confirmations) {
  const double count = static_cast<double>(std::max<size_t>(member_count, 1));
  const double min_s = suspicion * std::max(1.0, std::log10(count)) * seconds(probe_interval);
  const uint32_t wanted = confirmations_wanted(suspicion, member_count);
  if (wanted == 0) return from_seconds(min_s);
  const double max_s = 6 * min_s;
  const double part = std::log(confirmations + 1.0) / std::log(wanted + 1.0);
  return from_seconds(std::max(min_s, max_s - (max_s - min_s) * part));
}

uint32_t retransmit_count(size_t member_count) {
  return 4 * static_cast<uint32_t>(std::ceil(std::log10(static_cast<double>(member_count) + 1)));
}

}  // namespace starling
