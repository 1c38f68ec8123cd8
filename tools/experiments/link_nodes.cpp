#include "tools/experiments/link_nodes.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr size_t kQueueBytesMin = 256 << 10;  // a thin link holds at least this
constexpr size_t kQueueBytesMax = 64 << 20;   // of a node, whatever the rate
constexpr double kLargeRateMin = 50;          // Mb/s: below, one large packet would hold the link too long

}  // namespace

bool Link::carries_large() const { return loss == 0 && (rate_mbit == 0 || rate_mbit >= kLargeRateMin); }

Nanos Link::on_wire(size_t bytes) const {
  return rate_mbit > 0 ? static_cast<Nanos>(static_cast<double>(bytes) * 8e3 / rate_mbit) : 0;
}

size_t Link::queue_bytes(double queue_ms) const {
  if (rate_mbit == 0) return kQueueBytesMax;
  const double fitting = (queue_ms + delay_ms) * rate_mbit * 125;  // what flies counts too
  return std::clamp(static_cast<size_t>(fitting), kQueueBytesMin, kQueueBytesMax);
}

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

namespace {

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

// Leaves this process in the node's namespace.
Node make_node(int index, const Link& link, int mtu) {
  Node node;
  node.link = link;
  if (unshare(CLONE_NEWNET) != 0) {
    fail_system("cannot make a network namespace", "run as root, in a container with --privileged");
  }
  node.ns = open("/proc/self/ns/net", O_RDONLY);  // kept for others: they enter it by /proc/PID/fd/N
  node.tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (node.ns < 0 || node.tun < 0) fail_system("cannot open /dev/net/tun", "modprobe tun, or give the container it");
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  std::strncpy(request.ifr_name, "link", IFNAMSIZ - 1);
  if (ioctl(node.tun, TUNSETIFF, &request) != 0) fail_system("cannot make a TUN device", "run as root");
  set_up_interface("lo", "", 0);
  set_up_interface("link", address_of(index), mtu);
  return node;
}

}  // namespace

std::vector<Node> make_nodes(int count, const Link& link, int mtu) {
  const int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  std::vector<Node> nodes;
  for (int i = 0; i < count; ++i) nodes.push_back(make_node(i, link, mtu));
  if (home < 0 || setns(home, CLONE_NEWNET) != 0) fail_system("cannot come back from a namespace", "run as root");
  close(home);
  set_offload(nodes);
  return nodes;
}

void set_offload(const std::vector<Node>& nodes) {
  const bool large =
      std::all_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.link.carries_large(); });
  const unsigned long features = large ? TUN_F_CSUM | TUN_F_TSO4 : 0;
  for (const Node& node : nodes) {
    if (ioctl(node.tun, TUNSETOFFLOAD, features) != 0) fail_system("cannot set a TUN device's offload", "run as root");
  }
}
