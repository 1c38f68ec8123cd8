// A frame from a stranger. First byte: the port, and whether to seal the rest so that it passes the envelope; second
// byte: payload size. What is accepted must survive another round.
#include <vector>

#include "gossip/limits.h"
#include "gossip/net/wire.h"
#include "kernels/check.h"
#include "tests/fuzz/sealed.h"
#include "tests/fuzz/targets.h"

namespace starling {
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
