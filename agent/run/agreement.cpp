#include "agent/run/agreement.h"

#include <algorithm>
#include <array>

#include "agent/run/swarm_clock.h"

namespace starling {

Agreement look_at_agreement(const Membership& membership, const Projection& own, double own_rms) {
  Agreement found;
  std::array<double, kProjectionBuckets> sum{};
  std::copy(own.begin(), own.end(), sum.begin());
  size_t known = 1;
  membership.visit_alive([&](const Member& member) {
    const MemberMeta& meta = member.record.meta;
    if (!takes_part(meta) && !has_finished(meta)) return;
    ++found.members;
    if (meta.projection.size() != kProjectionBuckets) {
      ++found.unknown;
      found.unknown_name = print_name(member.record);
      return;
    }
    Projection theirs;
    std::copy(meta.projection.begin(), meta.projection.end(), theirs.begin());
    for (size_t b = 0; b < kProjectionBuckets; ++b) sum[b] += static_cast<double>(theirs[b]);
    ++known;
    const double distance = projected_distance(own, theirs) / own_rms;
    found.distances.push_back(distance);
    if (found.farthest && distance <= *found.farthest) return;
    found.farthest = distance;
    found.farthest_name = print_name(member.record);
  });
  if (known == 1) return found;
  Projection mean;
  for (size_t b = 0; b < kProjectionBuckets; ++b) mean[b] = static_cast<float>(sum[b] / static_cast<double>(known));
  found.to_mean = projected_distance(own, mean) / own_rms;
  return found;
}

}  // namespace starling
