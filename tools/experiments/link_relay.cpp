// Links with delay, rate and loss for programs on this machine, where the kernel has no netem.
//
// N nodes, each a network namespace of its own with one interface "link" (a TUN device) and the address 10.77.0.1 to
// .N. This process carries the packets between them. A packet waits in the sender's uplink queue (drop-tail), takes
// its bytes / rate, flies for the one-way delay, and takes the receiver's downlink, of the same rate, in turn.
//
//   link_relay [--nodes N] [--delay-ms MS] [--rate-mbit MBIT, 0: no limit] [--loss PART] [--queue-ms MS] [--mtu BYTES]
//   link_relay ... --check     measures an empty link between two nodes, prints it, and ends
//
// Prints one line of JSON when the links are up: `nsenter --net=NAMESPACE PROGRAM` runs on a node. A line `rate MBIT`
// on its standard input changes all links. Ends, and takes the namespaces with it, on SIGINT, SIGTERM or the end of its
// standard input. Needs root, or CAP_NET_ADMIN and CAP_SYS_ADMIN.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using Nanos = int64_t;

// In front of each packet (virtio's virtio_net_hdr; the kernel's header for it is not C++).
struct VirtioHeader {
  uint8_t flags, gso_type;
  uint16_t hdr_len, gso_size, csum_start, csum_offset;
};
static_assert(sizeof(VirtioHeader) == 10);

constexpr int kNodesMax = 64;
constexpr size_t kPacketMax = 65536 + sizeof(VirtioHeader);
constexpr size_t kQueueBytesMin = 256 << 10;      // a thin link holds at least this
constexpr size_t kQueueBytesMax = 64 << 20;       // of a node, whatever the rate
constexpr int kBurst = 32;                        // packets of one node before the next node has its turn
constexpr double kOffloadRateMin = 50;            // Mb/s: below, one large packet would hold the link too long

struct Options {
  int nodes = 8;
  double delay_ms = 0, rate_mbit = 0, loss = 0, queue_ms = 200;
  int mtu = 1500;
  bool check = false;

  // Large packets stay whole between the kernels, as on a network card that segments: cheaper by far, but a loss
  // would take them whole.
  bool offload() const { return loss == 0 && (rate_mbit == 0 || rate_mbit >= kOffloadRateMin); }
  Nanos delay() const { return static_cast<Nanos>(delay_ms * 1e6); }
  Nanos on_wire(size_t bytes) const {
    return rate_mbit > 0 ? static_cast<Nanos>(static_cast<double>(bytes) * 8e3 / rate_mbit) : 0;
  }
  size_t queue_bytes() const {
    if (rate_mbit == 0) return kQueueBytesMax;
    const double fitting = (queue_ms + delay_ms) * rate_mbit * 125;   // what flies counts too
    return std::clamp(static_cast<size_t>(fitting), kQueueBytesMin, kQueueBytesMax);
  }
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "link_relay: %s\n", what.c_str());
  std::exit(1);
}

[[noreturn]] void fail_system(const std::string& what, const std::string& hint) {
  fail(what + ": " + std::strerror(errno) + "; " + hint);
}

Nanos now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string address_of(int node) { return "10.77.0." + std::to_string(node + 1); }

// ---- nodes ----

struct Packet {
  Nanos due = 0;
  int to = 0;
  size_t on_wire = 0;
  std::string bytes;   // with the virtio header
};

struct Node {
  int ns = -1, tun = -1;
  Nanos uplink_free = 0, downlink_free = 0;
  size_t held = 0;                      // bytes in `flying`
  std::deque<Packet> flying, landing;   // each in the order of `due`
  uint64_t sent = 0, dropped_full = 0, dropped_lost = 0, bytes = 0;
};

