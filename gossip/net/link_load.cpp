#include "gossip/net/link_load.h"

#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace starling {
namespace {

constexpr int kMeasurementsAbove = 3;  // ZeroMQ's thread may be late with whole frames

// Nullopt: no TCP connection (any more), or a kernel older than the count.
std::optional<uint64_t> bytes_received(int connection) {
  tcp_info info{};
  socklen_t size = sizeof info;
  const bool known = ::getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
                     size >= offsetof(tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received;
  return known ? std::optional<uint64_t>(info.tcpi_bytes_received) : std::nullopt;
}

std::string host_of(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST];
  const bool known = ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, nullptr, 0,
                                   NI_NUMERICHOST) == 0;
  return known ? host : "";
}

}  // namespace

std::string source_of(int connection) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(connection, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  return host_of(address, size);
}

void LinkLoads::opened(int connection, const FramesRead& read) {
  Link link{.peer_size = sizeof(sockaddr_storage), .frames = read.count(connection)};
  if (::getpeername(connection, reinterpret_cast<sockaddr*>(&link.peer), &link.peer_size) != 0) return;
  links_[connection] = link;
}

void LinkLoads::measure(const FramesRead& read) {
  for (auto& [connection, link] : links_) {
    const uint64_t received = bytes_received(connection).value_or(0);
    const uint32_t frames = read.count(connection);
    if (frames != link.frames) {
      link.frames = frames;
      link.brought_some = true;
      link.counted_from = received;
    }
    link.held = received - std::min(received, link.counted_from);
  }
}

size_t LinkLoads::held() const {
  size_t sum = 0;
  for (const auto& [connection, link] : links_) sum += link.held;
  return sum;
}

size_t LinkLoads::shut_above(size_t most) {
  for (auto& [connection, link] : links_) link.above = link.held > most ? link.above + 1 : 0;
  return std::erase_if(links_, [](const auto& item) {
    return item.second.above >= kMeasurementsAbove && shut_down(item.first, item.second);
  });
}

bool LinkLoads::shut_largest() {
  const auto less = [](const auto& a, const auto& b) {
    if (a.second.brought_some != b.second.brought_some) return a.second.brought_some;
    return a.second.held < b.second.held;
  };
  const auto largest = std::max_element(links_.begin(), links_.end(), less);
  if (largest == links_.end()) return false;
  (void)shut_down(largest->first, largest->second);
  links_.erase(largest);
  return true;
}

bool LinkLoads::shut(int connection, const std::string& source) {
  const auto link = links_.find(connection);
  if (link == links_.end() || host_of(link->second.peer, link->second.peer_size) != source) return false;
  const bool was_open = shut_down(connection, link->second);
  links_.erase(link);
  return was_open;
}

// ZeroMQ may have closed the descriptor and the system may have given it away: so one of our own is looked at and used.
bool LinkLoads::shut_down(int connection, const Link& link) {
  const int own = ::dup(connection);
  if (own < 0) return false;
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  const bool same = ::getpeername(own, reinterpret_cast<sockaddr*>(&peer), &size) == 0 && size == link.peer_size &&
                    std::memcmp(&peer, &link.peer, size) == 0;
  const bool shut = same && ::shutdown(own, SHUT_RDWR) == 0;
  ::close(own);
  return shut;
}

}  // namespace starling
