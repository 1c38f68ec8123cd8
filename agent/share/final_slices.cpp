#include "agent/share/final_slices.h"

#include <algorithm>

#include "kernels/check.h"

namespace starling {

void FinalSlices::begin_step() {
  const std::lock_guard lock(mutex_);
  final_elements_.assign(slices_.size(), 0);
  at_.assign(slices_.size(), TimePoint::min());
  ready_.clear();
  params_ = nullptr;
}

void FinalSlices::add(const FinalPart& part) {
  const std::lock_guard lock(mutex_);
  params_ = part.params;
  const size_t end = part.offset + part.count;
  const auto after = [](size_t offset, const SliceRange& slice) { return offset < slice.offset; };
  auto at = std::upper_bound(slices_.begin(), slices_.end(), part.offset, after) - 1;
  for (; at != slices_.end() && at->offset < end; ++at) {
    const auto slice = static_cast<size_t>(at - slices_.begin());
    final_elements_[slice] += std::min(end, at->offset + at->count) - std::max(part.offset, at->offset);
    STARLING_CHECK(final_elements_[slice] <= at->count);   // a part was told twice
    at_[slice] = std::max(at_[slice], part.at);
    if (final_elements_[slice] < at->count) continue;
    const Ready ready{static_cast<uint32_t>(slice), at_[slice]};
    const auto later = [](TimePoint time, const Ready& other) { return time < other.at; };
    ready_.insert(std::upper_bound(ready_.begin(), ready_.end(), ready.at, later), ready);
  }
}

std::vector<uint32_t> FinalSlices::take(TimePoint now) {
  const std::lock_guard lock(mutex_);
  std::vector<uint32_t> taken;
  for (const Ready& ready : ready_) {
    if (ready.at <= now) taken.push_back(ready.slice);
  }
  ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(taken.size()));
  return taken;
}

TimePoint FinalSlices::next() const {
  const std::lock_guard lock(mutex_);
  return ready_.empty() ? TimePoint::max() : ready_.front().at;
}

const float* FinalSlices::params() const {
  const std::lock_guard lock(mutex_);
  STARLING_CHECK(params_ != nullptr);
  return params_;
}

}  // namespace starling
