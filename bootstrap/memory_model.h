// A model that a donor serves from memory, for agents without checkpoint files.
#pragma once

#include "bootstrap/model_file.h"

namespace starling {

class MemoryModel final : public ModelFile {
 public:
  // `params`: fp32 little-endian.
  MemoryModel(SharedBytes params, uint64_t snapshot, uint64_t round, uint64_t steps);
  uint64_t snapshot() const override { return snapshot_; }
  uint64_t round() const override { return round_; }
  uint64_t steps() const override { return steps_; }
  uint64_t total_bytes() const override { return params_.size; }
  const std::array<uint8_t, 32>& root() const override { return root_; }
  const std::vector<std::array<uint8_t, 16>>& hashes() const override { return hashes_; }
  SharedBytes block(uint32_t index) const override;

 private:
  SharedBytes params_;
  uint64_t snapshot_, round_, steps_;
  std::array<uint8_t, 32> root_;
  std::vector<std::array<uint8_t, 16>> hashes_;
};

}  // namespace starling
