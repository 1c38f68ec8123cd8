#include "compression/encoder.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/check.h"
#include "kernels/transfer.h"

namespace starling {
namespace {

constexpr uint64_t kScaleSnapshots = 16;  // a section's rms is reused, because measuring it reads the section
constexpr std::byte kMark{0x81};          // as an exponent -127, which no step ever had
constexpr std::byte kVersion{1};
constexpr size_t kHeaderBytes = 8;

static_assert(std::endian::native == std::endian::little, "sizes are copied, not converted");

void put_u32(std::vector<std::byte>& out, size_t value) {
  const auto number = static_cast<uint32_t>(value);
  const auto bytes = std::as_bytes(std::span(&number, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

std::optional<uint32_t> take_u32(Bytes& from) {
  uint32_t number = 0;
  if (from.size() < sizeof number) return std::nullopt;
  std::memcpy(&number, from.data(), sizeof number);
  from = from.subspan(sizeof number);
  return number;
}

}  // namespace

Encoder::Encoder(std::unique_ptr<Codec> codec, Layout layout)
    : codec_(std::move(codec)),
      layout_(std::move(layout)),
      memories_(fresh_memories()),
      scales_(layout_.sections.size()) {}

Encoder::Memories Encoder::fresh_memories() const {
  Memories memories;
  for (const Block& block : layout_.blocks) memories.push_back(codec_->make_memory(block.element_count));
  return memories;
}

size_t Encoder::payload_bytes_max(size_t block) const {
  return codec_->payload_bytes_max(layout_.blocks[block].element_count);
}

void Encoder::begin_snapshot(std::vector<ConstView> sections) {
  STARLING_CHECK(sections.size() == layout_.sections.size());
  sections_ = std::move(sections);
  ++snapshots_;
}

// While the section is all zeros, every snapshot measures again, so that its first nonzero values get a scale at once.
float Encoder::section_rms(size_t section) {
  SectionScale& scale = scales_[section];
  const ConstView& x = sections_[section];
  const bool known =
      scale.measured_in == snapshots_ || (scale.rms > 0 && snapshots_ - scale.measured_in < kScaleSnapshots);
  if (!known && x.count > 0) {
    scale.rms = static_cast<float>(std::sqrt(squared_norm(x) / static_cast<double>(x.count)));
    scale.measured_in = snapshots_;
  }
  return scale.rms;
}

void Encoder::pass(size_t first, std::span<BlockPass> blocks) {
  STARLING_CHECK(snapshots_ > 0 && first + blocks.size() <= layout_.blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = layout_.blocks[first + i];
    STARLING_CHECK(blocks[i].x.count == block.element_count);
    blocks[i].context = {memories_[first + i].get(), [this, section = block.section] { return section_rms(section); }};
  }
  codec_->pass(blocks);
}

void Encoder::learn(size_t block, const PairVerdict& verdict) {
  if (memories_[block]) codec_->learn(verdict, memories_[block].get());
}

std::vector<std::byte> Encoder::save() const {
  std::vector<std::byte> saved = {kMark, kVersion, static_cast<std::byte>(codec_->kind()), std::byte{0}};
  put_u32(saved, memories_.size());
  bool any = false;
  for (const auto& memory : memories_) {
    any = any || memory != nullptr;
    const std::vector<std::byte> one = memory ? memory->save() : std::vector<std::byte>();
    put_u32(saved, one.size());
    saved.insert(saved.end(), one.begin(), one.end());
  }
  return any ? saved : std::vector<std::byte>();
}

bool Encoder::load(Bytes saved) {
  if (saved.empty()) return true;
  Memories loaded = fresh_memories();
  if (saved[0] != kMark) {  // one byte a block
    if (saved.size() != loaded.size()) return false;
    for (size_t i = 0; i < loaded.size(); ++i) {
      if (loaded[i] && !loaded[i]->load(saved.subspan(i, 1))) return false;
    }
  } else {
    const std::array expected = {kMark, kVersion, static_cast<std::byte>(codec_->kind()), std::byte{0}};
    if (saved.size() < kHeaderBytes || std::memcmp(saved.data(), expected.data(), expected.size()) != 0) return false;
    if (!load_all(saved.subspan(expected.size()), loaded)) return false;
  }
  memories_ = std::move(loaded);
  return true;
}

bool Encoder::load_all(Bytes saved, const Memories& memories) {
  if (take_u32(saved) != memories.size()) return false;
  for (const auto& memory : memories) {
    const std::optional<uint32_t> size = take_u32(saved);
    if (!size || *size > saved.size()) return false;
    const Bytes one = saved.first(*size);
    saved = saved.subspan(*size);
    if (memory ? !memory->load(one) : !one.empty()) return false;
  }
  return saved.empty();
}

}  // namespace starling
