#include "gossip/net/hash.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace starling {
namespace {

std::span<const std::byte> bytes(const std::string& s) { return std::as_bytes(std::span(s)); }

template <typename Digest>
std::string hex(const Digest& digest) {
  std::string text;
  for (const uint8_t b : digest) {
    text += "0123456789abcdef"[b >> 4];
    text += "0123456789abcdef"[b & 15];
  }
  return text;
}

// Values of other implementations: Python's hashlib.blake2b(digest_size=32), xxhsum -H3 and -H2.
TEST(Hash, Blake2bAgreesWithOthers) {
  EXPECT_EQ(hex(blake2b_256({})), "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
  EXPECT_EQ(hex(blake2b_256(bytes("abc"))), "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
}

TEST(Hash, Blake2bInPiecesIsTheSame) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 37);
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{127}, size_t{128}, size_t{129}, size_t{1000}}) {
    Blake2b256 pieces;
    pieces.update(bytes(text).first(cut));
    pieces.update(bytes(text).subspan(cut));
    EXPECT_EQ(pieces.finish(), blake2b_256(bytes(text))) << cut;
  }
}

TEST(Hash, Xxh3AgreesWithOthers) {
  EXPECT_EQ(xxh3_64({}), 0x2d06800538d394c2u);
  EXPECT_EQ(hex(xxh3_128({})), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(xxh3_64(bytes("abc")), 0x78af5f94892f3950u);
  EXPECT_EQ(hex(xxh3_128(bytes("abc"))), "06b05ab6733a618578af5f94892f3950");
}

TEST(Hash, ASecretNumberIsOfBothAndNeverZero) {
  const std::string both("\x07\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0", 16);
  const auto digest = blake2b_256(bytes(both));
  uint64_t expected;
  std::memcpy(&expected, digest.data(), sizeof expected);
  EXPECT_EQ(secret_number(7, 9), expected);
  EXPECT_EQ(secret_number(7, bytes(both).last(8)), expected);
  EXPECT_NE(secret_number(7, 10), expected);
  EXPECT_NE(secret_number(8, 9), expected);
}

TEST(Hash, EveryBitCounts) {
  std::vector<std::byte> data(300, std::byte{0x5a});
  const uint64_t whole = xxh3_64(data);
  for (size_t bit = 0; bit < data.size() * 8; ++bit) {
    data[bit / 8] ^= std::byte(1 << bit % 8);
    EXPECT_NE(xxh3_64(data), whole) << bit;
    data[bit / 8] ^= std::byte(1 << bit % 8);
  }
}

}  // namespace
}  // namespace starling
