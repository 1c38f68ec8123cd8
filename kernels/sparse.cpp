#include "kernels/sparse.h"

#include "kernels/sparse_index.h"

namespace starling {

bool indices_ascend_below(const std::byte* indices, size_t count, size_t limit) {
  bool good = true;
  for (size_t j = 1; j < count; ++j) good &= load_index(indices, j - 1) < load_index(indices, j);
  return good && (count == 0 || load_index(indices, count - 1) < limit);
}

size_t indices_below(const std::byte* indices, size_t count, size_t limit) {
  size_t first = 0;
  while (count > 0) {
    const size_t half = count / 2;
    const bool below = load_index(indices, first + half) < limit;
    first = below ? first + half + 1 : first;
    count = below ? count - half - 1 : half;
  }
  return first;
}

void gather(const float* x, const std::byte* indices, size_t count, float* out) {
  for (size_t j = 0; j < count; ++j) out[j] = x[load_index(indices, j)];
}

void scatter(const std::byte* indices, const float* values, size_t count, size_t base, float* out) {
  for (size_t j = 0; j < count; ++j) out[load_index(indices, j) - base] = values[j];
}

void scatter_axpy(float a, const std::byte* indices, const float* values, size_t count, float* y) {
  for (size_t j = 0; j < count; ++j) y[load_index(indices, j)] += a * values[j];
}

}  // namespace starling
