#include "agent/run/agreement.h"

#include <algorithm>
#include <array>
#include <limits>

namespace starling {

std::optional<double> distance_to(const MemberMeta& meta, const Projection& own, double own_rms) {
  if (meta.projection.size() != kProjectionBuckets) return std::nullopt;
  Projection theirs;
  std::copy(meta.projection.begin(), meta.projection.end(), theirs.begin());
  return projected_distance(own, theirs) / own_rms;
}

Agreement look_at_agreement(const Membership& membership, const Projection& own, double own_rms,
                            const Counts& counts) {
  Agreement found;
  std::array<double, kProjectionBuckets> sum{};
  std::copy(own.begin(), own.end(), sum.begin());
  size_t known = 1;
  membership.visit_alive([&](const Member& member) {
    const MemberMeta& meta = member.record.meta;
    if (!counts(member) || (!takes_part(meta) && !has_finished(meta))) return;
    ++found.members;
    const std::optional<double> told = distance_to(meta, own, own_rms);
    if (told || answered(member)) {
      found.others.push_back({member.record.id, told.value_or(std::numeric_limits<double>::infinity())});
    }
    if (!told) {
      ++found.unknown;
      found.unknown_name = print_name(member.record);
      return;
    }
    for (size_t b = 0; b < kProjectionBuckets; ++b) sum[b] += static_cast<double>(meta.projection[b]);
    ++known;
    const double distance = *told;
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
