// A borrowed run of floats and where it lives. Never owns; the pointer is a device pointer in kCuda.
#pragma once

#include <cstddef>

namespace starling {

enum class MemorySpace { kHost, kCuda };

struct ConstView {
  const float* data = nullptr;
  size_t count = 0;
  MemorySpace space = MemorySpace::kHost;
};

struct View {
  float* data = nullptr;
  size_t count = 0;
  MemorySpace space = MemorySpace::kHost;

  operator ConstView() const { return {data, count, space}; }
  View part(size_t offset, size_t part_count) const { return {data + offset, part_count, space}; }
};

}  // namespace starling
