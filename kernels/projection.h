// A few numbers of a long vector that tell how far it is from another: random projections (Johnson, Lindenstrauss 1984)
// in the sparse form of feature hashing (Weinberger et al. 2009, "Feature hashing for large scale multitask learning").
// Each element counts in one bucket, with a sign drawn by a hash of its place, divided by sqrt(count). The squared
// distance of two projections is in the mean the mean squared difference of the vectors. For a difference spread over
// many elements, estimate / true lies below .6 once in a hundred and above 1.5 once in a thousand. A difference in two
// elements alone is missed once in 32.
#pragma once

#include <array>
#include <cstddef>

#include "kernels/view.h"

namespace starling {

inline constexpr size_t kProjectionBuckets = 16;
using Projection = std::array<float, kProjectionBuckets>;

// In either space. A NaN or an infinity in x stays visible. Zeros for no elements.
Projection project(ConstView x);

// sqrt of the sum of squared differences.
double projected_distance(const Projection& a, const Projection& b);

}  // namespace starling
