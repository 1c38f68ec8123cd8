// The ceiling of a model transfer: raw ZeroMQ frames from one process to another on loopback, on demand, kept as they
// come and nothing done with them. Source and destination are as large as the model, not a frame that stays in cache.
//   bench_zmq BYTES FRAME_BYTES REPEATS
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <zmq.hpp>

namespace {

// Sends everything each time it is asked to.
int send_all(const std::string& address, size_t bytes, size_t frame_bytes, int repeats) {
  zmq::context_t context(1);
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.connect(address);
  const std::vector<char> data(bytes, 'x');
  socket.send(zmq::str_buffer("here"), zmq::send_flags::none);
  for (int i = 0; i < repeats; ++i) {
    zmq::message_t wanted;
    if (!socket.recv(wanted)) return 1;
    for (size_t sent = 0; sent < bytes; sent += frame_bytes) {
      zmq::message_t frame(
          const_cast<char*>(data.data()) + sent, std::min(frame_bytes, bytes - sent), [](void*, void*) {}, nullptr);
      socket.send(frame, zmq::send_flags::none);
    }
  }
  zmq::message_t end;
  if (!socket.recv(end)) return 1;  // all has arrived, so `data` may go
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: bench_zmq BYTES FRAME_BYTES REPEATS\n");
    return 2;
  }
  const size_t bytes = std::strtoull(argv[1], nullptr, 10), frame_bytes = std::strtoull(argv[2], nullptr, 10);
  const int repeats = std::atoi(argv[3]);
  const std::string address = "tcp://127.0.0.1:" + std::to_string(20000 + getpid() % 20000);
  const pid_t child = fork();  // before there is a context: libzmq must not be forked
  if (child == 0) return send_all(address, bytes, frame_bytes, repeats);
  zmq::context_t context(1);
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.bind(address);
  zmq::message_t here;
  if (!socket.recv(here)) return 1;
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    std::vector<zmq::message_t> frames;
    const auto start = std::chrono::steady_clock::now();
    socket.send(zmq::str_buffer("more"), zmq::send_flags::none);
    for (size_t received = 0; received < bytes; received += frame_bytes) {
      frames.emplace_back();
      if (!socket.recv(frames.back())) return 1;
    }
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  socket.send(zmq::str_buffer("end"), zmq::send_flags::none);
  waitpid(child, nullptr, 0);
  std::sort(seconds.begin(), seconds.end());
  const double megabytes = static_cast<double>(bytes) / 1e6;
  std::printf("{\"median_MBps\": %.1f, \"min_MBps\": %.1f, \"max_MBps\": %.1f}\n",
              megabytes / seconds[seconds.size() / 2], megabytes / seconds.back(), megabytes / seconds.front());
  return 0;
}
