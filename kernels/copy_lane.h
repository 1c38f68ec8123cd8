// Copies from a device to host memory beside what the device computes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "kernels/view.h"

namespace starling {

struct CopyPiece {
  float* host;     // room for as many, FloatMemory::Place::kStaging
  ConstView from;  // on the device
};

// Of several copies, each with a ticket. Calls come from any thread, one at a time. Any of them throws DeviceFailure if
// the device fails.
class CopyLane {
 public:
  virtual ~CopyLane() = default;  // waits for what is under way

  // Copies what the pieces hold once the device has done all that it was asked to compute before; returns at once.
  // Until the copy has landed nobody writes the pieces or touches the host memory. REQUIRES: no copy of this ticket is
  // under way.
  virtual void begin(size_t ticket, std::span<const CopyPiece> pieces) = 0;
  // Of a copy that was begun: whether the host memory holds it.
  [[nodiscard]] virtual bool landed(size_t ticket) = 0;
  virtual void wait(size_t ticket) = 0;  // until it has landed; nothing else has to end for that
};

// With tickets from 0 to tickets - 1. `computes`: the stream, of the current device, on which is computed what is
// copied. Null in a build without CUDA.
std::unique_ptr<CopyLane> make_copy_lane(void* computes, size_t tickets);

}  // namespace starling
