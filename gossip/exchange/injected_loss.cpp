#include "gossip/exchange/injected_loss.h"

#include <array>
#include <cstring>

#include "gossip/net/hash.h"

namespace starling {

bool injected_loss(double loss, uint64_t rng_seed, const LossyFrame& frame) {
  if (loss <= 0) return false;
  std::array<std::byte, 8 + 8 + 32 + 32 + 4 + 1> bytes;
  size_t at = 0;
  const auto put_number = [&](uint64_t value, size_t size) {  // little end first on every machine
    for (size_t i = 0; i < size; ++i) bytes[at++] = static_cast<std::byte>(value >> (8 * i));
  };
  const auto put_id = [&](const PeerId& id) {
    std::memcpy(bytes.data() + at, id.bytes.data(), id.bytes.size());
    at += id.bytes.size();
  };
  put_number(rng_seed, 8);
  put_number(frame.round, 8);
  put_id(frame.from);
  put_id(frame.to);
  put_number(frame.index, 4);
  put_number(frame.phase, 1);
  return static_cast<double>(xxh3_64(bytes) >> 11) * 0x1.0p-53 < loss;
}

}  // namespace starling
