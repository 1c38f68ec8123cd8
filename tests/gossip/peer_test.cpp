#include "gossip/peer.h"

#include <gtest/gtest.h>

#include "gossip/rng.h"

namespace starling {
namespace {

TEST(PeerId, HexGoesBothWays) {
  PeerId id;
  for (size_t i = 0; i < id.bytes.size(); ++i) id.bytes[i] = static_cast<uint8_t>(0xf0 - 7 * i);
  EXPECT_EQ(id.hex().size(), 64u);
  EXPECT_EQ(id.hex().substr(0, 6), "f0e9e2");
  EXPECT_EQ(id.short_name(), id.hex().substr(0, 8));
  EXPECT_EQ(PeerId::parse(id.hex()), id);
  std::string upper = id.hex();
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  EXPECT_EQ(PeerId::parse(upper), id);
}

TEST(PeerId, IdsAreOrderedByTheirBytes) {
  Rng rng(1);
  for (int i = 0; i < 2000; ++i) {
    PeerId a, b;
    for (uint8_t& byte : a.bytes) byte = static_cast<uint8_t>(rng.below(256));
    b = a;
    for (uint64_t change = rng.below(3); change > 0; --change) {
      b.bytes[rng.below(b.bytes.size())] = static_cast<uint8_t>(rng.below(256));
    }
    EXPECT_EQ(a <=> b, a.bytes <=> b.bytes) << a.hex() << " " << b.hex();
    EXPECT_EQ(a == b, a.bytes == b.bytes);
  }
}

TEST(PeerId, RefusesWhatIsNotExactly64Digits) {
  const std::string good(64, 'a');
  ASSERT_TRUE(PeerId::parse(good));
  EXPECT_FALSE(PeerId::parse(""));
  EXPECT_FALSE(PeerId::parse(good.substr(1)));
  EXPECT_FALSE(PeerId::parse(good + "a"));
  for (const char bad : {'g', ' ', '/', ':', '@', 'G', '`', '\0'}) {
    std::string text = good;
    text[37] = bad;
    EXPECT_FALSE(PeerId::parse(text)) << text;
  }
}

TEST(Endpoint, ParsesWhatItPrints) {
  const std::pair<const char*, Endpoint> cases[] = {
      {"127.0.0.1:7400", {"127.0.0.1", 7400}},   {"node-3.lab_a.example:65535", {"node-3.lab_a.example", 65535}},
      {"localhost:0", {"localhost", 0}},         {"[::1]:7400", {"::1", 7400}},
      {"[fe80::1%eth0]:1", {"fe80::1%eth0", 1}}, {"[::ffff:10.0.0.1]:80", {"::ffff:10.0.0.1", 80}},
  };
  for (const auto& [text, endpoint] : cases) {
    EXPECT_EQ(Endpoint::parse(text), endpoint) << text;
    EXPECT_EQ(endpoint.to_string(), text);
  }
}

TEST(Endpoint, IsStrict) {
  for (const char* text :
       {"",         ":",       ":7400",    "host",      "host:",   "host:65536", "host:123456", "host:-1",
        "host:+1",  "host: 1", "host:1 ",  "host:0x10", "host:1a", "ho st:1",    "host/x:1",    "tcp://host:1",
        "::1:7400", "[::1]",   "[::1]:",   "[::1]7400", "[]:1",    "[host]:1",   "[::1:1",      "::1]:1",
        "-host:1",  "h*st:1",  "host;x:1", "[::1%]:1",  "[::g]:1", "[%eth0]:1",  "host:1:2",    "ho\nst:1"}) {
    EXPECT_FALSE(Endpoint::parse(text)) << text;
  }
  EXPECT_TRUE(Endpoint::parse(std::string(255, 'a') + ":1"));
  EXPECT_FALSE(Endpoint::parse(std::string(256, 'a') + ":1"));
}

}  // namespace
}  // namespace starling
