#include "kernels/dense.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/cast.h"
#include "tests/kernels/fills.h"
#include "tests/kernels/targets.h"

namespace starling {
namespace {

// A payload that begins so many bytes behind an address that any value may lie at.
struct Payload {
  Payload(const std::vector<float>& x, float weight_of_it, bool is_bf16, size_t shift)
      : bytes(shift + x.size() * sizeof(float)), weight(weight_of_it), halves(is_bf16), first(shift) {
    const auto write = is_bf16 ? f32_to_bf16 : f32_to_bytes;
    (void)write(x.data(), x.size(), bytes.data() + first);
  }
  DenseTerm term() const { return {weight, bytes.data() + first, halves}; }
  float value(size_t i) const {
    if (!halves) {
      float value;
      std::memcpy(&value, bytes.data() + first + 4 * i, 4);
      return value;
    }
    uint16_t upper;
    std::memcpy(&upper, bytes.data() + first + 2 * i, 2);
    return std::bit_cast<float>(uint32_t{upper} << 16);
  }
  std::vector<std::byte> bytes;
  float weight;
  bool halves;
  size_t first;
};

// volatile: every operation rounds on its own.
std::vector<float> plain_sum(const std::vector<Payload>& payloads, std::vector<float> sum) {
  for (const Payload& payload : payloads) {
    for (size_t i = 0; i < sum.size(); ++i) {
      const volatile float product = payload.weight * payload.value(i);
      const volatile float added = sum[i] + product;
      sum[i] = added;
    }
  }
  return sum;
}

void expect_near_double(const std::vector<Payload>& payloads, const std::vector<float>& sum) {
  size_t wrong = 0;
  for (size_t i = 0; i < sum.size(); ++i) {
    double exact = 0, magnitude = 0;
    for (const Payload& payload : payloads) {
      exact += double{payload.weight} * double{payload.value(i)};
      magnitude += std::fabs(double{payload.weight} * double{payload.value(i)});
    }
    if (!(magnitude < 3e38)) continue;  // may be infinite, or no number
    const double rounding = static_cast<double>(payloads.size() + 1);
    wrong += !(std::fabs(double{sum[i]} - exact) <= rounding * (1e-7 * magnitude + 1e-45));
  }
  EXPECT_EQ(wrong, 0u);
}

TEST(Dense, MergesAreTheSumsOfTheirTermsInTheirOrder) {
  TestRng rng(draw_rng_seed());
  for (const auto& [count, fill, name] : filled_sizes()) {
    SCOPED_TRACE(name);
    std::vector<Payload> payloads;
    // Runs of one size, of one to five; a run that four do not hold; both sizes at odd addresses.
    for (const bool is_bf16 : {true, false, false, true, true, true, true, true, false}) {
      const Fill of = rng() % 3 == 0 ? Fill::kNormal : fill;
      payloads.emplace_back(filled_vector(rng, of, count), payloads.size() % 2 == 0 ? 0.3f : -1.7f, is_bf16, rng() % 4);
    }
    std::vector<DenseTerm> terms;
    for (const Payload& payload : payloads) terms.push_back(payload.term());
    for (size_t few = 0; few <= payloads.size(); ++few) {
      const std::vector<Payload> some(payloads.begin(), payloads.begin() + static_cast<ptrdiff_t>(few));
      const std::vector<float> expected = plain_sum(some, std::vector<float>(count));
      expect_near_double(some, expected);
      for_each_target([&] {
        std::vector<float> out(count, 9);
        dense_merge(std::span(terms).first(few), out.data(), count);
        EXPECT_EQ(bits_but_nan(out), bits_but_nan(expected)) << few;
      });
    }
  }
}

TEST(Dense, OneIsAddedToWhatIsThere) {
  TestRng rng(draw_rng_seed());
  for (const auto& [count, fill, name] : filled_sizes()) {
    SCOPED_TRACE(name);
    for (const bool is_bf16 : {false, true}) {
      const Payload payload(filled_vector(rng, fill, count), -0.3f, is_bf16, 1);
      const std::vector<float> y = normal_vector(rng, count, 1.0f), expected = plain_sum({payload}, y);
      for_each_target([&] {
        std::vector<float> sum = y;
        dense_axpy(payload.term(), sum.data(), count);
        EXPECT_EQ(bits_but_nan(sum), bits_but_nan(expected)) << is_bf16;
      });
    }
  }
}

}  // namespace
}  // namespace starling
