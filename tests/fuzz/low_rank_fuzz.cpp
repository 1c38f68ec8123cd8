// The two halves of a matrix from a stranger. Three bytes in front choose its rows, columns and rank; the rest are the
// halves, of whatever size the stranger took. What passes moves both ends by the same finite steps, as far as its
// second half says at most.
#include <algorithm>
#include <cmath>
#include <vector>

#include "compression/low_rank.h"
#include "kernels/check.h"
#include "tests/fuzz/targets.h"

namespace starling {

void fuzz_low_rank(std::span<const std::byte> input) {
  if (input.size() < 4) return;
  const auto byte = [&](size_t i) { return std::to_integer<size_t>(input[i]); };
  const LowRank matrix({1 + byte(0) % 20, 1 + byte(1) % 20, 1 + byte(2) % 4});
  const Bytes halves = input.subspan(4);
  const Bytes first = halves.first(std::min(halves.size(), matrix.first_bytes() + byte(3) % 3));
  const Bytes second = halves.subspan(first.size());
  const bool passes = matrix.check_first(first) == PayloadStatus::kOk;
  if (!passes || matrix.check_second(second) != PayloadStatus::kOk) return;
  std::vector<float> x(matrix.element_count());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  std::vector<std::byte> own(matrix.first_bytes() + matrix.second_bytes());
  matrix.write_first(x.data(), byte(3), MutableBytes(own).first(matrix.first_bytes()));
  matrix.write_second(x.data(), Bytes(own).first(matrix.first_bytes()), first,
                      MutableBytes(own).subspan(matrix.first_bytes()));
  const Bytes own_second = Bytes(own).subspan(matrix.first_bytes());
  STARLING_CHECK(matrix.check_second(own_second) == PayloadStatus::kOk);
  std::vector<float> here(x.size()), there(x.size());
  matrix.apply(1, own, halves, {here.data(), here.size(), MemorySpace::kHost});
  matrix.apply(1, halves, own, {there.data(), there.size(), MemorySpace::kHost});
  double squares = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    STARLING_CHECK(std::isfinite(here[i]) && here[i] == -there[i]);
    squares += double{here[i]} * double{here[i]};
  }
  STARLING_CHECK(squares <= matrix.stats(own_second, second).squared_distance * (1 + 1e-4) + 1e-12);
}

}  // namespace starling
