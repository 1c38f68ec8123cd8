// Strangers at both ports of a ZmqTransport, speaking raw TCP. It must go on serving, keep its memory, and count.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gossip/limits.h"
#include "gossip/net/wire.h"
#include "gossip/net/zmq_transport.h"
#include "gossip/rng.h"
#include "tests/support/loopback.h"
#include "tests/support/sanitized.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A TCP connection that speaks ZMTP 3.0 as far as the attack wants.
class Stranger {
 public:
  explicit Stranger(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval patience{5, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    const sockaddr_in address = loopback(port);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~Stranger() { ::close(fd_); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  bool connected() const { return connected_; }

  // False: the other side hung up, or takes no more.
  bool write(const std::string& bytes) {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t sent = ::send(fd_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      at += static_cast<size_t>(sent);
    }
    return true;
  }

  bool shake_hands(const std::string& socket_type = "DEALER") {
    std::string greeting("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16);
    greeting.resize(64);
    std::string ready("\5READY", 6);
    ready += std::string("\x0bSocket-Type\0\0\0", 15) + static_cast<char>(socket_type.size()) + socket_type;
    // Libzmq hangs up on data that comes before it has answered.
    if (!write(greeting) || read(64).size() != 64) return false;
    if (!write(std::string(1, 4) + static_cast<char>(ready.size()) + ready)) return false;
    const std::string answer = read(2);
    return answer.size() == 2 && read(static_cast<uint8_t>(answer[1])).starts_with("\5READY");
  }

  std::string read(size_t byte_count) {
    std::string bytes(byte_count, '\0');
    const ssize_t got = ::recv(fd_, bytes.data(), byte_count, MSG_WAITALL);
    bytes.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return bytes;
  }

  bool hung_up() {
    char bytes[256];
    ssize_t got;
    do {
      got = ::recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT);
    } while (got > 0);
    return got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  }

  bool write_part(const std::string& bytes, bool more) { return write_part_header(bytes.size(), more) && write(bytes); }
  bool write_part_header(uint64_t byte_count, bool more) {
    std::string header(1, static_cast<char>(2 | (more ? 1 : 0)));  // the long form
    for (int shift = 56; shift >= 0; shift -= 8) header += static_cast<char>(byte_count >> shift);
    return write(header);
  }

 private:
  int fd_;
  bool connected_ = false;
};

size_t peak_memory_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  }
  return 0;
}

class HostileNetworkTest : public testing::Test {
 protected:
  std::vector<uint16_t> ports() const {
    const uint16_t port = victim_.local().port;
    return {port, static_cast<uint16_t>(port + 1)};
  }

  // An honest peer is heard on both channels.
  void expect_serving() {
    for (const Channel channel : {Channel::kControl, Channel::kBulk}) {
      const std::vector<std::byte> header(40, std::byte(++mark_));
      ASSERT_EQ(honest_.send(victim_.local(), channel, {header, {}}), SendStatus::kQueued);
      EXPECT_TRUE(run_until([&] {
        while (const auto frame = victim_.poll()) {
          if (std::ranges::equal(frame->header.span(), header)) return true;
          expect_undecodable(*frame);
        }
        return false;
      }));
    }
  }

  // Bytes that begin like a ZMTP 1.0 length come through as frames; the wire refuses them.
  void expect_undecodable(const ReceivedFrame& frame) {
    FrameHeader header;
    Message message;
    EXPECT_NE(decode_frame(frame.channel, frame.header.span(), frame.payload.span(), &header, &message),
              DecodeStatus::kOk);
  }

  bool run_until(const std::function<bool()>& condition) {
    const TimePoint deadline = clock_.now() + seconds(20);
    while (!condition()) {
      if (clock_.now() > deadline) return false;
      victim_.wait_until(clock_.now() + milliseconds(1));
      honest_.wait_until(clock_.now() + milliseconds(1));
    }
    return true;
  }

