#include "gossip/updates/update_replicas.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gossip/limits.h"
#include "gossip/updates/update_parts.h"
#include "kernels/check.h"
#include "kernels/vector_ops.h"

namespace starling {

std::vector<SliceRange> cut_slices(std::span<const size_t> section_sizes, size_t slices_max) {
  size_t total = 0;
  for (size_t size : section_sizes) total += size;
  const size_t least = std::max(kSliceElementsMin, (total + slices_max - 1) / slices_max);
  std::vector<SliceRange> slices;
  SliceRange run;
  const auto close = [&] {
    slices.push_back(run);
    run = {run.offset + run.count, 0};
  };
  for (size_t size : section_sizes) {
    const size_t of_one_part = std::min<size_t>(size / least, parts_of(size * sizeof(float)));
    const size_t pieces = std::max({size_t{1}, size / (2 * least), of_one_part});
    for (size_t i = 0; i < pieces; ++i) {
      run.count += size / pieces + (i < size % pieces);
      if (run.count >= least) close();
    }
  }
  if (run.count > 0 && !slices.empty()) {
    slices.back().count += run.count;  // too small for a slice
  } else if (run.count > 0) {
    close();
  }
  STARLING_CHECK(slices.size() <= slices_max);
  return slices;
}

UpdateReplicas::UpdateReplicas(const PeerId& self, uint64_t generation, std::span<const SliceRange> slices,
                               const SliceMemory& memory, const OuterRule& rule, const UpdateCodecs& codecs)
    : slices_(slices.begin(), slices.end()), velocity_(codecs.running->velocity()) {
  size_t end = 0;
  for (const SliceRange& slice : slices_) {
    STARLING_CHECK(slice.offset == end && slice.count > 0);
    end += slice.count;
    const auto part = [&](std::span<float> all) { return all.empty() ? all : all.subspan(slice.offset, slice.count); };
    const SliceMemory own{part(memory.params), part(memory.momentum), part(memory.accumulator), part(memory.velocity)};
    replicas_.emplace_back(self, generation, own, rule, codecs);
  }
  STARLING_CHECK(!slices_.empty() && end == memory.params.size());
  drift_taken_.resize(slices_.size());
  kept_up_.resize(slices_.size());
  rest_.resize(slices_.size());
}

void UpdateReplicas::restore(std::span<const SliceState> states) {
  STARLING_CHECK(states.size() == replicas_.size());
  for (size_t i = 0; i < states.size(); ++i) replicas_[i].restore(states[i]);
}

void UpdateReplicas::take(const Backlog& backlog, SliceReplica& replica) {
  if (backlog.adopted) {
    const std::span<const float> values = backlog.adopted->values;
    replica.adopt(backlog.adopted->header, values.first(replica.size()), values.subspan(replica.size()));
  }
  for (const LoggedEntry& entry : backlog.entries) replica.apply(entry);
}

// At what scale the drift of the whole model counts.
float UpdateReplicas::clipped(const BoundaryJob& job) const {
  if (!(velocity_.clip > 0)) return 1;
  double squares = 0;
  for (size_t i = 0; i < replicas_.size(); ++i) {
    const std::span<const float> params = replicas_[i].memory().params;
    squares += squared_distance(params.data(), job.x.data() + slices_[i].offset, params.size());
  }
  const double most = static_cast<double>(velocity_.clip) / std::sqrt(static_cast<double>(job.members));
  const double norm = std::sqrt(squares);
  return std::isfinite(norm) && norm > most ? static_cast<float>(most / norm) : 1;
}

// False: the accumulator is not finite.
bool UpdateReplicas::submit(BoundaryJob& job, size_t slice) {
  SliceReplica& replica = replicas_[slice];
  if (job.tables != nullptr && replica.hands_in_new()) {
    job.own_tables[slice] = replica.table(*job.tables);
    return !job.own_tables[slice].empty();
  }
  job.handed_in[slice] = replica.submit(*job.encoder, job.select);
  return job.handed_in[slice].has_value();
}

void UpdateReplicas::make_x(size_t slice, std::span<float> x) {
  const SliceMemory& memory = replicas_[slice].memory();
  const SliceMath& math = replicas_[slice].math();
  math.copy(memory.params, x.subspan(slices_[slice].offset, slices_[slice].count));
  rest_[slice] = math.squared_norm(memory.accumulator);
}

void UpdateReplicas::keep_up(KeepUpJob& job) {
  STARLING_CHECK(drift_taken_[job.slice]);
  take(job.backlog, replicas_[job.slice]);
  make_x(job.slice, job.x);
  kept_up_[job.slice] = true;
  job.head = replicas_[job.slice].head();
}

// Slice by slice, so that its values stay in the cache.
void UpdateReplicas::run(BoundaryJob& job) {
  STARLING_CHECK(job.backlogs.size() == replicas_.size());
  const float scale = drift_taken_[0] ? 1 : clipped(job);
  job.handed_in.resize(replicas_.size());
  job.own_tables.resize(replicas_.size());
  for (size_t i = 0; i < replicas_.size(); ++i) {
    SliceReplica& replica = replicas_[i];
    const std::span<float> x = job.x.subspan(slices_[i].offset, slices_[i].count);
    if (!drift_taken_[i]) job.sick = !replica.add_drift(x, job.hands_in, scale) || job.sick;
    const bool news = job.backlogs[i].adopted || !job.backlogs[i].entries.empty();
    take(job.backlogs[i], replica);
    if (job.keeps_only_sent) replica.keep_only_sent();
    const bool before = !job.handed_in_before.empty() && job.handed_in_before[i];
    if (!job.sick && job.hands_in && !before) job.sick = !submit(job, i);
    job.heads.push_back(replica.head());
    if (job.makes_x && (!kept_up_[i] || news || job.keeps_only_sent)) make_x(i, job.x);
    if (job.makes_x) job.rest += rest_[i];
  }
  drift_taken_.assign(replicas_.size(), !job.makes_x);
  kept_up_.assign(replicas_.size(), false);
  if (job.hands_in && job.heads[job.audited].length > 0) job.audit = root_of(job.audited, replicas_[job.audited]);
  job.splits = tally();
  if (!job.sick) return;
  job.rest = 0;
  for (SliceReplica& replica : replicas_) replica.drop_own_work();
  job.handed_in.assign(replicas_.size(), std::nullopt);
  job.own_tables.assign(replicas_.size(), {});
}

void UpdateReplicas::run_early(EarlyJob& job) {
  STARLING_CHECK(!(velocity_.clip > 0));  // the drift of the whole model has a norm only when all of it is known
  for (const uint32_t slice : job.slices) {
    SliceReplica& replica = replicas_[slice];
    const SliceRange& range = slices_[slice];
    STARLING_CHECK(!drift_taken_[slice]);
    if (!replica.add_drift(job.x.subspan(range.offset, range.count), true, 1)) return;
    drift_taken_[slice] = true;
    std::optional<SentPayload> payload = replica.submit(*job.encoder, job.select);
    if (!payload) return;
    job.handed_in.push_back(std::move(payload));
    if (slice == job.audited && replica.head().length > 0) job.audit = root_of(slice, replica);
  }
}

void UpdateReplicas::resume_with_residual(std::span<float> x) {
  for (size_t i = 0; i < replicas_.size(); ++i) {
    STARLING_CHECK(!drift_taken_[i]);
    replicas_[i].resume_with_residual(x.subspan(slices_[i].offset, slices_[i].count));
  }
}

ReplicaTally UpdateReplicas::tally() const {
  ReplicaTally sum;
  for (const SliceReplica& replica : replicas_) {
    sum.short_splits += replica.tally().short_splits;
    sum.long_splits += replica.tally().long_splits;
    sum.settled_blind += replica.tally().settled_blind;
    sum.lost_payloads += replica.tally().lost_payloads;
    sum.forged += replica.tally().forged;
  }
  return sum;
}

}  // namespace starling