void set_up_interface(const char* name, const std::string& address, int mtu) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail_system("no socket in the new namespace", "run as root");
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  const auto call = [&](unsigned long what, const char* meaning) {
    if (ioctl(fd, what, &request) != 0) fail_system(std::string(name) + ": cannot set " + meaning, "run as root");
  };
  if (!address.empty()) {
    request.ifr_mtu = mtu;
    call(SIOCSIFMTU, "the MTU");
    auto* in = reinterpret_cast<sockaddr_in*>(&request.ifr_addr);
    *in = sockaddr_in{};
    in->sin_family = AF_INET;
    inet_pton(AF_INET, address.c_str(), &in->sin_addr);
    call(SIOCSIFADDR, "the address");
    inet_pton(AF_INET, "255.255.255.0", &in->sin_addr);
    call(SIOCSIFNETMASK, "the netmask");
  }
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  call(SIOCSIFFLAGS, "it up");
  close(fd);
}

void set_offload(int tun, const Options& options) {
  const unsigned long features = options.offload() ? TUN_F_CSUM | TUN_F_TSO4 : 0;
  if (ioctl(tun, TUNSETOFFLOAD, features) != 0) fail_system("cannot set the TUN device's offload", "run as root");
}

// Leaves this process in the node's namespace.
Node make_node(const Options& options, int index) {
  Node node;
  if (unshare(CLONE_NEWNET) != 0) {
    fail_system("cannot make a network namespace", "run as root, in a container with --privileged");
  }
  node.ns = open("/proc/self/ns/net", O_RDONLY);   // kept for others: they enter it by /proc/PID/fd/N
  node.tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (node.ns < 0 || node.tun < 0) fail_system("cannot open /dev/net/tun", "modprobe tun, or give the container it");
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  std::strncpy(request.ifr_name, "link", IFNAMSIZ - 1);
  if (ioctl(node.tun, TUNSETIFF, &request) != 0) fail_system("cannot make a TUN device", "run as root");
  set_offload(node.tun, options);
  set_up_interface("lo", "", 0);
  set_up_interface("link", address_of(index), options.mtu);
  return node;
}

std::vector<Node> make_nodes(const Options& options) {
  const int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  std::vector<Node> nodes;
  for (int i = 0; i < options.nodes; ++i) nodes.push_back(make_node(options, i));
  if (home < 0 || setns(home, CLONE_NEWNET) != 0) fail_system("cannot come back from a namespace", "run as root");
  close(home);
  return nodes;
}

// ---- the relay ----

class Relay {
 public:
  Relay(const Options& options, std::vector<Node>& nodes) : options_(options), nodes_(nodes) {
    for (const Node& node : nodes) polled_.push_back({node.tun, POLLIN, 0});
  }