  SteadyClock clock_;
  ZmqContext context_;
  ZmqTransport victim_{{"127.0.0.1", 0}, context_};
  ZmqTransport honest_{{"127.0.0.1", 0}, context_};
  uint8_t mark_ = 0;
};

TEST_F(HostileNetworkTest, RawGarbage) {
  Rng rng(11);
  for (int i = 0; i < 40; ++i) {
    for (const uint16_t port : ports()) {
      Stranger stranger(port);
      ASSERT_TRUE(stranger.connected());
      std::string garbage(rng.below(4000), '\0');
      for (char& c : garbage) c = static_cast<char>(rng.next_u64());
      stranger.write(garbage);
    }
  }
  expect_serving();
}

TEST_F(HostileNetworkTest, AnotherProtocol) {
  for (const uint16_t port : ports()) {
    Stranger web(port);
    web.write("GET / HTTP/1.1\r\nHost: example\r\n\r\n");
    Stranger wrong_type(port);
    wrong_type.shake_hands("PUB");
    wrong_type.write_part("never to be heard", false);
    Stranger half(port);
    half.write(std::string("\xff\0\0\0\0\0\0\0\1\x7f", 10));
    Stranger silent(port);
    expect_serving();
  }
}

TEST_F(HostileNetworkTest, HugeFramesCostNoMemory) {
  const size_t before = peak_memory_bytes();
  const std::string chunk(1 << 20, 'x');
  for (const uint16_t port : ports()) {
    for (int i = 0; i < 3; ++i) {
      Stranger stranger(port);
      ASSERT_TRUE(stranger.shake_hands());
      size_t sent = 0;
      if (stranger.write_part_header(100 << 20, false)) {
        while (sent < 100 && stranger.write(chunk)) ++sent;
      }
      EXPECT_LT(sent, 100u) << "nobody hung up";
    }
  }
  expect_serving();
  EXPECT_EQ(victim_.counters().frames_received, 2u);
  EXPECT_LT(peak_memory_bytes(), before + (64u << 20));
}

TEST_F(HostileNetworkTest, WrongNumbersOfPartsAreRefusedAndCounted) {
  uint64_t refused = 0;
  for (const uint16_t port : ports()) {
    Stranger stranger(port);
    ASSERT_TRUE(stranger.shake_hands());
    for (const int part_count : {3, 4, 50, 2000}) {
      for (int i = 1; i <= part_count; ++i) ASSERT_TRUE(stranger.write_part("part", i < part_count));
      ++refused;
    }
    ASSERT_TRUE(stranger.write_part("one", false));
    EXPECT_TRUE(run_until([&] {
      while (const auto frame = victim_.poll()) {
        if (frame->header.size == 3) return true;
      }
      return false;
    }));
    EXPECT_EQ(victim_.counters().frames_refused, refused);
  }
  expect_serving();
}

TEST_F(HostileNetworkTest, PartsBeyondTheirLimitsAreRefusedAndCounted) {
  Stranger stranger(ports()[1]);
  ASSERT_TRUE(stranger.shake_hands());
  // Below ZeroMQ's own limit for the bulk port, above that of a header and of a payload.
  ASSERT_TRUE(stranger.write_part(std::string(kControlFrameBytesMax + 1, 'h'), false));
  ASSERT_TRUE(stranger.write_part("header", true));
  ASSERT_TRUE(stranger.write_part(std::string(kPayloadBytesMax + 1, 'p'), false));
  EXPECT_TRUE(run_until([&] {
    EXPECT_FALSE(victim_.poll());
    return victim_.counters().frames_refused == 2;
  }));
  expect_serving();
}

TEST_F(HostileNetworkTest, AFloodDoesNotStopTheLoop) {
  // A thousand refused frames and as many accepted ones, then silence in the middle of a frame.
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (const uint16_t port : ports()) {
    strangers.push_back(std::make_unique<Stranger>(port));
    ASSERT_TRUE(strangers.back()->shake_hands());
    for (int i = 0; i < 500; ++i) {
      ASSERT_TRUE(strangers.back()->write_part("a", true) && strangers.back()->write_part("b", true) &&
                  strangers.back()->write_part("c", false));
      ASSERT_TRUE(strangers.back()->write_part("noise", false));
    }
    strangers.back()->write_part_header(1000, false);
    strangers.back()->write("only this");
    EXPECT_TRUE(run_until([&] {
      while (victim_.poll()) {
      }
      return victim_.counters().frames_refused == 500 * strangers.size();
    }));
  }
  expect_serving();
}

// The bounds are some times those of the gate, which a busy machine may keep waiting.
// AddressSanitizer keeps what is freed.
void expect_grown_less(size_t before, size_t mebibytes) {
  if (under_asan()) return;
  EXPECT_LT(peak_memory_bytes(), before + (mebibytes << 20));  // the kernel rounds: it may also fall
}

TEST_F(HostileNetworkTest, EndlessMessagesAreCut) {
  std::string parts;
  for (int i = 0; i < 1000; ++i) parts += std::string("\3\0\0\0\0\0\0\3\xe8", 9) + std::string(1000, 'x');
  for (const uint16_t port : ports()) {
    const size_t before = peak_memory_bytes();
    Stranger stranger(port);
    ASSERT_TRUE(stranger.shake_hands());
    size_t sent = 0;
    while (sent < 300 && stranger.write(parts)) ++sent;
    EXPECT_LT(sent, 300u) << "nobody hung up";
    expect_grown_less(before, 150);
  }
  EXPECT_TRUE(run_until([&] { return victim_.counters().links.cut == 2; }));
  expect_serving();
}

TEST_F(HostileNetworkTest, HandshakesThatNeverEndCostLittle) {
  const std::string begun = std::string("\6\0\0\0\0\0\x40\0\0\5READY", 15) + std::string((4 << 20) - 7, '\0');
  const size_t before = peak_memory_bytes();
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 60; ++i) {
    strangers.push_back(std::make_unique<Stranger>(ports()[1]));
    std::string greeting("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16);
    greeting.resize(64);
    if (strangers.back()->write(greeting)) strangers.back()->write(begun);
  }
  expect_grown_less(before, 160);
  EXPECT_TRUE(run_until([&] { return victim_.counters().links.cut > 30; }));
  expect_serving();
}

TEST_F(HostileNetworkTest, FramesThatNobodyCanReadCostTheirLink) {
  Stranger stranger(ports()[0]);
  ASSERT_TRUE(stranger.shake_hands());
  for (uint32_t i = 0; i < 2 * kUnreadableFramesMax; ++i) {
    if (!stranger.write(std::string("\1\1a\1\1b\0\1c", 9))) break;
  }
  EXPECT_TRUE(run_until([&] {
    (void)victim_.poll();
    return stranger.hung_up();
  }));
  EXPECT_EQ(victim_.counters().links.cut, 1u);
  expect_serving();
}

TEST_F(HostileNetworkTest, SilentConnectionsGiveTheirPlacesBack) {
  std::vector<std::unique_ptr<Stranger>> silent;
  for (int i = 0; i < 100; ++i) {
    for (const uint16_t port : ports()) silent.push_back(std::make_unique<Stranger>(port));
  }
  expect_serving();
  // The handshake has 3 s; after that ZeroMQ hangs up.
  EXPECT_TRUE(run_until([&] {
    std::erase_if(silent, [](const auto& stranger) { return stranger->hung_up(); });
    return silent.empty();
  }));
  expect_serving();
}

}  // namespace
}  // namespace starling
