// The payload of one block, for tests that encode block by block.
#pragma once

#include <optional>

#include "compression/encoder.h"

namespace starling {

// Its size; nullopt if a value is not finite. REQUIRES: encoder.begin_snapshot() came before.
inline std::optional<size_t> encode_block(Encoder& encoder, size_t block, View x, MutableBytes out) {
  BlockPass pass{.x = x, .terms = {}, .out = out};
  encoder.pass(block, {&pass, 1});
  return pass.size;
}

}  // namespace starling
