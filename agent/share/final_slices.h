// Which slices of the params are final while a step's backward still goes on. The trainer tells of parts, from a thread
// of its own; the control thread takes slices, bucket by bucket.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "agent/train/trainer.h"
#include "gossip/clock.h"
#include "gossip/updates/update_replicas.h"

namespace starling {

class FinalSlices {
 public:
  explicit FinalSlices(std::span<const SliceRange> slices) : slices_(slices.begin(), slices.end()) {}

  // While the trainer is idle. `buckets`: of the slices, ascending from 0; those of one are taken together.
  void begin_step(std::vector<uint32_t> buckets);
  // From any thread. Whether take() has something to return that it had not before, now or later.
  bool add(const FinalPart& part);

  // Those of buckets with final elements only, in the order in which buckets became so; of one bucket the last
  // slice first. Each is taken once a step.
  std::vector<uint32_t> take(TimePoint now);
  // When take() has more, if parts that were told of become final later; TimePoint::max(): not known.
  TimePoint next() const;
  // When backward ended with each slice in this step, as its parts said; TimePoint::min(): not with all of it.
  std::vector<TimePoint> final_at() const;

 private:
  struct Ready {
    uint32_t bucket;
    TimePoint at;
  };
  bool slice_is_final(size_t slice);
  const std::vector<SliceRange> slices_;
  mutable std::mutex mutex_;            // guards all below
  std::vector<uint32_t> buckets_;       // by slice
  std::vector<size_t> final_elements_;  // by slice
  std::vector<TimePoint> slice_at_;     // by slice: the latest of its parts
  std::vector<size_t> left_;            // by bucket: slices that are not final
  std::vector<TimePoint> at_;           // by bucket: the latest of its parts
  std::vector<Ready> ready_;            // not taken yet, by time
};

}  // namespace starling
