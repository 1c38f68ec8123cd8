// Params in and out of wherever they live, for checkpoints, hashes and fetched models. Not for hot paths.
#pragma once

#include "kernels/view.h"

namespace starling {

// Both wait until the copy is done. REQUIRES: `host` holds view.count floats; of any alignment when read.
void copy_to_host(ConstView view, float* host);
void copy_from_host(const void* host, View view);

// Sum of x[i]^2, in either space.
double squared_norm(ConstView view);

}  // namespace starling
