#include "agent/process/lost_packets.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

#include "gossip/net/file.h"
#include "gossip/net/name_cache.h"

namespace starling {
namespace {

constexpr uint32_t kSentAgain = 3;
constexpr uint32_t kLatelyMs = 1'200;  // less than it takes to send a packet again three times
constexpr uint32_t kEstablished = 1;   // TCP_ESTABLISHED, whose header excludes <linux/tcp.h>

struct Host {
  bool lately = false;
  std::map<uint32_t, uint32_t> stuck;  // the socket's inode -> times sent again
};

void take(const inet_diag_msg& socket, const tcp_info& info, std::map<std::string, Host>& hosts) {
  char number[INET6_ADDRSTRLEN];
  if (inet_ntop(socket.idiag_family, socket.id.idiag_dst, number, sizeof number) == nullptr) return;
  Host& host = hosts[unmapped(number)];
  const bool stuck = info.tcpi_retransmits >= kSentAgain && socket.idiag_wqueue >= info.tcpi_snd_mss;
  if (stuck) host.stuck.emplace(socket.idiag_inode, info.tcpi_retransmits);
  host.lately |= !stuck && std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv) < kLatelyMs;
}

// False: it was the last one.
bool take(const nlmsghdr& message, std::map<std::string, Host>& hosts) {
  if (message.nlmsg_type == NLMSG_DONE || message.nlmsg_type == NLMSG_ERROR) return false;
  if (message.nlmsg_len < NLMSG_LENGTH(sizeof(inet_diag_msg))) return true;
  inet_diag_msg socket{};
  std::memcpy(&socket, NLMSG_DATA(&message), sizeof socket);
  const auto* attribute =
      reinterpret_cast<const rtattr*>(static_cast<const char*>(NLMSG_DATA(&message)) + sizeof socket);
  auto left = static_cast<int>(message.nlmsg_len - NLMSG_LENGTH(sizeof socket));
  for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
    if (attribute->rta_type != INET_DIAG_INFO) continue;
    tcp_info info{};
    std::memcpy(&info, RTA_DATA(attribute), std::min<size_t>(sizeof info, RTA_PAYLOAD(attribute)));
    take(socket, info, hosts);
  }
  return true;
}

void read_sockets(uint8_t family, std::map<std::string, Host>& hosts) {
  const File link(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  struct {
    nlmsghdr head;
    inet_diag_req_v2 body;
  } request{};
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.body.sdiag_family = family;
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_ext = 1 << (INET_DIAG_INFO - 1);
  request.body.idiag_states = 1u << kEstablished;
  const timeval patience{1, 0};
  if (!link.is_open() || setsockopt(link.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
      send(link.fd(), &request, sizeof request, 0) != static_cast<ssize_t>(sizeof request)) {
    return;
  }
  alignas(nlmsghdr) char bytes[32 * 1024];
  while (true) {
    const ssize_t got = recv(link.fd(), bytes, sizeof bytes, 0);
    if (got <= 0) return;
    auto left = static_cast<unsigned>(got);
    for (const auto* at = reinterpret_cast<const nlmsghdr*>(bytes); NLMSG_OK(at, left); at = NLMSG_NEXT(at, left)) {
      if (!take(*at, hosts)) return;
    }
  }
}

bool is_own(uint32_t inode) {
  const std::string link = "socket:[" + std::to_string(inode) + "]";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    if (std::filesystem::read_symlink(entry.path(), error) == link) return true;
  }
  return false;
}

}  // namespace

std::map<std::string, StuckPacket> stuck_packets() {
  std::map<std::string, Host> hosts;
  for (const uint8_t family : {AF_INET, AF_INET6}) read_sockets(family, hosts);
  std::map<std::string, StuckPacket> found;
  for (const auto& [number, host] : hosts) {
    for (const auto& [inode, times] : host.stuck) {
      if (!is_own(inode)) continue;
      StuckPacket& packet = found[number];
      packet = {std::max(packet.sent_again, times), host.lately};
    }
  }
  return found;
}

}  // namespace starling
