// What every Transport must do. A World opens transports and lets their time pass:
//   Transport& open();                                  each at an address of its own
//   void close(Transport&);
//   bool run_until(std::function<bool()> condition);    false: the deadline came first
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "gossip/limits.h"
#include "gossip/net/transport.h"

namespace starling {

inline std::vector<std::byte> pattern(size_t byte_count, uint32_t start = 1) {
  std::vector<std::byte> bytes(byte_count);
  for (size_t i = 0; i < byte_count; ++i) bytes[i] = std::byte((start + i * 131) >> (i % 7));
  return bytes;
}

inline bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

template <typename World>
class TransportSuite : public testing::Test {
 protected:
  // The next frame at `transport`; fails without one.
  ReceivedFrame next(Transport& transport) {
    std::optional<ReceivedFrame> frame;
    EXPECT_TRUE(world_.run_until([&] { return (frame = transport.poll()).has_value(); })) << "no frame came";
    return frame.value_or(ReceivedFrame{});
  }
  World world_;
};

TYPED_TEST_SUITE_P(TransportSuite);

TYPED_TEST_P(TransportSuite, FramesArriveWholeOnTheirChannel) {
  Transport& a = this->world_.open();
  Transport& b = this->world_.open();
  EXPECT_FALSE(b.poll());
  for (const Channel channel : {Channel::kControl, Channel::kBulk}) {
    for (const size_t payload_bytes : {0, 1, 31, 8191, 60'000}) {
      const auto header = pattern(200, 3), payload = pattern(payload_bytes, 9);
      ASSERT_EQ(a.send(b.local(), channel, {header, SharedBytes::copy_of(payload)}), SendStatus::kQueued);
      const ReceivedFrame frame = this->next(b);
      EXPECT_EQ(frame.channel, channel);
      EXPECT_TRUE(equal(frame.header.span(), header));
      EXPECT_TRUE(equal(frame.payload.span(), payload)) << payload_bytes;
      EXPECT_EQ(frame.payload.empty(), payload_bytes == 0);
    }
  }
  EXPECT_FALSE(a.poll());
}

TYPED_TEST_P(TransportSuite, LimitsAreExact) {
  Transport& a = this->world_.open();
  Transport& b = this->world_.open();
  const auto send = [&](size_t header_bytes, size_t payload_bytes) {
    return a.send(b.local(), Channel::kBulk, {pattern(header_bytes), SharedBytes::take(pattern(payload_bytes))});
  };
  EXPECT_EQ(send(kControlFrameBytesMax + 1, 1), SendStatus::kTooLarge);
  EXPECT_EQ(send(100, kPayloadBytesMax + 1), SendStatus::kTooLarge);
  EXPECT_EQ(a.counters().frames_dropped, 2u);
  EXPECT_EQ(send(kControlFrameBytesMax, kPayloadBytesMax), SendStatus::kQueued);
  const ReceivedFrame frame = this->next(b);
  EXPECT_TRUE(equal(frame.header.span(), pattern(kControlFrameBytesMax)));
  EXPECT_TRUE(equal(frame.payload.span(), pattern(kPayloadBytesMax)));
  EXPECT_EQ(a.send(b.local(), Channel::kControl, {pattern(kControlFrameBytesMax), {}}), SendStatus::kQueued);
  EXPECT_EQ(this->next(b).header.size, kControlFrameBytesMax);
  EXPECT_EQ(b.counters().frames_refused, 0u);
}

TYPED_TEST_P(TransportSuite, SenderKeepsThePayloadAliveAndThenLetsGo) {
  Transport& a = this->world_.open();
  Transport& b = this->world_.open();
  const auto expected = pattern(100'000);
  std::weak_ptr<const void> watch;
  {
    const auto owner = std::make_shared<const std::vector<std::byte>>(expected);
    watch = owner;
    ASSERT_EQ(a.send(b.local(), Channel::kBulk, {pattern(50), {owner, owner->data(), owner->size()}}),
              SendStatus::kQueued);
  }
  EXPECT_TRUE(equal(this->next(b).payload.span(), expected));
  EXPECT_TRUE(this->world_.run_until([&] { return watch.expired(); })) << "the payload is never released";
}

TYPED_TEST_P(TransportSuite, ReceivedBytesOutliveTheTransports) {
  Transport& a = this->world_.open();
  Transport& b = this->world_.open();
  ASSERT_EQ(a.send(b.local(), Channel::kBulk, {pattern(20), SharedBytes::take(pattern(50'000))}), SendStatus::kQueued);
  const ReceivedFrame frame = this->next(b);
  this->world_.close(a);
  this->world_.close(b);
  EXPECT_TRUE(equal(frame.header.span(), pattern(20)));
  EXPECT_TRUE(equal(frame.payload.span(), pattern(50'000)));
}

TYPED_TEST_P(TransportSuite, BadAddressesAreNamed) {
  Transport& a = this->world_.open();
  const Endpoint bad[] = {{"", 7400},    {"bad host", 7400}, {"tcp://x", 7400},
                          {"a;b", 7400}, {"::g", 7400},      {"127.0.0.1", 0}};
  for (const Endpoint& to : bad) {
    EXPECT_EQ(a.send(to, Channel::kControl, {pattern(9), {}}), SendStatus::kBadAddress) << to.to_string();
  }
  EXPECT_EQ(a.send({"127.0.0.1", 65535}, Channel::kBulk, {pattern(9), {}}), SendStatus::kBadAddress);
  EXPECT_EQ(a.counters().frames_dropped, std::size(bad) + 1);
  EXPECT_EQ(a.counters().frames_sent, 0u);
}

TYPED_TEST_P(TransportSuite, ADeadPeerHarmsNobody) {
  Transport& a = this->world_.open();
  Transport& b = this->world_.open();
  Transport& gone = this->world_.open();
  const Endpoint nobody = gone.local();
  this->world_.close(gone);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(a.send(nobody, Channel::kControl, {pattern(100), {}}), SendStatus::kQueued);
  }
  EXPECT_EQ(a.send(b.local(), Channel::kControl, {pattern(77), {}}), SendStatus::kQueued);
  EXPECT_EQ(this->next(b).header.size, 77u);
  a.forget(nobody);
  a.forget({"127.0.0.1", 9});  // never met
}

TYPED_TEST_P(TransportSuite, AForgottenPeerCanBeContactedAgain) {
  Transport& a = this->world_.open();
  Transport& b = this->world_.open();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(a.send(b.local(), Channel::kBulk, {pattern(10), SharedBytes::take(pattern(10))}), SendStatus::kQueued);
    EXPECT_EQ(this->next(b).payload.size, 10u);
    a.forget(b.local());
  }
}

TYPED_TEST_P(TransportSuite, TalksToItself) {
  Transport& a = this->world_.open();
  EXPECT_EQ(a.send(a.local(), Channel::kControl, {pattern(33), {}}), SendStatus::kQueued);
  EXPECT_EQ(this->next(a).header.size, 33u);
}

TYPED_TEST_P(TransportSuite, ManyTalkToManyAndTheCountsAddUp) {
  constexpr size_t kPeers = 4, kFrames = 50;
  std::vector<Transport*> peers;
  for (size_t i = 0; i < kPeers; ++i) peers.push_back(&this->world_.open());
  for (size_t n = 0; n < kFrames; ++n) {
    for (Transport* from : peers) {
      for (Transport* to : peers) {
        if (from == to) continue;
        const Channel channel = n % 2 ? Channel::kBulk : Channel::kControl;
        SharedBytes payload;
        if (n % 2) payload = SharedBytes::take(pattern(1000 + n));
        ASSERT_EQ(from->send(to->local(), channel, {pattern(10 + n), payload}), SendStatus::kQueued);
      }
    }
  }
  std::vector<size_t> heard(kPeers);
  const size_t expected = kFrames * (kPeers - 1);
  EXPECT_TRUE(this->world_.run_until([&] {
    for (size_t i = 0; i < kPeers; ++i) {
      while (peers[i]->poll()) ++heard[i];
    }
    return heard == std::vector<size_t>(kPeers, expected);
  }));
  uint64_t bytes = 0;
  for (size_t n = 0; n < kFrames; ++n) bytes += (kPeers - 1) * (10 + n + (n % 2 ? 1000 + n : 0));
  for (Transport* peer : peers) {
    const TransportCounters counters = peer->counters();
    EXPECT_EQ(counters.frames_sent, expected);
    EXPECT_EQ(counters.frames_received, expected);
    EXPECT_EQ(counters.bytes_sent, bytes);
    EXPECT_EQ(counters.bytes_received, bytes);
    EXPECT_EQ(counters.frames_refused + counters.frames_dropped, 0u);
  }
}

TYPED_TEST_P(TransportSuite, EveryoneIsBoundSomewhereElse) {
  Transport& a = this->world_.open();
  Transport& b = this->world_.open();
  EXPECT_NE(a.local().port, 0);
  EXPECT_NE(a.local(), b.local());
}

REGISTER_TYPED_TEST_SUITE_P(TransportSuite, FramesArriveWholeOnTheirChannel, LimitsAreExact,
                            SenderKeepsThePayloadAliveAndThenLetsGo, ReceivedBytesOutliveTheTransports,
                            BadAddressesAreNamed, ADeadPeerHarmsNobody, AForgottenPeerCanBeContactedAgain,
                            TalksToItself, ManyTalkToManyAndTheCountsAddUp, EveryoneIsBoundSomewhereElse);

}  // namespace starling
