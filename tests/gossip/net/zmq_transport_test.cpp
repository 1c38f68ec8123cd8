// What is ZeroMQ's alone; the rest stands in tests/conformance/transport_suite.h.
#include "gossip/net/zmq_transport.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

#include "gossip/limits.h"
#include "tests/support/loopback.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// An address of ours that refuses every link while this lives: both ports are bound, so that nobody else gets them, and
// neither listens. (A transport just closed will not do: ZeroMQ listens on for a moment.)
class SilentAddress {
 public:
  SilentAddress() {
    while (!bind_pair()) close_both();
  }
  ~SilentAddress() { close_both(); }
  SilentAddress(const SilentAddress&) = delete;
  SilentAddress& operator=(const SilentAddress&) = delete;
  Endpoint endpoint() const { return {"127.0.0.1", port_}; }

 private:
  static bool bind_one(int* fd, uint16_t port) {
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0) throw std::runtime_error("no socket to be had");
    const sockaddr_in address = loopback(port);
    return bind(*fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  bool bind_pair() {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    if (!bind_one(&fds_[0], 0)) throw std::runtime_error("no port to be had");
    getsockname(fds_[0], reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    return port_ != 65535 && bind_one(&fds_[1], static_cast<uint16_t>(port_ + 1));
  }
  void close_both() {
    for (int& fd : fds_) {
      if (fd >= 0) close(fd);
      fd = -1;
    }
  }
  int fds_[2] = {-1, -1};
  uint16_t port_ = 0;
};

class ZmqTransportTest : public testing::Test {
 protected:
  std::unique_ptr<ZmqTransport> open(const Endpoint& listen = {"127.0.0.1", 0}) {
    return std::make_unique<ZmqTransport>(listen, context_);
  }
  // ZeroMQ closes in the background: an address is free again a moment later.
  std::unique_ptr<ZmqTransport> open_again(const Endpoint& listen) {
    const TimePoint deadline = clock_.now() + seconds(20);
    while (true) {
      try {
        return open(listen);
      } catch (const std::runtime_error&) {
        if (clock_.now() > deadline) throw;
        std::this_thread::yield();
      }
    }
  }
  std::string listen_error(const Endpoint& listen) {
    try {
      open(listen);
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }
  // Lets both work until the condition holds.
  bool run_until(ZmqTransport& a, ZmqTransport& b, const std::function<bool()>& condition) {
    const TimePoint deadline = clock_.now() + seconds(20);
    while (!condition()) {
      if (clock_.now() > deadline) return false;
      a.wait_until(clock_.now() + milliseconds(1));
      b.wait_until(clock_.now() + milliseconds(1));
    }
    return true;
  }
  static Frame frame(size_t header_bytes, size_t payload_bytes = 0) {
    Frame frame{std::vector<std::byte>(header_bytes, std::byte{7}), {}};
    if (payload_bytes) frame.payload = SharedBytes::take(std::vector<std::byte>(payload_bytes, std::byte{9}));
    return frame;
  }
  SteadyClock clock_;
  ZmqContext context_;
};

TEST_F(ZmqTransportTest, PortsInUseAreNamedWithTheRemedy) {
  const auto first = open();
  const Endpoint taken = first->local();
  const Endpoint after{taken.host, static_cast<uint16_t>(taken.port + 1)};
  const Endpoint before{taken.host, static_cast<uint16_t>(taken.port - 1)};
  for (const Endpoint& listen : {taken, after}) {  // our control port, our bulk port
    const std::string error = listen_error(listen);
    EXPECT_NE(error.find("cannot listen on " + listen.to_string()), std::string::npos) << error;
    EXPECT_NE(error.find("--listen"), std::string::npos) << error;
    EXPECT_NE(error.find("PORT+1"), std::string::npos) << error;
  }
  // Its bulk port would be our control port; if the port before is taken by another program, that one is named.
  const std::string error = listen_error(before);
  EXPECT_NE(error.find("cannot listen on 127.0.0.1:"), std::string::npos) << error;
}

TEST_F(ZmqTransportTest, AddressesThatAreNotOursAreNamed) {
  EXPECT_NE(listen_error({"192.0.2.1", 0}).find("no such address"), std::string::npos);
  EXPECT_NE(listen_error({"no host", 7400}).find("--listen"), std::string::npos);
  EXPECT_NE(listen_error({"127.0.0.1", 65535}).find("below 65535"), std::string::npos);
}

TEST_F(ZmqTransportTest, EveryInterfaceHearsBothFamilies) {
  const auto a = open();
  const auto b = open({"0.0.0.0", 0});
  EXPECT_EQ(b->local().host, "0.0.0.0");
  std::vector<std::string> hosts = {"127.0.0.1", "localhost"};
  try {
    open({"::1", 0});
    hosts.push_back("::1");
  } catch (const std::runtime_error&) {  // a machine without IPv6
  }
  for (const std::string& host : hosts) {
    ASSERT_EQ(a->send({host, b->local().port}, Channel::kControl, frame(50)), SendStatus::kQueued);
    EXPECT_TRUE(run_until(*a, *b, [&] { return b->poll().has_value(); })) << host;
  }
}

TEST_F(ZmqTransportTest, WaitEndsWithAWakeAFrameOrTheDeadline) {
  const auto a = open(), b = open();
  const TimePoint far = clock_.now() + seconds(30);
  a->wake();  // before the wait: not lost
  a->wait_until(far);
  ASSERT_LT(clock_.now(), far);

  std::thread other([&] { a->wake(); });
  a->wait_until(far);
  ASSERT_LT(clock_.now(), far);
  other.join();

  ASSERT_EQ(b->send(a->local(), Channel::kBulk, frame(10, 10)), SendStatus::kQueued);
  while (b->counters().frames_sent == 0) b->wait_until(clock_.now() + milliseconds(1));
  while (!a->poll()) {
    ASSERT_LT(clock_.now(), far);
    a->wait_until(far);
  }

  const TimePoint soon = clock_.now() + milliseconds(20);
  a->wait_until(soon);
  EXPECT_GE(clock_.now(), soon);
  a->wait_until(clock_.now() - seconds(5));  // long ago: only looks
}

TEST_F(ZmqTransportTest, FramesWaitForAPeerThatComesUp) {
  const auto a = open();
  std::optional<SilentAddress> held(std::in_place);
  const Endpoint later = held->endpoint();
  for (size_t i = 0; i < 5; ++i) ASSERT_EQ(a->send(later, Channel::kBulk, frame(10 + i, 100)), SendStatus::kQueued);
  EXPECT_EQ(a->counters().frames_sent, 0u);
  held.reset();
  const auto b = open_again(later);
  size_t heard = 0;
  EXPECT_TRUE(run_until(*a, *b, [&] {
    while (const auto received = b->poll()) EXPECT_EQ(received->header.size, 10 + heard++);
    return heard == 5;
  }));
}

TEST_F(ZmqTransportTest, APeerMayComeBackAtItsAddress) {
  const auto a = open();
  Endpoint address;
  for (int life = 0; life < 3; ++life) {
    const auto b = open_again(life == 0 ? Endpoint{"127.0.0.1", 0} : address);
    address = b->local();
    // Frames to the former life are lost, so it is said until heard.
    EXPECT_TRUE(run_until(*a, *b, [&] {
      EXPECT_EQ(a->send(address, Channel::kControl, frame(20)), SendStatus::kQueued);
      return b->poll().has_value();
    })) << life;
  }
}

TEST_F(ZmqTransportTest, WhatWaitsIsBoundedInFramesBytesAndTime) {
  const auto a = open();
  const SilentAddress silent;
  const Endpoint nobody = silent.endpoint();
  for (size_t i = 0; i < kPendingFramesPerPeerMax; ++i) {
    ASSERT_EQ(a->send(nobody, Channel::kControl, frame(10)), SendStatus::kQueued);
  }
  EXPECT_EQ(a->send(nobody, Channel::kControl, frame(10)), SendStatus::kQueueFull);
  EXPECT_EQ(a->counters().frames_dropped, 1u);
  size_t queued = 0;
  while (a->send(nobody, Channel::kBulk, frame(10, kPayloadBytesMax)) == SendStatus::kQueued) ++queued;
  EXPECT_EQ(queued, (kPendingBytesPerPeerMax - 1) / (kPayloadBytesMax + 10));
  EXPECT_EQ(a->counters().frames_dropped, 2u);
  // The control frames are given up after 2 s, and there is room again.
  const TimePoint deadline = clock_.now() + seconds(20);
  while (a->counters().frames_dropped < 2 + kPendingFramesPerPeerMax && clock_.now() < deadline) {
    a->wait_until(clock_.now() + milliseconds(50));
  }
  EXPECT_EQ(a->counters().frames_dropped, 2 + kPendingFramesPerPeerMax);
  EXPECT_EQ(a->send(nobody, Channel::kControl, frame(10)), SendStatus::kQueued);
  a->forget(nobody);
  EXPECT_EQ(a->counters().frames_dropped, 3 + kPendingFramesPerPeerMax + queued);
}

TEST_F(ZmqTransportTest, BulkIsHeardThroughAStreamOfControl) {
  const auto a = open(), b = open();
  for (int i = 0; i < 200; ++i) ASSERT_EQ(a->send(b->local(), Channel::kControl, frame(10)), SendStatus::kQueued);
  ASSERT_EQ(a->send(b->local(), Channel::kBulk, frame(10, 10)), SendStatus::kQueued);
  // Everything is there before the first poll: both ports are counted by one that listens at the end.
  ASSERT_TRUE(run_until(*a, *b, [&] { return a->counters().frames_sent == 201; }));
  int control = 0;
  bool bulk = false;
  EXPECT_TRUE(run_until(*a, *b, [&] {
    // More control keeps coming all the time.
    EXPECT_NE(a->send(b->local(), Channel::kControl, frame(10)), SendStatus::kBadAddress);
    while (const auto received = b->poll()) {
      if (received->channel == Channel::kBulk) {
        bulk = true;
        break;
      }
      ++control;
      EXPECT_NE(a->send(b->local(), Channel::kControl, frame(10)), SendStatus::kBadAddress);
    }
    return bulk;
  }));
}

// A name server that never answers occupies the thread that asks it, and ZeroMQ has two for everything.
TEST_F(ZmqTransportTest, NamesThatNobodyResolvesStopNoOtherFrame) {
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  const auto b = open();
  {
    ZmqTransport a({"127.0.0.1", 0}, context_, nullptr, [ended](const std::string&) {
      ended.wait();
      return std::vector<std::string>{};
    });
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(a.send({"silent" + std::to_string(i) + ".example", 9}, Channel::kControl, frame(10)),
                SendStatus::kQueued);
    }
    EXPECT_EQ(a.send(b->local(), Channel::kControl, frame(10)), SendStatus::kQueued);
    EXPECT_TRUE(run_until(a, *b, [&] { return b->poll().has_value(); }));
  }
  end.set_value();
}

TEST_F(ZmqTransportTest, AFrameWaitsForTheNameOfItsHost) {
  const auto b = open();
  std::atomic<bool> known = false;
  ZmqTransport a({"127.0.0.1", 0}, context_, nullptr, [&](const std::string& name) {
    EXPECT_EQ(name, "b.example");
    known = true;
    return std::vector<std::string>{"127.0.0.1"};
  });
  EXPECT_EQ(a.send({"b.example", b->local().port}, Channel::kControl, frame(10)), SendStatus::kQueued);
  EXPECT_TRUE(run_until(a, *b, [&] { return b->poll().has_value(); }));
  EXPECT_TRUE(known);
}

// The first two lead nowhere: one has no listener, and of the other family the machine may have no address at all.
TEST_F(ZmqTransportTest, AllNumbersOfANameAreTriedInTurn) {
  const auto b = open();
  ZmqTransport a({"127.0.0.1", 0}, context_, nullptr,
                 [](const std::string&) { return std::vector<std::string>{"2001:db8::1", "127.0.0.9", "127.0.0.1"}; });
  const Endpoint named{"b.example", b->local().port};
  const auto arrives = [&](Channel channel) {
    TimePoint sent{};
    return run_until(a, *b, [&] {
      if (SteadyClock().now() - sent > std::chrono::milliseconds(200)) {
        sent = SteadyClock().now();
        EXPECT_NE(a.send(named, channel, frame(10)), SendStatus::kBadAddress);
      }
      return b->poll().has_value();
    });
  };
  EXPECT_TRUE(arrives(Channel::kControl));
  const TimePoint known = SteadyClock().now();
  EXPECT_TRUE(arrives(Channel::kBulk));
  EXPECT_LT(SteadyClock().now() - known, std::chrono::seconds(2)) << "the next link begins with the one that was good";
}

// A link of a stranger that speaks ZeroMQ and nothing else.
class IdleLink {
 public:
  IdleLink(const Endpoint& to, const std::string& from) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in own = loopback(0);
    inet_pton(AF_INET, from.c_str(), &own.sin_addr);
    const sockaddr_in address = loopback(to.port);
    if (bind(fd_, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0 ||
        connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error("no link to be had");
    }
    std::string greeting(64, '\0');
    greeting.replace(0, 11, std::string("\xff\0\0\0\0\0\0\0\x01\x7f\x03", 11));
    greeting.replace(12, 4, "NULL");
    const std::string ready(
        "\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06"
        "DEALER",
        30);
    for (const std::string& bytes : {greeting, ready}) {
      if (write(fd_, bytes.data(), bytes.size()) < 0) throw std::runtime_error("the link was closed at once");
    }
  }
  ~IdleLink() { close(fd_); }
  IdleLink(const IdleLink&) = delete;
  IdleLink& operator=(const IdleLink&) = delete;

 private:
  int fd_;
};

TEST_F(ZmqTransportTest, LinksOfOthersAreBoundedAndThoseThatAreOpenStay) {
  const auto a = open(), b = open();
  b->expect_members(1);
  const size_t most = kStrangerLinksMax + kLinksPerMemberMax;
  const auto arrives = [&](ZmqTransport& from) {
    (void)from.send(b->local(), Channel::kControl, frame(50));
    return run_until(from, *b, [&] { return b->poll().has_value(); });
  };
  const auto open_becomes = [&](size_t count) {
    return run_until(*a, *b, [&] { return b->counters().links.open == count; });
  };
  ASSERT_TRUE(arrives(*a));
  ASSERT_TRUE(open_becomes(1));

  std::vector<std::unique_ptr<IdleLink>> strangers;
  for (size_t i = 0; i < most; ++i) strangers.push_back(std::make_unique<IdleLink>(b->local(), "127.0.0.2"));
  EXPECT_TRUE(run_until(*a, *b, [&] { return b->counters().links.refused == most / 2; }));
  EXPECT_TRUE(open_becomes(1 + most / 2)) << "one host leaves room for the others";
  const auto newcomer = open();
  EXPECT_TRUE(arrives(*newcomer)) << "from another host";

  for (size_t i = 0; i < most; ++i) strangers.push_back(std::make_unique<IdleLink>(b->local(), "127.0.0.3"));
  EXPECT_TRUE(open_becomes(most));
  EXPECT_TRUE(arrives(*a)) << "its link was open before";

  strangers.clear();
  EXPECT_TRUE(open_becomes(2)) << "links count while they are open";
  const auto late = open();
  EXPECT_TRUE(arrives(*late));
}

// Of one in some thousands ZeroMQ tells that it is closed before it tells that it was accepted (open_links_test.cpp).
TEST_F(ZmqTransportTest, LinksThatCloseAtOnceDoNotStayOpen) {
  const auto a = open(), b = open();
  b->expect_members(10'000);  // so that none is turned away
  for (int batch = 0; batch < 5; ++batch) {
    for (int i = 0; i < 800; ++i) IdleLink(b->local(), "127.0.0.2");
    ASSERT_EQ(a->send(b->local(), Channel::kControl, frame(50)), SendStatus::kQueued);
    ASSERT_TRUE(run_until(*a, *b, [&] { return b->poll().has_value(); }));
  }
  EXPECT_TRUE(run_until(*a, *b, [&] { return b->counters().links.open == 1; })) << b->counters().links.open;
}

}  // namespace
}  // namespace starling
