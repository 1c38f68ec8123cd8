#include "agent/process/host_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <optional>

namespace starling {
namespace {

std::optional<std::string> numeric(const sockaddr* address, socklen_t size) {
  char host[NI_MAXHOST];
  if (getnameinfo(address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return std::nullopt;
  return std::string(host);
}

// Connecting a datagram socket sends nothing: it only makes the kernel choose a route.
std::optional<std::string> source_towards(const Endpoint& peer) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(peer.host.c_str(), std::to_string(peer.port).c_str(), &hints, &found) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> guard(found, freeaddrinfo);
  const int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::nullopt;
  std::optional<std::string> result;
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0) {
    result = numeric(reinterpret_cast<sockaddr*>(&own), size);
  }
  close(fd);
  return result;
}

}  // namespace

bool is_any_address(const std::string& host) {
  return host.empty() || host == "0.0.0.0" || host == "::" || host == "*";
}

std::string own_address(const std::vector<Endpoint>& peers) {
  for (const Endpoint& peer : peers) {
    if (const auto source = source_towards(peer)) return *source;
  }
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "127.0.0.1";
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> guard(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || (entry->ifa_flags & IFF_LOOPBACK) || !(entry->ifa_flags & IFF_UP)) continue;
    if (entry->ifa_addr->sa_family != AF_INET) continue;
    if (const auto address = numeric(entry->ifa_addr, sizeof(sockaddr_in))) return *address;
  }
  return "127.0.0.1";
}

}  // namespace starling
