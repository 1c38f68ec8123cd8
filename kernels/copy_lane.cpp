#include "kernels/copy_lane.h"

#include <algorithm>
#include <vector>

#ifdef STARLING_CUDA
#include "kernels/cuda/copy_lane.h"
#include "kernels/cuda/device.h"
#endif

namespace starling {

struct StagedFloats::Memory {
  std::vector<float> ordinary;
#ifdef STARLING_CUDA
  cuda::Buffer pinned{cuda::BufferKind::kPinnedHost};
#endif
};

StagedFloats::StagedFloats(size_t count, MemorySpace space) : memory_(std::make_unique<Memory>()) {
#ifdef STARLING_CUDA
  if (space == MemorySpace::kCuda && count > 0) {
    all_ = {reinterpret_cast<float*>(memory_->pinned.reserve(count * sizeof(float))), count};
    std::fill(all_.begin(), all_.end(), 0.0f);
    return;
  }
#else
  (void)space;
#endif
  memory_->ordinary.resize(count);
  all_ = memory_->ordinary;
}

StagedFloats::~StagedFloats() = default;

std::unique_ptr<CopyLane> make_copy_lane([[maybe_unused]] void* computes, [[maybe_unused]] size_t tickets) {
#ifdef STARLING_CUDA
  return cuda::make_copy_lane(computes, tickets);
#else
  return nullptr;
#endif
}

}  // namespace starling
