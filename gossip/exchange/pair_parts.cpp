#include "gossip/exchange/pair_parts.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "gossip/net/hash.h"

namespace starling {

PairParts::PairParts(const Layout& layout, const Codec& codec) : layout_(layout) {
  for (const Block& block : layout.blocks) {
    const auto number = static_cast<uint32_t>(parts_.size());
    if (block.low_rank()) {
      parts_.push_back({PartKind::kFirst, number, 0, LowRank(block.matrix).first_bytes()});
    } else {
      parts_.push_back({PartKind::kWhole, number, 0, codec.payload_bytes_max(block.element_count)});
    }
  }
  for (uint32_t block = 0; block < layout.blocks.size(); ++block) {
    if (parts_[block].kind != PartKind::kFirst) continue;
    parts_[block].other = static_cast<uint32_t>(parts_.size());
    parts_.push_back({PartKind::kSecond, block, block, LowRank(layout.blocks[block].matrix).second_bytes()});
  }
}

double PairParts::reach() const {
  double least = 1;
  for (const Block& block : layout_.blocks) {
    if (!block.low_rank()) continue;
    const auto [rows, columns, rank] = block.matrix;
    least = std::min(least, 2 * static_cast<double>(rank) / static_cast<double>(std::min(rows, columns)));
  }
  return least;
}

Bitmap PairParts::without_lone_halves(Bitmap parts) const {
  Bitmap kept = make_bitmap(count());
  for (size_t part = 0; part < count(); ++part) {
    const bool alone = parts_[part].kind != PartKind::kWhole && !test_bit(parts, parts_[part].other);
    if (test_bit(parts, part) && !alone) set_bit(kept, part);
  }
  return kept;
}

// ---- by the worker ----

namespace {

// Both ends know it, and it is new in each exchange and for each block.
uint64_t seed_of(const ExchangeId& xid, size_t block) {
  const uint64_t numbers[] = {xid.generation, xid.counter, block};
  std::array<std::byte, sizeof(xid.proposer.bytes) + sizeof(numbers)> bytes;
  std::memcpy(bytes.data(), xid.proposer.bytes.data(), sizeof(xid.proposer.bytes));
  std::memcpy(bytes.data() + sizeof(xid.proposer.bytes), numbers, sizeof(numbers));
  return xxh3_64(bytes);
}

const float* floats_of(const Snapshot& own, size_t block) {
  return reinterpret_cast<const float*>(own.blocks[block].data);   // as new[] aligns them
}

}  // namespace

void FirstHalves::make() const {
  for (size_t block = 0; block < blocks.size(); ++block) {
    if (!blocks[block].low_rank()) continue;
    const LowRank matrix(blocks[block].matrix);
    const UnsetBytes half(matrix.first_bytes());
    matrix.write_first(floats_of(*own, block), seed_of(xid, block), half.span());
    halves->payloads[block] = half.first(matrix.first_bytes());
  }
}

void PairJudgement::decide(const Codec& codec) {
  if (part.kind == PartKind::kWhole) return decide_whole(codec);
  const LowRank matrix(block.matrix);
  if (part.kind == PartKind::kSecond) {
    if (matrix.check_second(payload.span()) != PayloadStatus::kOk) return;
    stats = matrix.stats(halves->payloads[index].span(), payload.span());
  } else {
    if (matrix.check_first(payload.span()) != PayloadStatus::kOk) return;
    const UnsetBytes half(matrix.second_bytes());
    matrix.write_second(floats_of(*own, part.block), halves->payloads[index].span(), payload.span(), half.span());
    halves->payloads[part.other] = half.first(matrix.second_bytes());
  }
  verdict = BlockVerdict::kPassed;
}

void PairJudgement::decide_whole(const Codec& codec) {
  switch (codec.pair(own->blocks[part.block].span(), payload.span(), block.element_count, &stats)) {
    case PairStatus::kOk: verdict = BlockVerdict::kPassed; break;
    case PairStatus::kLeftOut: verdict = BlockVerdict::kLeftOut; break;
    case PairStatus::kRefused: break;
  }
}

}  // namespace starling
