#include "compression/update_codec.h"

#include <algorithm>
#include <array>

#include "compression/update_dense.h"
#include "compression/update_dgc.h"
#include "compression/update_levels.h"
#include "compression/update_randk.h"
#include "compression/update_sketch.h"
#include "compression/update_topk.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr std::array kNames = {
    UpdateName{UpdateKind::kFp32, "fp32", "all elements, exact"},
    UpdateName{UpdateKind::kBf16, "bf16", "all elements, 2 bytes each"},
    UpdateName{UpdateKind::kTopk, "topk", "the largest elements, 5 to 8 bytes each; the others wait"},
    UpdateName{UpdateKind::kTopkBf16, "topk_bf16", "the largest elements, 3 to 6 bytes each; the others wait"},
    UpdateName{UpdateKind::kTopkInt8, "topk_int8", "the largest elements, 2 to 5 bytes each; the others wait"},
    UpdateName{UpdateKind::kRandk, "randk", "some elements by chance, 4 bytes each; the others wait"},
    UpdateName{UpdateKind::kRandkBf16, "randk_bf16", "some elements by chance, 2 bytes each; the others wait"},
    UpdateName{UpdateKind::kRandkInt8, "randk_int8", "some elements by chance, 1 byte each; the others wait"},
    UpdateName{UpdateKind::kInt8, "int8", "all elements, 8 bits each and a scale for 512"},
    UpdateName{UpdateKind::kInt4, "int4", "all elements, 4 bits each and a scale for 128"},
    UpdateName{UpdateKind::kSign, "sign", "1 bit each; the majority decides"},
    UpdateName{UpdateKind::kSignEf, "sign_ef", "1 bit each and a scale for 512; what that leaves out waits"},
    UpdateName{UpdateKind::kTernary, "ternary", "2 bits each and a scale for 512: TernGrad"},
    UpdateName{UpdateKind::kDgc, "dgc", "topk with momentum that is cleared where something was sent: DGC"},
    UpdateName{UpdateKind::kSketch, "sketch", "the largest of all members' sum, found by tables: SKETCHED-SGD"},
    UpdateName{UpdateKind::kQsgd, "qsgd", "2 to 8 bits each and a norm for 512"},
};

}  // namespace

std::span<const UpdateName> update_names() { return kNames; }

std::vector<std::string> update_words() {
  std::vector<std::string> words;
  for (const UpdateName& update : kNames) words.emplace_back(update.name);
  return words;
}

std::string update_choices(std::string_view between) {
  std::string choices;
  for (const UpdateName& update : kNames) {
    if (!choices.empty()) choices += between;
    choices += update.name;
  }
  return choices;
}

std::optional<UpdateKind> parse_update(std::string_view name) {
  for (const UpdateName& update : kNames) {
    if (update.name == name) return update.kind;
  }
  return std::nullopt;
}

std::optional<UpdateKind> update_kind(uint8_t number) {
  for (const UpdateName& update : kNames) {
    if (static_cast<uint8_t>(update.kind) == number) return update.kind;
  }
  return std::nullopt;
}

std::string_view update_name(UpdateKind kind) {
  for (const UpdateName& update : kNames) {
    if (update.kind == kind) return update.name;
  }
  STARLING_CHECK(!"an update kind without a name");
  return {};
}

std::unique_ptr<UpdateCodec> make_update_codec(const UpdateOptions& options) {
  STARLING_CHECK(options.density > 0 && options.density <= 1 && options.reply >= 1);
  STARLING_CHECK(options.levels >= 1 && options.levels <= 127);
  STARLING_CHECK(options.table > 0 && options.table <= 1 && options.candidates >= 1);
  STARLING_CHECK(momentum_of(options) >= 0 && momentum_of(options) < 1 && options.clip >= 0);
  switch (options.kind) {
    case UpdateKind::kFp32: return std::make_unique<DenseUpdate<Fp32Values>>(options.kind);
    case UpdateKind::kBf16: return std::make_unique<DenseUpdate<Bf16Values>>(options.kind);
    case UpdateKind::kTopk: return std::make_unique<TopkUpdate<PlainValues<Fp32Values>>>(options);
    case UpdateKind::kTopkBf16: return std::make_unique<TopkUpdate<PlainValues<Bf16Values>>>(options);
    case UpdateKind::kTopkInt8: return std::make_unique<TopkUpdate<Int8Values>>(options);
    case UpdateKind::kRandk: return std::make_unique<RandkUpdate<PlainValues<Fp32Values>>>(options);
    case UpdateKind::kRandkBf16: return std::make_unique<RandkUpdate<PlainValues<Bf16Values>>>(options);
    case UpdateKind::kRandkInt8: return std::make_unique<RandkUpdate<Int8Values>>(options);
    case UpdateKind::kDgc: return std::make_unique<DgcUpdate>(options);
    case UpdateKind::kSketch: return std::make_unique<SketchUpdate>(options);
    case UpdateKind::kInt8:
    case UpdateKind::kInt4:
    case UpdateKind::kSign:
    case UpdateKind::kSignEf:
    case UpdateKind::kTernary:
    case UpdateKind::kQsgd: return make_level_update(options);
  }
  STARLING_CHECK(!"an update kind that parse_update does not know");
  return nullptr;
}

std::optional<double> UpdateCodec::checked_norm(UpdateRole role, Bytes payload, size_t element_count) const {
  if (check(role, payload, element_count) != UpdateStatus::kOk) return std::nullopt;
  return norm(payload);
}

void UpdateCodec::merge(std::span<const UpdateTerm> terms, std::span<float> sum) const {
  std::fill(sum.begin(), sum.end(), 0.0f);
  for (const UpdateTerm& term : terms) term.codec->add(term.weight, term.payload, {}, sum);
}

}  // namespace starling
