#include "compression/codec.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "kernels/check.h"

namespace starling {
namespace {

constexpr std::array kNames = {
    CodecName{CodecKind::kFp32, "fp32", "exact"},
    CodecName{CodecKind::kBf16, "bf16", "2 bytes an element"},
    CodecName{CodecKind::kFp16, "fp16", "2 bytes an element, finer than bf16 from 6e-5 to 65504, coarser outside"},
    CodecName{CodecKind::kModulo8, "modulo8", "1 byte an element, the mean stays exact (pairs only)"},
    CodecName{CodecKind::kModulo4, "modulo4", "half a byte an element, in coarser steps (pairs only)"},
};

constexpr size_t kPiece = 2048;  // elements; a few of them fit the nearest cache

}  // namespace

std::span<const CodecName> codec_names() { return kNames; }

std::string codec_choices(std::string_view between) {
  std::string choices;
  for (const CodecName& codec : kNames) {
    if (!choices.empty()) choices += between;
    choices += codec.name;
  }
  return choices;
}

std::optional<CodecKind> parse_codec(std::string_view name) {
  for (const CodecName& codec : kNames) {
    if (codec.name == name) return codec.kind;
  }
  return std::nullopt;
}

std::string_view codec_name(CodecKind kind) {
  for (const CodecName& codec : kNames) {
    if (codec.kind == kind) return codec.name;
  }
  STARLING_CHECK(!"a codec kind without a name");
  return {};
}

// Payloads of linear codecs hold element after element: piece by piece, x and what the terms share stay in the nearest
// cache.
void Codec::apply_all(std::span<const CodecTerm> terms, View x) const {
  const bool in_pieces = terms.size() > 1 && x.space == MemorySpace::kHost && linear();
  if (!in_pieces) {
    for (const CodecTerm& term : terms) apply(term.coefficient, term.own, term.peer, x);
    return;
  }
  for (size_t at = 0; at < x.count; at += kPiece) {
    const View part = x.part(at, std::min(kPiece, x.count - at));
    const size_t begin = payload_bytes_max(at), size = payload_bytes_max(part.count);
    for (const CodecTerm& term : terms) {
      apply(term.coefficient, term.own.subspan(begin, size), term.peer.subspan(begin, size), part);
    }
  }
}

void Codec::pass(std::span<BlockPass> blocks) const {
  for (BlockPass& block : blocks) {
    apply_all(block.terms, block.x);
    block.size = encode(block.shared ? block.shared(block.x) : ConstView(block.x), block.context, block.out);
  }
}

// Piece by piece, so that the sum stays in the nearest cache.
bool Codec::mean(Bytes own, std::span<const Bytes> peers, std::span<const float> weights, size_t element_count,
                 MutableBytes out, PairStats* stats) const {
  STARLING_CHECK(linear() && own.size() == payload_bytes_max(element_count) && out.size() == own.size());
  std::array<float, kPiece> sum;
  const std::vector<std::byte> zeros(payload_bytes_max(kPiece));
  *stats = {};
  for (size_t at = 0; at < element_count; at += kPiece) {
    const size_t count = std::min(kPiece, element_count - at);
    const size_t begin = payload_bytes_max(at), size = payload_bytes_max(count);
    const View x{sum.data(), count, MemorySpace::kHost};
    const Bytes own_piece = own.subspan(begin, size);
    const MutableBytes out_piece = out.subspan(begin, size);
    sum.fill(0);
    apply(1, Bytes(zeros).first(size), own_piece, x);  // decodes
    for (size_t i = 0; i < peers.size(); ++i) apply(weights[i], own_piece, peers[i].subspan(begin, size), x);
    PairStats piece;
    if (!encode(x, {}, out_piece) || pair(own_piece, out_piece, count, &piece) != PairStatus::kOk) return false;
    stats->squared_distance += piece.squared_distance;
    stats->max_abs_difference = std::max(stats->max_abs_difference, piece.max_abs_difference);
  }
  return true;
}

}  // namespace starling
