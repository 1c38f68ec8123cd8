#include "tools/experiments/link_check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tools/experiments/relay.h"

namespace {

int bound_socket(int type, const std::string& address, uint16_t port) {
  const int fd = socket(AF_INET, type, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  inet_pton(AF_INET, address.c_str(), &at.sin_addr);
  const timeval patience{10, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) fail_system("check", "bind failed");
  return fd;
}

sockaddr_in peer_address(int node, uint16_t port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  inet_pton(AF_INET, address_of(node).c_str(), &at.sin_addr);
  return at;
}

// Node 1: sends every datagram back, then takes a stream in and answers how many bytes a second came.
void check_answerer(int ready) {
  const int echo = bound_socket(SOCK_DGRAM, address_of(1), 5000), door = bound_socket(SOCK_STREAM, address_of(1), 5000);
  if (listen(door, 1) != 0 || write(ready, "r", 1) != 1) fail_system("check", "cannot listen");
  char text[64];
  for (int i = 0; i < 21; ++i) {
    sockaddr_in from{};
    socklen_t size = sizeof from;
    const ssize_t got = recvfrom(echo, text, sizeof text, 0, reinterpret_cast<sockaddr*>(&from), &size);
    if (got > 0) sendto(echo, text, static_cast<size_t>(got), 0, reinterpret_cast<sockaddr*>(&from), size);
  }
  const int stream = accept(door, nullptr, nullptr);
  static char sink[1 << 20];
  double bytes = 0, counted = 0;
  Nanos begin = 0, last = 0;
  const Nanos first = now();
  for (ssize_t got; (got = read(stream, sink, sizeof sink)) > 0;) {
    bytes += static_cast<double>(got);
    last = now();
    if (begin == 0 && last - first > 500'000'000) begin = last, counted = bytes;  // the start-up does not count
  }
  const double rate = last > begin && begin > 0 ? (bytes - counted) * 8e3 / static_cast<double>(last - begin) : 0;
  if (write(ready, &rate, sizeof rate) != sizeof rate) fail_system("check", "pipe");
}

// Node 0: the median round trip of 21 datagrams, then a stream for two seconds.
void check_asker(int result) {
  const int ping = bound_socket(SOCK_DGRAM, address_of(0), 5001);
  const sockaddr_in to = peer_address(1, 5000);
  std::vector<double> trips;
  for (int i = 0; i < 21; ++i) {
    const Nanos began = now();
    char text[64] = {};
    sendto(ping, text, sizeof text, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    if (recv(ping, text, sizeof text, 0) > 0) trips.push_back(static_cast<double>(now() - began) * 1e-6);
  }
  if (trips.empty()) fail("check: no datagram came back");
  std::sort(trips.begin(), trips.end());
  const double median = trips[trips.size() / 2];
  if (write(result, &median, sizeof median) != sizeof median) fail_system("check", "pipe");
  const int stream = bound_socket(SOCK_STREAM, address_of(0), 0);
  if (connect(stream, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) fail_system("check", "no connection");
  const timeval patience{2, 0};
  setsockopt(stream, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  static char source[256 << 10];
  for (const Nanos end = now() + 2'500'000'000; now() < end;) {
    if (write(stream, source, sizeof source) <= 0) break;
  }
  close(stream);
}

template <typename Function>
pid_t in_node(const Node& node, Function function) {
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (setns(node.ns, CLONE_NEWNET) != 0) fail_system("cannot enter a namespace", "run as root");
  function();
  std::exit(0);
}

}  // namespace

int check_link(const Link& link, double queue_ms, std::vector<Node>& nodes) {
  int ready[2], quiet[2], trip[2], finished[2];
  if (pipe(ready) != 0 || pipe(quiet) != 0 || pipe(trip) != 0 || pipe(finished) != 0) fail_system("pipe", "");
  char go;
  const pid_t answerer = in_node(nodes[1], [&] { check_answerer(ready[1]); });
  if (read(ready[0], &go, 1) != 1) fail("check: node 1 did not start");
  const pid_t asker = in_node(nodes[0], [&] { check_asker(trip[1]); });
  const pid_t waiter = fork();  // tells the relay that both have ended
  if (waiter == 0) {
    double round_trip = 0, rate = 0;
    close(trip[1]), close(ready[1]);
    if (read(trip[0], &round_trip, sizeof round_trip) != sizeof round_trip) fail("check: no round trip");
    if (read(ready[0], &rate, sizeof rate) != sizeof rate) fail("check: no rate");
    const bool fast = link.rate_mbit == 0 || link.rate_mbit * 0.9 <= rate;
    const bool near = round_trip - 2 * link.delay_ms < 1 + 2 * 64e-3 * 8 / std::max(link.rate_mbit, 1e-3);
    std::printf(
        "{\"round_trip_ms\": %.3f, \"expected_round_trip_ms\": %.3f, \"rate_mbit\": %.1f, "
        "\"expected_rate_mbit\": %.1f, \"good\": %s}\n",
        round_trip, 2 * link.delay_ms, rate, link.rate_mbit, fast && near ? "true" : "false");
    std::fflush(stdout);
    if (write(finished[1], "f", 1) != 1) return 1;
    std::exit(fast && near ? 0 : 3);
  }
  close(ready[1]), close(trip[1]), close(finished[1]);
  Relay(queue_ms, nodes).run(finished[0], quiet[0]);
  int status = 1;
  for (pid_t child : {asker, answerer}) kill(child, SIGKILL), waitpid(child, nullptr, 0);
  waitpid(waiter, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
