#include "agent/share/final_slices.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace starling {

void FinalSlices::begin_step(std::vector<uint32_t> buckets) {
  STARLING_CHECK(buckets.size() == slices_.size());
  const std::lock_guard lock(mutex_);
  buckets_ = std::move(buckets);
  final_elements_.assign(slices_.size(), 0);
  slice_at_.assign(slices_.size(), TimePoint::min());
  left_.assign(buckets_.back() + 1, 0);
  for (const uint32_t bucket : buckets_) ++left_[bucket];
  at_.assign(left_.size(), TimePoint::min());
  ready_.clear();
}

bool FinalSlices::add(const FinalPart& part) {
  const std::lock_guard lock(mutex_);
  bool any = false;
  const size_t end = part.offset + part.count;
  const auto after = [](size_t offset, const SliceRange& slice) { return offset < slice.offset; };
  auto at = std::upper_bound(slices_.begin(), slices_.end(), part.offset, after) - 1;
  for (; at != slices_.end() && at->offset < end; ++at) {
    const auto slice = static_cast<size_t>(at - slices_.begin());
    final_elements_[slice] += std::min(end, at->offset + at->count) - std::max(part.offset, at->offset);
    STARLING_CHECK(final_elements_[slice] <= at->count);  // a part was told twice
    slice_at_[slice] = std::max(slice_at_[slice], part.at);
    TimePoint& bucket_at = at_[buckets_[slice]];
    bucket_at = std::max(bucket_at, part.at);
    if (final_elements_[slice] == at->count && slice_is_final(slice)) any = true;
  }
  return any;
}

// True: so is its bucket.
bool FinalSlices::slice_is_final(size_t slice) {
  const uint32_t bucket = buckets_[slice];
  if (--left_[bucket] > 0) return false;
  const Ready ready{bucket, at_[bucket]};
  const auto later = [](TimePoint time, const Ready& other) { return time < other.at; };
  ready_.insert(std::upper_bound(ready_.begin(), ready_.end(), ready.at, later), ready);
  return true;
}

std::vector<uint32_t> FinalSlices::take(TimePoint now) {
  const std::lock_guard lock(mutex_);
  std::vector<uint32_t> taken;
  while (!ready_.empty() && ready_.front().at <= now) {
    for (auto slice = static_cast<uint32_t>(slices_.size()); slice-- > 0;) {
      if (buckets_[slice] == ready_.front().bucket) taken.push_back(slice);
    }
    ready_.erase(ready_.begin());
  }
  return taken;
}

std::vector<TimePoint> FinalSlices::final_at() const {
  const std::lock_guard lock(mutex_);
  std::vector<TimePoint> at = slice_at_;
  for (size_t slice = 0; slice < at.size(); ++slice) {
    if (final_elements_[slice] < slices_[slice].count) at[slice] = TimePoint::min();
  }
  return at;
}

TimePoint FinalSlices::next() const {
  const std::lock_guard lock(mutex_);
  return ready_.empty() ? TimePoint::max() : ready_.front().at;
}

}  // namespace starling
