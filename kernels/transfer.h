// Floats of either space: memory for them, and copies of whole models. A copy of a device makes a stream of its own.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/view.h"

namespace starling {

// Both wait until the copy is done. REQUIRES: `host` holds view.count floats; of any alignment when read.
void copy_to_host(ConstView view, float* host);
void copy_from_host(const void* host, View view);

void copy(ConstView from, View to);  // likewise. REQUIRES: as many, each of them wherever it is

// Values to be read in host memory, copied only from a device. What `view` names must stay.
class HostValues {
 public:
  explicit HostValues(ConstView view);
  std::span<const float> all() const { return all_; }

 private:
  std::vector<float> copied_;
  std::span<const float> all_;
};

// Floats of its own for those of `space`; zeros at first. Throws DeviceFailure where there is no room.
class FloatMemory {
 public:
  enum class Place {
    kThere,   // in that space
    kStaging  // in host memory; for a GPU it is pinned, so that its copies run at full speed beside all else
  };
  explicit FloatMemory(MemorySpace space, size_t count = 0, Place place = Place::kThere);
  ~FloatMemory();
  FloatMemory(const FloatMemory&) = delete;
  FloatMemory& operator=(const FloatMemory&) = delete;
  std::span<float> all() const { return {view_.data, view_.count}; }
  View view() const { return view_; }

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
  View view_;
};

// Bytes that nobody has taken yet, of the current device. REQUIRES: a build with CUDA.
size_t free_device_bytes();

// Sum of x[i]^2, in either space.
double squared_norm(ConstView view);

}  // namespace starling
