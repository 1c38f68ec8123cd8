#include "compression/update_levels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "compression/update_values.h"
#include "kernels/check.h"
#include "kernels/vector_ops.h"

namespace starling {
namespace {

constexpr size_t kHeaderBytes = 8, kScaleBytes = 4;
constexpr double kClipSigmas = 2.5;  // TernGrad's choice for all its networks

uint32_t load_u32(const std::byte* from) {
  uint32_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

float load_scale(const std::byte* scales, size_t block) {
  float scale;
  std::memcpy(&scale, scales + block * kScaleBytes, sizeof scale);
  return scale;
}

uint32_t tag_of(const LevelFormat& format) {
  return static_cast<uint32_t>(format.codes.bits) | static_cast<uint32_t>(format.codes.levels) << 8;
}

size_t block_of(const LevelFormat& format, size_t count) {
  return format.block == 0 ? std::max<size_t>(count, 1) : format.block;
}

size_t payload_bytes(const LevelFormat& format, size_t count) {
  const size_t block = block_of(format, count), scales = (count + block - 1) / block * kScaleBytes;
  return kHeaderBytes + scales + count / block * format.codes.bytes(block) + format.codes.bytes(count % block);
}

// nullopt: an element is not finite. A sum in double of floats, or of their squares, is finite exactly if all are.
std::optional<float> scale_of(const LevelFormat& format, std::span<const float> x) {
  const auto count = static_cast<double>(x.size());
  const auto largest = [&] { return static_cast<double>(max_abs(x.data(), x.size())); };
  double scale = 0;
  switch (format.scale) {
    case LevelFormat::Scale::kLargest: scale = largest(); break;
    case LevelFormat::Scale::kMean: scale = sum_abs(x.data(), x.size()) / count; break;
    case LevelFormat::Scale::kClipped:
      scale = kClipSigmas * std::sqrt(squared_norm(x.data(), x.size()) / count);
      if (std::isfinite(scale)) scale = std::min(largest(), scale);
      break;
  }
  return level_scale(format.codes, scale);
}

}  // namespace

std::optional<float> level_scale(const LevelCodes& codes, double outermost) {
  if (!std::isfinite(outermost)) return std::nullopt;
  const double scale = outermost / codes.levels;
  const float clamped = static_cast<float>(std::min(scale, static_cast<double>(kUpdateScaleMax)));
  return clamped < kUpdateScaleMin ? 0.0f : clamped;
}

LevelUpdate::Parts::Parts(const LevelFormat& chosen, const std::byte* bytes, size_t element_count)
    : format(chosen),
      count(element_count),
      block(block_of(chosen, count)),
      blocks((count + block - 1) / block),
      scales(bytes + kHeaderBytes),
      codes(scales + blocks * kScaleBytes) {}

bool LevelUpdate::Parts::is_like(const Parts& other) const {
  return format.codes.bits == other.format.codes.bits && format.codes.levels == other.format.codes.levels &&
         block == other.block;
}

float LevelUpdate::Parts::value(size_t i) const {
  const auto level = static_cast<float>(level_of(format.codes, codes_of(i / block), i % block));
  return load_scale(scales, i / block) * level;
}

LevelUpdate::Parts LevelUpdate::parts_of(Bytes payload) const {
  const bool entry = load_u32(payload.data()) == tag_of(entry_);
  return {entry ? entry_ : contribution_, payload.data(), load_u32(payload.data() + 4)};
}

size_t LevelUpdate::bytes_max(UpdateRole role, size_t element_count) const {
  return payload_bytes(role == UpdateRole::kEntry ? entry_ : contribution_, element_count);
}

LevelUpdate::Parts LevelUpdate::begin_payload(UpdateRole role, size_t element_count, MutableBytes out) const {
  STARLING_CHECK(out.size() == bytes_max(role, element_count));
  const LevelFormat& format = role == UpdateRole::kEntry ? entry_ : contribution_;
  const uint32_t header[] = {tag_of(format), static_cast<uint32_t>(element_count)};
  std::memcpy(out.data(), header, sizeof header);
  return {format, out.data(), element_count};
}

std::optional<size_t> LevelUpdate::encode_chosen(UpdateRole role, std::span<const float> x, const UpdateSeeds& seeds,
                                                 const UpdateSupport&, MutableBytes out) const {
  const Parts parts = begin_payload(role, x.size(), out);
  const LevelFormat& format = parts.format;
  std::byte* const scales = out.data() + kHeaderBytes;
  std::byte* const codes = scales + parts.blocks * kScaleBytes;
  // The scales of some blocks, then their codes: no block's codes wait for the end of its scale's arithmetic.
  const size_t together = std::max<size_t>(1, kUpdatePiece / parts.block);
  for (size_t first = 0; first < parts.blocks; first += together) {
    const size_t end = std::min(first + together, parts.blocks);
    for (size_t b = first; b < end; ++b) {
      const std::optional<float> scale = scale_of(format, x.subspan(b * parts.block, parts.length(b)));
      if (!scale) return std::nullopt;
      std::memcpy(scales + b * kScaleBytes, &*scale, kScaleBytes);
    }
    for (size_t b = first; b < end; ++b) {
      const float scale = load_scale(scales, b);
      levels_encode(format.codes, x.data() + b * parts.block, parts.length(b), scale > 0 ? 1 / scale : 0, seeds.own,
                    b * parts.block, codes + b * format.codes.bytes(parts.block));
    }
  }
  return out.size();
}

UpdateStatus LevelUpdate::check(UpdateRole role, Bytes payload, size_t element_count) const {
  if (payload.size() != bytes_max(role, element_count)) return UpdateStatus::kWrongSize;
  const LevelFormat& format = role == UpdateRole::kEntry ? entry_ : contribution_;
  if (load_u32(payload.data()) != tag_of(format) || load_u32(payload.data() + 4) != element_count) {
    return UpdateStatus::kWrongSize;
  }
  const Parts parts(format, payload.data(), element_count);
  for (size_t b = 0; b < parts.blocks; ++b) {
    const float scale = load_scale(parts.scales, b);
    if (!(scale <= kUpdateScaleMax) || std::signbit(scale)) return UpdateStatus::kNonFinite;  // a NaN too
    if (!levels_valid(format.codes, parts.codes_of(b), parts.length(b))) return UpdateStatus::kBadLevel;
  }
  return UpdateStatus::kOk;
}

void LevelUpdate::add(float coefficient, Bytes payload, const UpdateSupport& on, std::span<float> target) const {
  const Parts parts = parts_of(payload);
  STARLING_CHECK(parts.count == target.size());
  if (!on.everywhere) {
    for (const uint32_t i : on.indices) {
      STARLING_CHECK(i < target.size());
      target[i] += coefficient * parts.value(i);
    }
    return;
  }
  for (size_t b = 0; b < parts.blocks; ++b) {
    levels_axpy(parts.format.codes, coefficient, parts.codes_of(b), parts.length(b), load_scale(parts.scales, b),
                target.data() + b * parts.block);
  }
}

void LevelUpdate::merge(std::span<const UpdateTerm> terms, std::span<float> sum) const {
  const auto is_own = [this](const UpdateTerm& term) { return term.codec->kind() == kind(); };
  if (terms.empty() || !std::all_of(terms.begin(), terms.end(), is_own)) return UpdateCodec::merge(terms, sum);
  const Parts first = parts_of(terms[0].payload);
  std::vector<LevelTerm> added;
  for (const UpdateTerm& term : terms) {
    const Parts parts = parts_of(term.payload);
    STARLING_CHECK(parts.count == sum.size());
    if (!parts.is_like(first)) return UpdateCodec::merge(terms, sum);  // an entry's format among others
    added.push_back({term.weight, parts.scales, parts.codes});
  }
  levels_merge(first.format.codes, first.block, added, sum.data(), sum.size());
}

void LevelUpdate::decode_part(Bytes payload, const UpdateSupport&, size_t begin, std::span<float> out) const {
  const Parts parts = parts_of(payload);
  STARLING_CHECK(begin + out.size() <= parts.count);
  const size_t group = parts.format.codes.group_elements();
  for (size_t at = 0; at < out.size();) {
    const size_t i = begin + at, b = i / parts.block, in_block = i % parts.block;
    const size_t left = std::min(out.size() - at, parts.length(b) - in_block);
    if (in_block % group != 0) {  // element by element up to the next group
      out[at++] = parts.value(i);
      continue;
    }
    // Whole groups, or all that is left of the block: the loops read codes by the group.
    const bool to_end = left == parts.length(b) - in_block;
    const size_t count = to_end ? left : left / group * group;
    if (count == 0) {
      out[at++] = parts.value(i);
      continue;
    }
    levels_decode(parts.format.codes, parts.codes_of(b) + in_block / group * 64, count, load_scale(parts.scales, b),
                  out.data() + at);
    at += count;
  }
}

// Sums of pieces, added up. Where all is one block of signs, whole pieces are alike.
double LevelUpdate::norm(Bytes payload) const {
  const Parts parts = parts_of(payload);
  const LevelCodes& codes = parts.format.codes;
  const bool alike = codes.bits == 1 && parts.blocks == 1;
  double squares = 0, of_piece = 0;
  for (size_t at = 0; at < parts.count; at += kUpdatePiece) {
    const size_t length = std::min(kUpdatePiece, parts.count - at), block = at / parts.block;
    if (!alike || at == 0 || length < kUpdatePiece) {
      of_piece = levels_squared_norm(codes, parts.codes_of(block) + codes.bytes(at % parts.block), length, parts.block,
                                     parts.scales + block * kScaleBytes);
    }
    squares += of_piece;
  }
  return std::sqrt(squares);
}

// Each payload of signs counts once, whatever its scale and its weight; elements of other payloads by their sign.
void SignVote::merge(std::span<const UpdateTerm> terms, std::span<float> sum) const {
  static constexpr float kOne = 1;
  const LevelCodes codes{1, 1};
  std::vector<float> steps;
  std::vector<LevelTerm> votes;
  std::vector<std::pair<const UpdateTerm*, UpdateSupport>> others;
  for (const UpdateTerm& term : terms) {
    if (term.codec->kind() != kind()) {
      others.emplace_back(&term, term.codec->support(term.payload));
    } else if (!sum.empty()) {
      const Parts parts = parts_of(term.payload);
      steps.push_back(load_scale(parts.scales, 0));
      votes.push_back({1, reinterpret_cast<const std::byte*>(&kOne), parts.codes});
    }
  }
  if (steps.empty()) return std::fill(sum.begin(), sum.end(), 0.0f);
  const auto middle = steps.begin() + static_cast<ptrdiff_t>((steps.size() - 1) / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  std::array<float, kUpdatePiece> values;
  for (size_t at = 0; at < sum.size(); at += kUpdatePiece) {
    const std::span<float> piece = sum.subspan(at, std::min(kUpdatePiece, sum.size() - at));
    levels_merge(codes, kUpdatePiece, votes, piece.data(), piece.size());
    for (LevelTerm& vote : votes) vote.codes += codes.bytes(piece.size());
    for (const auto& [term, support] : others) {
      term->codec->decode_part(term->payload, support, at, std::span(values).first(piece.size()));
      for (size_t i = 0; i < piece.size(); ++i) piece[i] += static_cast<float>((values[i] > 0) - (values[i] < 0));
    }
    take_signs(*middle, piece.data(), piece.size());
  }
}

std::unique_ptr<UpdateCodec> make_level_update(const UpdateOptions& options) {
  using Scale = LevelFormat::Scale;
  const LevelFormat int8{{8, 127}, 512, Scale::kLargest}, int4{{4, 7}, 128, Scale::kLargest};
  // Of n elements within L levels of the largest, each leaves at most a quarter of a squared level.
  const auto energy = [](const LevelFormat& format) {
    return static_cast<double>(format.block) / (4.0 * format.codes.levels * format.codes.levels);
  };
  switch (options.kind) {
    case UpdateKind::kInt8:
      return std::make_unique<LevelUpdate>(
          options.kind, int8, int8,
          UpdateResidual{.rounding_of_largest = 1 / 127.0f, .energy = energy(int8), .unbiased = true});
    case UpdateKind::kInt4:
      return std::make_unique<LevelUpdate>(
          options.kind, int4, int4,
          UpdateResidual{.rounding_of_largest = 1 / 7.0f, .energy = energy(int4), .unbiased = true});
    case UpdateKind::kTernary:
      return std::make_unique<LevelUpdate>(options.kind, LevelFormat{{2, 1}, 512, Scale::kClipped}, int8,
                                           UpdateResidual{.dropped = true});
    case UpdateKind::kSignEf:
      return std::make_unique<LevelUpdate>(options.kind, LevelFormat{{1, 1}, 512, Scale::kMean}, int8,
                                           UpdateResidual{.rounding_of_largest = 1, .energy = 1 - 1 / 512.0});
    default: break;
  }
  STARLING_CHECK(options.kind == UpdateKind::kSign);
  return std::make_unique<SignVote>(options.kind, LevelFormat{{1, 1}, 0, Scale::kMean},
                                    LevelFormat{{1, 1}, 0, Scale::kLargest}, UpdateResidual{.dropped = true});
}

}  // namespace starling
