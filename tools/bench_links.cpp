// What a link of the product moves, in blocks, beside a raw ZeroMQ stream of the same frames: open, and encrypted with
// the keys of a swarm with tickets beside raw CURVE. Loopback, one process to another, nothing done with what comes.
//   bench_links BYTES FRAME_BYTES REPEATS
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "gossip/clock.h"
#include "gossip/net/identity.h"
#include "gossip/net/member_keys.h"
#include "gossip/net/zmq_transport.h"

namespace starling {
namespace {

using Clock = std::chrono::steady_clock;

struct Load {
  size_t bytes, frame_bytes;
  size_t frames() const { return bytes / frame_bytes; }
};

constexpr size_t kHeaderBytes = 64;  // about what a block's is

// Seconds from the first frame to the last.
double timed(size_t frames, const std::function<void()>& receive_one) {
  receive_one();
  const auto begin = Clock::now();
  for (size_t i = 1; i < frames; ++i) receive_one();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct RawPair {
  std::array<char, 41> open{}, secret{};
  RawPair() {
    if (zmq_curve_keypair(open.data(), secret.data()) != 0) std::abort();
  }
};

void set_queues(zmq::socket_t& socket) {  // as the product's
  socket.set(zmq::sockopt::sndhwm, 64);
  socket.set(zmq::sockopt::rcvhwm, 64);
}

void send_raw(const Load& load, uint16_t port, const RawPair* reader) {
  zmq::context_t context(1);
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  set_queues(socket);
  const RawPair own;
  if (reader != nullptr) {
    socket.set(zmq::sockopt::curve_serverkey, reader->open.data());
    socket.set(zmq::sockopt::curve_publickey, own.open.data());
    socket.set(zmq::sockopt::curve_secretkey, own.secret.data());
  }
  socket.connect("tcp://127.0.0.1:" + std::to_string(port));
  const std::vector<char> data(load.bytes, 'x');
  for (size_t i = 0; i < load.frames(); ++i) {
    zmq::message_t header(kHeaderBytes);
    zmq::message_t block(
        const_cast<char*>(data.data()) + i * load.frame_bytes, load.frame_bytes, [](void*, void*) {}, nullptr);
    socket.send(header, zmq::send_flags::sndmore);
    socket.send(block, zmq::send_flags::none);
  }
  socket.close();
  context.close();  // waits until all has gone
}

double receive_raw(const Load& load, uint16_t port, const RawPair* own) {
  zmq::context_t context(1);
  zmq::socket_t socket(context, zmq::socket_type::router);
  set_queues(socket);
  if (own != nullptr) {
    socket.set(zmq::sockopt::curve_server, 1);
    socket.set(zmq::sockopt::curve_secretkey, own->secret.data());
  }
  socket.bind("tcp://127.0.0.1:" + std::to_string(port));
  std::vector<zmq::message_t> kept;
  return timed(load.frames(), [&] {
    for (bool more = true; more;) {
      zmq::message_t part;
      if (!socket.recv(part)) std::abort();
      more = part.more();
      kept.push_back(std::move(part));
    }
  });
}

Identity numbered(uint8_t number) {
  KeySeed seed{};
  seed[0] = number;
  return Identity(seed);
}

std::shared_ptr<const MemberKeys> keys_of(const Identity& self) {
  return std::make_shared<const MemberKeys>(self, numbered(100));
}

void send_ours(const Load& load, uint16_t port, bool tickets) {
  ZmqContext context;
  ZmqTransport transport({"127.0.0.1", 0}, context, tickets ? keys_of(numbered(2)) : nullptr);
  const Endpoint reader{"127.0.0.1", port};
  transport.expect_at({reader, tickets ? numbered(1).id() : PeerId{}});
  const auto data = std::make_shared<std::vector<std::byte>>(load.bytes);
  for (size_t i = 0; i < load.frames();) {
    const SharedBytes block{data, data->data() + i * load.frame_bytes, load.frame_bytes};
    if (transport.send(reader, Channel::kBulk, {std::vector<std::byte>(kHeaderBytes), block}) == SendStatus::kQueued) {
      ++i;
    } else {
      transport.wait_until(Clock::now() + std::chrono::milliseconds(1));
    }
  }
  for (;;) transport.wait_until(Clock::now() + std::chrono::seconds(1));  // until it is killed: all has been received
}

double receive_ours(const Load& load, uint16_t port, bool tickets) {
  ZmqContext context;
  ZmqTransport transport({"127.0.0.1", port}, context, tickets ? keys_of(numbered(1)) : nullptr);
  std::vector<ReceivedFrame> kept;
  return timed(load.frames(), [&] {
    for (;;) {
      if (std::optional<ReceivedFrame> frame = transport.poll()) return kept.push_back(std::move(*frame));
      transport.wait_until(Clock::now() + std::chrono::seconds(1));
    }
  });
}

// Both in processes of their own, as libzmq must not be forked.
double seconds_of(const std::function<double()>& receive, const std::function<void()>& send) {
  int pipe[2];
  if (::pipe(pipe) != 0) std::abort();
  const pid_t receiver = ::fork();
  if (receiver == 0) {
    const double seconds = receive();
    if (::write(pipe[1], &seconds, sizeof seconds) != sizeof seconds) std::abort();
    ::_exit(0);
  }
  const pid_t sender = ::fork();
  if (sender == 0) {
    ::close(pipe[0]);
    ::close(pipe[1]);  // so that a receiver that dies is noticed
    send();
    ::_exit(0);
  }
  ::close(pipe[1]);
  double seconds = 0;
  const bool received = ::read(pipe[0], &seconds, sizeof seconds) == sizeof seconds;
  ::close(pipe[0]);
  ::kill(sender, SIGKILL);
  ::waitpid(sender, nullptr, 0);
  ::waitpid(receiver, nullptr, 0);
  if (!received) std::abort();
  return seconds;
}

}  // namespace
}  // namespace starling

int main(int argc, char** argv) {
  using namespace starling;
  if (argc != 4) {
    std::fprintf(stderr, "usage: bench_links BYTES FRAME_BYTES REPEATS\n");
    return 2;
  }
  Load load{std::strtoull(argv[1], nullptr, 10), std::strtoull(argv[2], nullptr, 10)};
  const RawPair reader;
  uint16_t port = static_cast<uint16_t>(20000 + 2 * (::getpid() % 5000));
  const struct {
    const char* name;
    bool ours, keys;
  } kinds[] = {{"raw", false, false}, {"open", true, false}, {"curve", false, true}, {"tickets", true, true}};
  std::vector<double> rates[4];
  for (int repeat = 0; repeat < std::atoi(argv[3]); ++repeat) {
    for (size_t i = 0; i < 4; ++i) {
      const auto [name, ours, keys] = kinds[i];
      const RawPair* const key = keys ? &reader : nullptr;
      port = static_cast<uint16_t>(port + 2);
      const double seconds =
          ours ? seconds_of([&] { return receive_ours(load, port, keys); }, [&] { send_ours(load, port, keys); })
               : seconds_of([&] { return receive_raw(load, port, key); }, [&] { send_raw(load, port, key); });
      rates[i].push_back(static_cast<double>((load.frames() - 1) * load.frame_bytes) / 1e6 / seconds);
    }
  }
  for (size_t i = 0; i < 4; ++i) {  // in the order they were measured in
    std::printf("%s\"%s\": [", i == 0 ? "{" : ", ", kinds[i].name);
    for (size_t j = 0; j < rates[i].size(); ++j) std::printf("%s%.1f", j == 0 ? "" : ", ", rates[i][j]);
    std::printf("]");
  }
  std::printf("}\n");
  return 0;
}
