// SliceMath for vectors on a GPU.
#pragma once

#include <memory>

#include "compression/slice_math.h"

namespace starling {

// Of the current device. Takes the dense codecs, topk, int8 and int4. Throws DeviceFailure where there is no device.
std::unique_ptr<SliceMath> make_cuda_slice_math();

}  // namespace starling
