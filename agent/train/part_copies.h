// Tells of final parts with params on a device: each is copied to host memory beside the rest of the step, and is
// told of once it has landed there.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/train/trainer.h"
#include "gossip/clock.h"
#include "kernels/copy_lane.h"
#include "kernels/transfer.h"

namespace starling {

class PartCopies {
 public:
  // `lane`: with a ticket for each of `parts`, for params in `space`. `wake` wakes the trainer's owner. The clock
  // outlives the object. Throws DeviceFailure.
  PartCopies(std::unique_ptr<CopyLane> lane, size_t parts, MemorySpace space, const Clock& clock,
             std::function<void()> wake);

  // A step: begin_step(); copy() and tell_landed() in any order; end_step(). From any thread, one call at a time. None
  // throws what a copy does: then nothing of this step or a later one is told any more.
  void begin_step(const LocalSteps& steps);  // which stay in place until end_step(). REQUIRES: steps.landing
  // Part `index`, from element `offset` on. `params` are as the step leaves them once the device has done all that it
  // was asked so far, and stay so until end_step(). `bad`: one float of the device; the part is told of if that is 0.
  void copy(size_t index, size_t offset, ConstView params, ConstView bad);
  void tell_landed();
  void end_step();  // tells of the rest as it lands; then nothing is under way
  // Ends telling for good, when nothing is under way any more. The first reason stays.
  void stop(const std::string& why);
  const std::string& stopped_because() const { return stopped_because_; }  // empty: it tells

 private:
  struct Part { size_t index, offset, count; };
  bool attempt(const std::function<void()>& what);
  bool tell();

  std::unique_ptr<CopyLane> lane_;  // null: stopped
  const Clock& clock_;
  const std::function<void()> wake_;
  FloatMemory bad_;                    // by part
  const LocalSteps* steps_ = nullptr;  // null: between steps
  std::vector<Part> under_way_;        // of this step, in the order in which they were begun
  std::string stopped_because_;
};

}  // namespace starling
