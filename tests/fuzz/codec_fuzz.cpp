// A block's payload from a stranger. Two bytes in front choose the codec and the element count; the rest is the
// payload, of whatever size the stranger took. What passes the check is judged alike at both ends, and moves both by
// the same finite steps.
#include <cmath>
#include <optional>
#include <vector>

#include "compression/codec.h"
#include "kernels/check.h"
#include "tests/fuzz/targets.h"

namespace starling {

void fuzz_codec(std::span<const std::byte> input) {
  if (input.size() < 2) return;
  const auto byte = [&](size_t i) { return std::to_integer<size_t>(input[i]); };
  const auto codec = make_codec(codec_names()[byte(0) % codec_names().size()].kind, MemorySpace::kHost);
  const size_t count = 1 + byte(1);
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = static_cast<float>(i % 7) - 3;
  std::vector<std::byte> own(codec->payload_bytes_max(count));
  own.resize(codec->encode({x.data(), count, MemorySpace::kHost}, {}, own).value());

  const Bytes payload = input.subspan(2);
  PairStats here, there;
  const PairStatus status = codec->pair(own, payload, count, &here);
  STARLING_CHECK((status == PairStatus::kRefused) == (codec->check(payload, count) != PayloadStatus::kOk));
  if (status == PairStatus::kRefused) return;
  STARLING_CHECK(payload.size() <= codec->payload_bytes_max(count));
  STARLING_CHECK(codec->pair(payload, own, count, &there) == status);
  if (status != PairStatus::kOk) return;
  STARLING_CHECK(std::isfinite(here.squared_distance) && here.squared_distance == there.squared_distance);
  STARLING_CHECK(here.max_abs_difference == there.max_abs_difference);
  std::vector<float> left(count), right(count);
  codec->apply(1, own, payload, {left.data(), count, MemorySpace::kHost});
  codec->apply(1, payload, own, {right.data(), count, MemorySpace::kHost});
  for (size_t i = 0; i < count; ++i) STARLING_CHECK(std::isfinite(left[i]) && left[i] == -right[i]);

  if (!codec->linear()) return;
  std::vector<std::byte> mean(own.size());
  const Bytes peers[] = {payload};
  const float half = 0.5f;
  if (!codec->mean(own, peers, std::span(&half, 1), count, mean, &here)) return;
  STARLING_CHECK(codec->check(mean, count) == PayloadStatus::kOk);
}

}  // namespace starling
