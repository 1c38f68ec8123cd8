#include "agent/run/agreement.h"

#include <algorithm>
#include <array>
#include <limits>

namespace starling {

namespace {

std::optional<Projection> projection_of(const MemberMeta& meta) {
  if (meta.projection.size() != kProjectionBuckets) return std::nullopt;
  Projection theirs;
  std::copy(meta.projection.begin(), meta.projection.end(), theirs.begin());
  return theirs;
}

bool has_a_model_that_counts(const Member& member, const Counts& counts) {
  const MemberMeta& meta = member.record.meta;
  return counts(member) && (takes_part(meta) || has_finished(meta));
}

// `members`: those that count besides the others. Nullopt as well where one that most agree with is within `far` of
// the own model.
std::optional<OthersModel> model_of(const Membership& membership, const Projection& own, double near, double far,
                                    const Counts& counts, size_t members) {
  std::vector<Projection> models;
  membership.visit_alive([&](const Member& member) {
    if (!has_a_model_that_counts(member, counts)) return;
    ++members;
    if (const auto told = projection_of(member.record.meta)) models.push_back(*told);
  });
  std::optional<OthersModel> found;
  for (const Projection& one : models) {
    const auto agree = std::count_if(models.begin(), models.end(),
                                     [&](const Projection& other) { return projected_distance(one, other) <= near; });
    if (2 * static_cast<size_t>(agree) <= members) continue;
    if (projected_distance(one, own) <= far) return std::nullopt;
    if (!found) found = OthersModel{one, own, near};
  }
  return found;
}

}  // namespace

std::optional<double> distance_to(const MemberMeta& meta, const Projection& own, double own_rms) {
  const std::optional<Projection> theirs = projection_of(meta);
  if (!theirs) return std::nullopt;
  return projected_distance(own, *theirs) / own_rms;
}

std::optional<OthersModel> model_of_most(const Membership& membership, const Projection& own, double near, double far,
                                         const Counts& counts) {
  auto found = model_of(membership, own, near, far, counts, 1);
  if (found) found->within = found->apart() / 2;
  return found;
}

std::optional<OthersModel> model_of_others(const Membership& membership, const Projection& own, double near,
                                           const Counts& counts) {
  return model_of(membership, own, near, -1, counts, 0);
}

Agreement look_at_agreement(const Membership& membership, const Projection& own, double own_rms, const Counts& counts) {
  Agreement found;
  std::array<double, kProjectionBuckets> sum{};
  std::copy(own.begin(), own.end(), sum.begin());
  found.others.reserve(membership.alive_count());
  size_t known = 1;
  const PeerRecord *unknown = nullptr, *farthest = nullptr;
  membership.visit_alive([&](const Member& member) {
    const MemberMeta& meta = member.record.meta;
    if (!has_a_model_that_counts(member, counts)) return;
    ++found.members;
    const std::optional<double> told = distance_to(meta, own, own_rms);
    if (told || answered(member)) {
      found.others.push_back({member.record.id, told.value_or(std::numeric_limits<double>::infinity())});
    }
    if (!told) {
      ++found.unknown;
      unknown = &member.record;
      return;
    }
    for (size_t b = 0; b < kProjectionBuckets; ++b) sum[b] += static_cast<double>(meta.projection[b]);
    ++known;
    const double distance = *told;
    if (found.farthest && distance <= *found.farthest) return;
    found.farthest = distance;
    farthest = &member.record;
  });
  if (unknown != nullptr) found.unknown_name = print_name(*unknown);
  if (farthest != nullptr) found.farthest_name = print_name(*farthest);
  if (known == 1) return found;
  Projection mean;
  for (size_t b = 0; b < kProjectionBuckets; ++b) mean[b] = static_cast<float>(sum[b] / static_cast<double>(known));
  found.to_mean = projected_distance(own, mean) / own_rms;
  return found;
}

}  // namespace starling
