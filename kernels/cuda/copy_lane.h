// Copies on a stream of their own, which waits for the computing one by events: nobody waits for the whole device.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/copy_lane.h"

namespace starling::cuda {

std::unique_ptr<CopyLane> make_copy_lane(void* computes, size_t tickets);  // as starling::make_copy_lane()

}  // namespace starling::cuda