  // Until `signals` has something to read, or `commands` ends.
  void run(int signals, int commands) {
    polled_.push_back({signals, POLLIN, 0});
    polled_.push_back({commands, POLLIN, 0});
    for (;;) {
      const Nanos next = deliver();
      timespec wait{};
      if (next != kNever) {
        const Nanos left = std::max<Nanos>(next - now(), 0);
        wait = {static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
      }
      if (ppoll(polled_.data(), polled_.size(), next == kNever ? nullptr : &wait, nullptr) < 0 && errno != EINTR) {
        fail_system("poll", "this is a fault of the program");
      }
      if (polled_[nodes_.size()].revents != 0) return;
      if (polled_[nodes_.size() + 1].revents != 0 && !obey(commands)) return;
      for (size_t i = 0; i < nodes_.size(); ++i) {
        if (polled_[i].revents != 0) take_in(static_cast<int>(i));
      }
    }
  }

 private:
  static constexpr Nanos kNever = INT64_MAX;

  // False: no more commands.
  bool obey(int commands) {
    char text[256];
    const ssize_t got = read(commands, text, sizeof text - 1);
    if (got <= 0) return false;
    text[got] = '\0';
    double rate = 0;
    if (std::sscanf(text, "rate %lf", &rate) != 1 || !(rate >= 0)) {
      std::fprintf(stderr, "link_relay: do not understand %s", text);
      return true;
    }
    options_.rate_mbit = rate;
    for (const Node& node : nodes_) set_offload(node.tun, options_);
    return true;
  }

  void take_in(int from) {
    Node& node = nodes_[static_cast<size_t>(from)];
    for (int i = 0; i < kBurst; ++i) {
      const ssize_t got = read(node.tun, buffer_, sizeof buffer_);
      if (got < static_cast<ssize_t>(sizeof(VirtioHeader) + 20)) return;
      const char* ip = buffer_ + sizeof(VirtioHeader);
      in_addr to{}, network{};
      std::memcpy(&to, ip + 16, 4);
      inet_pton(AF_INET, "10.77.0.0", &network);
      const uint32_t host = ntohl(to.s_addr) - ntohl(network.s_addr);
      if ((static_cast<unsigned char>(ip[0]) >> 4) != 4 || host < 1 || host > nodes_.size()) continue;
      send_off(node, static_cast<int>(host) - 1, {buffer_, static_cast<size_t>(got)});
    }
  }

  void send_off(Node& node, int to, std::string_view bytes) {
    if (options_.loss > 0 && draw() < options_.loss) {
      ++node.dropped_lost;
      return;
    }
    const size_t on_wire = wire_bytes(bytes);
    if (node.held + on_wire > options_.queue_bytes()) {
      ++node.dropped_full;
      return;
    }
    node.held += on_wire;
    node.uplink_free = std::max(node.uplink_free, now()) + options_.on_wire(on_wire);
    node.flying.push_back({node.uplink_free + options_.delay(), to, on_wire, std::string(bytes)});
    ++node.sent;
    node.bytes += on_wire;
  }

  // With the headers that the segments of a large packet would have.
  static size_t wire_bytes(std::string_view bytes) {
    VirtioHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    const size_t size = bytes.size() - sizeof header;
    if (header.gso_type == 0 || header.gso_size == 0 || size <= header.hdr_len) return size;
    const size_t segments = (size - header.hdr_len + header.gso_size - 1) / header.gso_size;
    return size + (segments - 1) * header.hdr_len;
  }

  // Hands over what is due; returns when the next is.
  Nanos deliver() {
    const Nanos time = now();
    Nanos next = kNever;
    for (Node& node : nodes_) {
      while (!node.flying.empty() && node.flying.front().due <= time) {
        Packet packet = std::move(node.flying.front());
        node.flying.pop_front();
        node.held -= packet.on_wire;
        // Cut-through: its first bit came as it left, so an idle downlink adds nothing.
        Node& to = nodes_[static_cast<size_t>(packet.to)];
        to.downlink_free = std::max(packet.due, to.downlink_free + options_.on_wire(packet.on_wire));
        packet.due = to.downlink_free;
        to.landing.push_back(std::move(packet));
      }
      if (!node.flying.empty()) next = std::min(next, node.flying.front().due);
    }
    for (Node& node : nodes_) {
      while (!node.landing.empty() && node.landing.front().due <= time) {
        const std::string& bytes = node.landing.front().bytes;
        if (write(node.tun, bytes.data(), bytes.size()) < 0) ++node.dropped_full;
        node.landing.pop_front();
      }
      if (!node.landing.empty()) next = std::min(next, node.landing.front().due);
    }
    return next;
  }

  double draw() {   // xorshift: the same losses for the same packets
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return static_cast<double>(random_ >> 11) * 0x1p-53;
  }

  Options options_;
  std::vector<Node>& nodes_;
  std::vector<pollfd> polled_;
  uint64_t random_ = 88172645463325252ull;
  char buffer_[kPacketMax];
};

// ---- the check: what an empty link measures ----

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
    if (begin == 0 && last - first > 500'000'000) begin = last, counted = bytes;   // the start-up does not count
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

int check(const Options& options, std::vector<Node>& nodes) {
  int ready[2], quiet[2], trip[2], finished[2];
  if (pipe(ready) != 0 || pipe(quiet) != 0 || pipe(trip) != 0 || pipe(finished) != 0) fail_system("pipe", "");
  char go;
  const pid_t answerer = in_node(nodes[1], [&] { check_answerer(ready[1]); });
  if (read(ready[0], &go, 1) != 1) fail("check: node 1 did not start");
  const pid_t asker = in_node(nodes[0], [&] { check_asker(trip[1]); });
  const pid_t waiter = fork();   // tells the relay that both have ended
  if (waiter == 0) {
    double round_trip = 0, rate = 0;
    close(trip[1]), close(ready[1]);
    if (read(trip[0], &round_trip, sizeof round_trip) != sizeof round_trip) fail("check: no round trip");
    if (read(ready[0], &rate, sizeof rate) != sizeof rate) fail("check: no rate");
    const bool fast = options.rate_mbit == 0 || options.rate_mbit * 0.9 <= rate;
    const bool near = round_trip - 2 * options.delay_ms < 1 + 2 * 64e-3 * 8 / std::max(options.rate_mbit, 1e-3);
    std::printf("{\"round_trip_ms\": %.3f, \"expected_round_trip_ms\": %.3f, \"rate_mbit\": %.1f, "
                "\"expected_rate_mbit\": %.1f, \"good\": %s}\n",
                round_trip, 2 * options.delay_ms, rate, options.rate_mbit, fast && near ? "true" : "false");
    std::fflush(stdout);
    if (write(finished[1], "f", 1) != 1) return 1;
    std::exit(fast && near ? 0 : 3);
  }
  close(ready[1]), close(trip[1]), close(finished[1]);
  Relay(options, nodes).run(finished[0], quiet[0]);
  int status = 1;
  for (pid_t child : {asker, answerer}) kill(child, SIGKILL), waitpid(child, nullptr, 0);
  waitpid(waiter, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

Options parse(int argc, char** argv) {
  Options options;
  const std::vector<std::pair<std::string, double*>> numbers = {
      {"--delay-ms", &options.delay_ms}, {"--rate-mbit", &options.rate_mbit}, {"--loss", &options.loss},
      {"--queue-ms", &options.queue_ms}};
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--check") {
      options.check = true;
      continue;
    }
    char* end = nullptr;
    const double value = i + 1 < argc ? std::strtod(argv[i + 1], &end) : -1;
    const auto known = std::find_if(numbers.begin(), numbers.end(), [&](const auto& n) { return n.first == name; });
    const bool whole = name == "--nodes" || name == "--mtu";
    if ((known == numbers.end() && !whole) || end == nullptr || *end != '\0' || !(value >= 0 && value < 1e9)) {
      fail("do not understand " + name + "; usage: link_relay [--nodes N] [--delay-ms MS] [--rate-mbit MBIT] "
           "[--loss PART] [--queue-ms MS] [--mtu BYTES] [--check]");
    }
    if (known != numbers.end()) *known->second = value;
    if (name == "--nodes") options.nodes = static_cast<int>(value);
    if (name == "--mtu") options.mtu = static_cast<int>(value);
    ++i;
  }
  if (options.nodes < 2 || options.nodes > kNodesMax) fail("--nodes: 2 to " + std::to_string(kNodesMax));
  if (options.loss > 0.9) fail("--loss: a part of all packets, 0 to 0.9");
  if (options.mtu < 576 || options.mtu > 65000) fail("--mtu: 576 to 65000");
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  std::vector<Node> nodes = make_nodes(options);
  prctl(PR_SET_TIMERSLACK, 1);
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT), sigaddset(&ends, SIGTERM);
  signal(SIGPIPE, SIG_IGN);
  // Late packets would be ours, not the link's: go before others where that is allowed.
  const sched_param priority{.sched_priority = 1};
  const bool first = sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority) == 0;
  if (options.check) return check(options, nodes);

  sigprocmask(SIG_BLOCK, &ends, nullptr);
  const int signals = signalfd(-1, &ends, SFD_CLOEXEC);
  std::printf("{\"pid\": %d, \"realtime\": %s, \"nodes\": [", getpid(), first ? "true" : "false");
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::printf("%s{\"address\": \"%s\", \"namespace\": \"/proc/%d/fd/%d\"}", i == 0 ? "" : ", ",
                address_of(static_cast<int>(i)).c_str(), getpid(), nodes[i].ns);
  }
  std::printf("]}\n");
  std::fflush(stdout);
  Relay(options, nodes).run(signals, STDIN_FILENO);
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::fprintf(stderr, "%s: %lu packets, %.1f MB on the wire, %lu dropped from a full queue, %lu lost\n",
                 address_of(static_cast<int>(i)).c_str(), nodes[i].sent, static_cast<double>(nodes[i].bytes) / 1e6,
                 nodes[i].dropped_full, nodes[i].dropped_lost);
  }
  return 0;
}
