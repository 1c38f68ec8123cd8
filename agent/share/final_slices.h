// Which slices of the params are final while a step's backward still goes on. The trainer tells of parts, from a thread
// of its own; the control thread takes slices.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "agent/train/trainer.h"
#include "gossip/clock.h"
#include "gossip/exchange/update_replicas.h"

namespace starling {

class FinalSlices {
 public:
  explicit FinalSlices(std::span<const SliceRange> slices) : slices_(slices.begin(), slices.end()) {}

  void begin_step();                        // while the trainer is idle
  void add(const FinalPart& part);          // from any thread

  // Those all of whose elements are final, in the order in which they became so. Each is taken once a step.
  std::vector<uint32_t> take(TimePoint now);
  // When take() has more, if parts that were told of become final later; TimePoint::max(): not known.
  TimePoint next() const;
  const float* params() const;              // of the step's end, as its parts said. REQUIRES: take() returned some

 private:
  struct Ready {
    uint32_t slice;
    TimePoint at;
  };
  const std::vector<SliceRange> slices_;
  mutable std::mutex mutex_;                // guards all below
  std::vector<size_t> final_elements_;      // by slice
  std::vector<TimePoint> at_;               // by slice: the latest of its parts
  std::vector<Ready> ready_;                // not taken yet, by time
  const float* params_ = nullptr;
};

}  // namespace starling
