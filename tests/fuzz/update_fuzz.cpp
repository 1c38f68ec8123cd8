// The payload of an update from a stranger. Four bytes in front choose the codec, the role and the element count. What
// passes the check is safe to use, and says one thing in one way: encoded again it is the same bytes.
#include <algorithm>
#include <cmath>
#include <vector>

#include "compression/outer_rule.h"
#include "compression/update_codec.h"
#include "kernels/check.h"
#include "tests/fuzz/targets.h"

namespace starling {

void fuzz_update(std::span<const std::byte> input) {
  if (input.size() < 4) return;
  const auto byte = [&](size_t i) { return std::to_integer<size_t>(input[i]); };
  const UpdateKind kind = update_names()[byte(0) % update_names().size()].kind;
  const UpdateRole role = byte(1) % 2 == 0 ? UpdateRole::kContribution : UpdateRole::kEntry;
  const size_t count = (byte(2) | byte(3) << 8) % 5000;
  const Bytes payload = input.subspan(4);
  const auto codec = make_update_codec({.kind = kind, .density = 0.1});
  if (codec->check(role, payload, count) != UpdateStatus::kOk) return;
  STARLING_CHECK(payload.size() <= codec->bytes_max(role, count));
  STARLING_CHECK(std::isfinite(codec->norm(payload)));

  std::vector<float> values(count), sum(count);
  codec->decode(payload, values);
  codec->add(1, payload, {}, sum);
  STARLING_CHECK(sum == values);
  codec->add(-1, payload, codec->support(payload), sum);
  STARLING_CHECK(std::all_of(sum.begin(), sum.end(), [](float value) { return value == 0; }));

  std::vector<float> params(count), momentum(count);
  const OuterRule rule{.momentum = 0.5f, .rate = 0.5f};
  // Half of a float plus a quarter of it, and half of that: always finite.
  STARLING_CHECK(apply_entry(rule, *codec, 0.5f, payload, params, momentum));

  const UpdateResidual residual = codec->residual();
  if (residual.dropped || residual.rounding_of_largest > 0) return;   // its scales follow from the values encoded
  if (kind == UpdateKind::kRandk || kind == UpdateKind::kRandkBf16) return;   // its elements follow from the seed

  std::vector<std::byte> again(codec->bytes_max(role, count));
  const std::optional<size_t> bytes = codec->encode(role, values, {}, again);
  STARLING_CHECK(bytes.has_value() && *bytes <= payload.size());
  again.resize(*bytes);
  // A stranger may send zeros, which topk never does.
  if (*bytes == payload.size()) STARLING_CHECK(std::ranges::equal(again, payload));
}

}  // namespace starling
