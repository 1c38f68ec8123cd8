// Host copies and norms through the views; the same on a GPU is in cuda_twins_test.cpp.
#include "kernels/transfer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tests/kernels/inputs.h"

namespace starling {
namespace {

TEST(Transfer, CopiesExactlyTheViewFromAnyAlignment) {
  TestRng rng(draw_rng_seed());
  for (size_t count : {0, 1, 3, 1000}) {
    const std::vector<float> values = normal_vector(rng, count, 1.0f);
    std::vector<std::byte> unaligned(count * sizeof(float) + 1);
    if (count > 0) std::memcpy(unaligned.data() + 1, values.data(), count * sizeof(float));

    std::vector<float> params(count + 2, 7.0f);
    const View view{params.data() + 1, count, MemorySpace::kHost};
    copy_from_host(unaligned.data() + 1, view);
    EXPECT_EQ(params.front(), 7.0f);
    EXPECT_EQ(params.back(), 7.0f);

    std::vector<float> back(count);
    copy_to_host(view, back.data());
    EXPECT_EQ(back, values);
  }
}

TEST(Transfer, SquaredNormIsTheSumOfSquares) {
  TestRng rng(draw_rng_seed());
  std::vector<float> values = normal_vector(rng, 4099, 3.0f);
  double expected = 0;
  for (float x : values) expected += double{x} * x;
  EXPECT_NEAR(squared_norm(View{values.data(), values.size(), MemorySpace::kHost}), expected, 1e-9 * expected);
  EXPECT_EQ(squared_norm(View{values.data(), 0, MemorySpace::kHost}), 0);
}

}  // namespace
}  // namespace starling
