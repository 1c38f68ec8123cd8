// The model that a donor serves: it does not change, and is divided into hashed blocks. Usually a checkpoint.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "gossip/net/transport.h"

namespace starling {

class ModelFile {
 public:
  virtual ~ModelFile() = default;
  virtual uint64_t snapshot() const = 0;  // differs between any two files of one donor
  virtual uint64_t round() const = 0;
  virtual uint64_t steps() const = 0;
  virtual uint64_t total_bytes() const = 0;                                // of the params, fp32 little-endian
  virtual const std::array<uint8_t, 32>& root() const = 0;                 // BLAKE2b-256 of the hashes in order
  virtual const std::vector<std::array<uint8_t, 16>>& hashes() const = 0;  // XXH3-128 per kTransferBlockBytes block
  // Empty: the file was damaged meanwhile. REQUIRES: index < hashes().size().
  virtual SharedBytes block(uint32_t index) const = 0;
};

}  // namespace starling
