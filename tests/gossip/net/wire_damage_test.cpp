// What a network or a stranger may do to a frame. Nothing may crash, and no damage may pass.
#include <gtest/gtest.h>

#include "gossip/net/hash.h"
#include "gossip/rng.h"
#include "tests/gossip/net/wire_samples.h"

namespace starling {
namespace {

using Bytes = std::vector<std::byte>;

DecodeStatus decode(const Sample& sample, std::span<const std::byte> header, std::span<const std::byte> payload) {
  FrameHeader header_out;
  Message message_out;
  return decode_frame(channel_of(sample.message), header, payload, &header_out, &message_out);
}

void reseal(Bytes& header) {
  const uint64_t checksum = xxh3_64(std::span(header).subspan(16));
  std::memcpy(header.data() + 8, &checksum, sizeof checksum);
}

TEST(WireDamage, EveryTruncationIsRefused) {
  for (const Sample& sample : wire_samples()) {
    const Bytes header = encode(sample);
    for (size_t size = 0; size < header.size(); ++size) {
      // An exact copy, so that a sanitizer notices a read past its end.
      Bytes part(header.begin(), header.begin() + static_cast<ptrdiff_t>(size));
      ASSERT_NE(decode(sample, part, sample.payload), DecodeStatus::kOk) << sample.name << " " << size;
      if (size < 24) continue;
      reseal(part);
      ASSERT_NE(decode(sample, part, sample.payload), DecodeStatus::kOk) << sample.name << " resealed " << size;
    }
  }
}

TEST(WireDamage, EveryExtensionIsRefused) {
  for (const Sample& sample : wire_samples()) {
    Bytes header = encode(sample);
    for (int i = 0; i < 24; ++i) {
      header.push_back({});
      ASSERT_EQ(decode(sample, header, sample.payload), DecodeStatus::kBadChecksum);
      reseal(header);
      ASSERT_EQ(decode(sample, header, sample.payload), DecodeStatus::kMalformed);
    }
  }
}

TEST(WireDamage, EveryFlippedBitIsRefused) {
  for (const Sample& sample : wire_samples()) {
    Bytes header = encode(sample);
    for (size_t bit = 0; bit < 8 * header.size(); ++bit) {
      header[bit / 8] ^= std::byte(1 << bit % 8);
      ASSERT_NE(decode(sample, header, sample.payload), DecodeStatus::kOk) << sample.name << " bit " << bit;
      header[bit / 8] ^= std::byte(1 << bit % 8);
    }
    Bytes payload = sample.payload;
    for (size_t bit = 0; bit < 8 * payload.size(); ++bit) {
      payload[bit / 8] ^= std::byte(1 << bit % 8);
      ASSERT_EQ(decode(sample, header, payload), DecodeStatus::kPayloadMismatch) << sample.name << " bit " << bit;
      payload[bit / 8] ^= std::byte(1 << bit % 8);
    }
    ASSERT_EQ(decode(sample, header, payload), DecodeStatus::kOk);
  }
}

TEST(WireDamage, TheEnvelopeNamesTheCause) {
  const Sample sample = wire_samples()[0];
  const Bytes good = encode(sample);
  const auto status_with = [&](size_t at, std::byte value) {
    Bytes header = good;
    header[at] = value;
    return decode(sample, header, {});
  };
  EXPECT_EQ(status_with(0, std::byte{'X'}), DecodeStatus::kBadMagic);
  EXPECT_EQ(status_with(4, std::byte{3}), DecodeStatus::kWrongVersion);
  EXPECT_EQ(status_with(6, std::byte{1}), DecodeStatus::kMalformed);
  EXPECT_EQ(status_with(8, good[8] ^ std::byte{1}), DecodeStatus::kBadChecksum);
  EXPECT_EQ(decode(sample, std::span(good).first(31), {}), DecodeStatus::kTooShort);
  EXPECT_EQ(decode(sample, {}, {}), DecodeStatus::kTooShort);
  EXPECT_EQ(decode(sample, Bytes(kControlFrameBytesMax + 1), {}), DecodeStatus::kTooLong);
}

// A liar seals what it damages: now capnp and the ranges are the only guards. What passes must be a message that this
// agent could have sent itself.
TEST(WireDamage, SealedDamageNeverCrashes) {
  const std::vector<Sample> samples = wire_samples();
  Rng rng(20240617);
  uint64_t passed = 0, refused = 0;
  for (int i = 0; i < 40'000; ++i) {
    const Sample& sample = samples[rng.below(static_cast<uint32_t>(samples.size()))];
    Bytes header = encode(sample);
    const uint32_t flips = 1 + rng.below(4);
    for (uint32_t flip = 0; flip < flips; ++flip) {
      const size_t at = 16 + rng.below(static_cast<uint32_t>(header.size() - 16));
      header[at] ^= std::byte(1 << rng.below(8));
    }
    reseal(header);
    FrameHeader header_out;
    Message message;
    if (decode_frame(channel_of(sample.message), header, sample.payload, &header_out, &message) != DecodeStatus::kOk) {
      ++refused;
      continue;
    }
    ++passed;
    const Bytes again = encode_frame_header(header_out, message, sample.payload);
    FrameHeader header_again;
    Message message_again;
    ASSERT_EQ(decode_frame(channel_of(message), again, sample.payload, &header_again, &message_again),
              DecodeStatus::kOk)
        << sample.name;
    ASSERT_TRUE(same(header_out, header_again) && same(message, message_again)) << sample.name;
  }
  EXPECT_GT(passed, 1000u);
  EXPECT_GT(refused, 1000u);
}

TEST(WireDamage, RandomBytesAreRefused) {
  const Sample sample = wire_samples()[0];
  Rng rng(7);
  for (int i = 0; i < 20'000; ++i) {
    Bytes header(rng.below(300));
    for (std::byte& b : header) b = std::byte(rng.next_u64());
    ASSERT_NE(decode(sample, header, {}), DecodeStatus::kOk);
    if (header.size() < 24) continue;
    const Bytes good = encode(sample);
    std::copy(good.begin(), good.begin() + 8, header.begin());
    header.resize(header.size() / 8 * 8);
    const uint32_t table[2] = {0, static_cast<uint32_t>(header.size() / 8 - 3)};
    std::memcpy(header.data() + 16, table, sizeof table);
    reseal(header);
    ASSERT_NE(decode(sample, header, {}), DecodeStatus::kOk);
  }
}

}  // namespace
}  // namespace starling
