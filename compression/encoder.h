// An agent's side of the codec: the codec itself, how the shared sections are cut into blocks, and what the codec
// remembers of each block from one snapshot to the next. Exchanges hold none of that: they report how their blocks
// went, and the encoder learns from the reports before the next snapshot.
//
// Not thread-safe: one call at a time. The agent calls it from worker jobs only.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "compression/codec.h"
#include "compression/layout.h"

namespace starling {

class Encoder {
 public:
  Encoder(std::unique_ptr<Codec> codec, Layout layout);

  const Codec& codec() const { return *codec_; }
  const Layout& layout() const { return layout_; }
  size_t payload_bytes_max(size_t block) const;

  // A new snapshot of these sections, in the layout's order; pass() of its blocks follows. The views must stay readable
  // until then.
  void begin_snapshot(std::vector<ConstView> sections);

  // Codec::pass() of the blocks from `first` on, with what is remembered of each.
  void pass(size_t first, std::span<BlockPass> blocks);

  // How the block went in an exchange that ended, whatever became of the exchange.
  void learn(size_t block, const PairVerdict& verdict);

  // The memory of all blocks as bytes, for checkpoints; empty if the codec remembers nothing. Little-endian:
  //   0   u8 0x81, u8 version 1, u8 codec kind, u8 zero
  //   4   u32 blocks, then of each block: u32 size, that many bytes
  // load() also reads what checkpoints held before: one byte a block, the exponent of its step or -128, never 0x81.
  std::vector<std::byte> save() const;
  // False, and nothing is changed: the bytes are of another codec or layout, or damaged. Empty bytes are valid.
  [[nodiscard]] bool load(Bytes saved);

 private:
  struct SectionScale {
    float rms = 0;
    uint64_t measured_in = 0;  // this snapshot; 0: never
  };
  using Memories = std::vector<std::unique_ptr<CodecMemory>>;

  float section_rms(size_t section);
  Memories fresh_memories() const;
  static bool load_all(Bytes saved, const Memories& memories);

  std::unique_ptr<Codec> codec_;
  Layout layout_;
  Memories memories_;  // by block; null where the codec remembers nothing
  std::vector<ConstView> sections_;
  std::vector<SectionScale> scales_;
  uint64_t snapshots_ = 0;
};

}  // namespace starling
