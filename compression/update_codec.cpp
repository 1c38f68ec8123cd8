#include "compression/update_codec.h"

#include <algorithm>
#include <array>

#include "kernels/check.h"

namespace starling {
namespace {

constexpr std::array kNames = {
    UpdateName{UpdateKind::kFp32, "fp32", "all elements, exact"},
    UpdateName{UpdateKind::kBf16, "bf16", "all elements, 2 bytes each"},
    UpdateName{UpdateKind::kTopk, "topk", "the largest elements, 5 to 8 bytes each; the others wait"},
    UpdateName{UpdateKind::kTopkBf16, "topk_bf16", "the largest elements, 3 to 6 bytes each; the others wait"},
    UpdateName{UpdateKind::kTopkInt8, "topk_int8", "the largest elements, 2 to 5 bytes each; the others wait"},
    UpdateName{UpdateKind::kInt8, "int8", "all elements, 8 bits each and a scale for 512"},
    UpdateName{UpdateKind::kInt4, "int4", "all elements, 4 bits each and a scale for 128"},
    UpdateName{UpdateKind::kSign, "sign", "1 bit each; the majority decides"},
    UpdateName{UpdateKind::kSignEf, "sign_ef", "1 bit each and a scale for 512; what that leaves out waits"},
    UpdateName{UpdateKind::kTernary, "ternary", "2 bits each and a scale for 512: TernGrad"},
    UpdateName{UpdateKind::kDgc, "dgc", "topk with momentum that is cleared where something was sent: DGC"},
    UpdateName{UpdateKind::kSketch, "sketch", "the largest of all members' sum, found by tables: SKETCHED-SGD"},
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

std::optional<double> UpdateCodec::checked_norm(UpdateRole role, Bytes payload, size_t element_count) const {
  if (check(role, payload, element_count) != UpdateStatus::kOk) return std::nullopt;
  return norm(payload);
}

void UpdateCodec::merge(std::span<const UpdateTerm> terms, std::span<float> sum) const {
  std::fill(sum.begin(), sum.end(), 0.0f);
  for (const UpdateTerm& term : terms) term.codec->add(term.weight, term.payload, {}, sum);
}

}  // namespace starling
