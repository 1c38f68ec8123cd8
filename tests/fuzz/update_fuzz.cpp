// The payload of an update from a stranger. Four bytes in front choose the codec, the role, the settings and the
// element count, which is small or large enough for coded indices. What passes the check is safe to use, and says one
// thing in one way: encoded again it is the same bytes.
#include <algorithm>
#include <cmath>
#include <vector>

#include "compression/outer_rule.h"
#include "compression/slice_math.h"
#include "compression/update_sketch.h"
#include "kernels/check.h"
#include "tests/fuzz/targets.h"

namespace starling {
namespace {

// What comes before payloads: a member's table, or an owner's request.
void fuzz_tables(const UpdateCodec& codec, bool table, size_t count, Bytes bytes) {
  const SketchTables& tables = *codec.tables();
  std::vector<uint32_t> requested;
  if (table) {
    const uint64_t seed = SketchTables::seed(bytes).value_or(0);
    if (tables.check(bytes, count, seed) != UpdateStatus::kOk) return;
    const SketchTerm terms[] = {{0.5f, bytes}, {0.5f, bytes}};
    const std::vector<std::byte> request = tables.request(terms, count, seed);
    STARLING_CHECK(tables.check_request(request, count) == UpdateStatus::kOk);
    requested = SketchTables::requested(request);
  } else if (tables.check_request(bytes, count) == UpdateStatus::kOk) {
    requested = SketchTables::requested(bytes);
  }
  std::vector<std::byte> payload(codec.bytes_max(UpdateRole::kContribution, count));
  const std::vector<float> ones(count, 1.0f);
  payload.resize(codec.encode(UpdateRole::kContribution, ones, {.requested = requested}, payload).value());
  STARLING_CHECK(codec.check(UpdateRole::kContribution, payload, count) == UpdateStatus::kOk);
  STARLING_CHECK(requested.empty() || codec.support(payload).indices == requested);
}

constexpr size_t kLarge = 60000;  // a number from which on the slice has as many elements more as indices are coded of

// Few elements are sent of a large slice: inputs are short.
UpdateOptions options_of(UpdateKind kind, size_t variant, size_t count) {
  constexpr uint32_t kWarmup[] = {0, 8, 0, 100};
  return {.kind = kind, .density = count < kRiceElementsMin ? 0.1 : 0.002, .warmup = kWarmup[variant]};
}

}  // namespace

void fuzz_update(std::span<const std::byte> input) {
  if (input.size() < 4) return;
  const auto byte = [&](size_t i) { return std::to_integer<size_t>(input[i]); };
  const UpdateKind kind = update_names()[byte(0) % update_names().size()].kind;
  const UpdateRole role = byte(1) % 2 == 0 ? UpdateRole::kContribution : UpdateRole::kEntry;
  const size_t number = byte(2) | byte(3) << 8, variant = byte(1) / 4 % 4;
  const size_t count = number < kLarge ? number % 5000 : kRiceElementsMin + number - kLarge;
  const Bytes payload = input.subspan(4);
  const auto codec = make_update_codec(options_of(kind, variant, count));
  if (codec->tables() != nullptr && byte(1) % 4 >= 2) return fuzz_tables(*codec, byte(1) % 4 == 2, count, payload);
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
  OuterReach reach;
  STARLING_CHECK(
      apply_entry(host_slice_math(), rule, *codec, 0.5f, payload, codec->norm(payload), params, momentum, &reach));

  const UpdateResidual residual = codec->residual();
  if (residual.dropped || residual.rounding_of_largest > 0) return;  // its scales follow from the values encoded

  std::vector<std::byte> again(codec->bytes_max(role, count));
  const std::optional<size_t> bytes = codec->encode(role, values, {}, again);
  STARLING_CHECK(bytes.has_value() && *bytes <= payload.size());
  again.resize(*bytes);
  // A stranger may send zeros, which topk never does.
  if (*bytes == payload.size()) STARLING_CHECK(std::ranges::equal(again, payload));
}

}  // namespace starling
