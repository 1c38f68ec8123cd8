#include "kernels/copy_lane.h"

#ifdef STARLING_CUDA
#include "kernels/cuda/copy_lane.h"
#endif

namespace starling {

std::unique_ptr<CopyLane> make_copy_lane([[maybe_unused]] void* computes, [[maybe_unused]] size_t tickets) {
#ifdef STARLING_CUDA
  return cuda::make_copy_lane(computes, tickets);
#else
  return nullptr;
#endif
}

}  // namespace starling
