// A frame from a stranger. First byte: the port, and whether to seal the rest so that it passes the envelope; second
// byte: payload size. What is accepted must survive another round.
#include <algorithm>
#include <cstring>
#include <vector>

#include "gossip/limits.h"
#include "gossip/net/hash.h"
#include "gossip/net/wire.h"
#include "kernels/check.h"
#include "tests/fuzz/targets.h"

namespace starling {
namespace {

std::vector<std::byte> sealed(std::span<const std::byte> segment) {
  std::vector<std::byte> header(24 + segment.size() / 8 * 8);
  const uint16_t version = kProtocolVersion;
  const uint32_t table[2] = {0, static_cast<uint32_t>(segment.size() / 8)};
  std::memcpy(header.data(), "STRL", 4);
  std::memcpy(header.data() + 4, &version, sizeof version);
  std::memcpy(header.data() + 16, table, sizeof table);
  std::copy_n(segment.begin(), segment.size() / 8 * 8, header.begin() + 24);
  const uint64_t checksum = xxh3_64(std::span(header).subspan(16));
  std::memcpy(header.data() + 8, &checksum, sizeof checksum);
  return header;
}

}  // namespace

void fuzz_wire(std::span<const std::byte> input) {
  if (input.size() < 2) return;
  const Channel channel = (input[0] & std::byte{1}) == std::byte{} ? Channel::kControl : Channel::kBulk;
  const bool seal = (input[0] & std::byte{2}) != std::byte{};
  const std::vector<std::byte> payload(static_cast<size_t>(input[1]));
  std::vector<std::byte> header(input.begin() + 2, input.end());
  if (seal) header = sealed(header);
  FrameHeader first, second;
  Message message, again;
  if (decode_frame(channel, header, payload, &first, &message) != DecodeStatus::kOk) return;
  const std::vector<std::byte> encoded = encode_frame_header(first, message, payload);
  // A message can only grow past the limit by texts that shared their bytes.
  if (encoded.size() > kControlFrameBytesMax) return;
  STARLING_CHECK(decode_frame(channel, encoded, payload, &second, &again) == DecodeStatus::kOk);
  STARLING_CHECK(encode_frame_header(second, again, payload) == encoded);
}

}  // namespace starling
