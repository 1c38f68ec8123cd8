// Addresses and names as a person or a peer writes them: what parses must print and parse the same.
#include <algorithm>
#include <string_view>

#include "gossip/net/text.h"
#include "gossip/peer.h"
#include "kernels/check.h"
#include "tests/fuzz/targets.h"

namespace starling {

void fuzz_endpoint(std::span<const std::byte> input) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  if (const auto endpoint = Endpoint::parse(text)) {
    STARLING_CHECK(Endpoint::is_valid_host(endpoint->host));
    STARLING_CHECK(Endpoint::parse(endpoint->to_string()) == endpoint);
  }
  if (const auto id = PeerId::parse(text)) STARLING_CHECK(PeerId::parse(id->hex()) == id);
  if (is_one_line(text)) {
    STARLING_CHECK(is_plain_text(text));
    STARLING_CHECK(std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }));
  }
}

}  // namespace starling
