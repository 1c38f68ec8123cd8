#include "agent/process/host_address.h"

#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <tuple>

#include "agent/process/path_check.h"
#include "gossip/clock.h"
#include "gossip/net/file.h"
#include "gossip/net/name_cache.h"

namespace starling {
namespace {

constexpr Duration kConnectPatience = std::chrono::seconds(2);
const Endpoint kFarAway[] = {{"8.8.8.8", 53}, {"2001:4860:4860::8888", 53}};  // by the default route; nothing is sent

constexpr std::chrono::seconds kNamePatience{2};

std::optional<std::string> numeric(const sockaddr* address) {
  const socklen_t size = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  char host[NI_MAXHOST];
  if (getnameinfo(address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return std::nullopt;
  return std::string(host);
}

// The local address of a packet to an address in numbers; empty: no way leads there. Connecting a datagram socket sends
// nothing: it only makes the kernel choose a route.
std::string source_of(const std::string& number, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (getaddrinfo(number.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return "";
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> guard(found, freeaddrinfo);
  const File fd(socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.is_open() || connect(fd.fd(), found->ai_addr, found->ai_addrlen) != 0) return "";
  return local_number(fd.fd());
}

// A name server may be silent for a minute, so the answer is not waited for longer than kNamePatience.
std::vector<std::string> numbers_of(const std::string& host) {
  if (is_number(host)) return {host};
  const auto found = std::make_shared<std::promise<std::vector<std::string>>>();
  std::future<std::vector<std::string>> answer = found->get_future();
  std::thread([found, host] { found->set_value(NameCache::system_look_up(host)); }).detach();
  if (answer.wait_for(kNamePatience) != std::future_status::ready) return {};
  return answer.get();
}

std::optional<std::string> source_towards_any(const std::vector<Endpoint>& peers) {
  std::vector<Way> ways;
  std::vector<std::string> sources;
  for (const Endpoint& peer : peers) {
    for (const std::string& number : numbers_of(peer.host)) {
      const std::string source = source_of(number, peer.port);
      if (source.empty() || is_loopback(source)) continue;
      ways.push_back({number, peer.port});
      if (std::find(sources.begin(), sources.end(), source) == sources.end()) sources.push_back(source);
    }
  }
  if (sources.size() > 1) {
    for (const Tried& tried : try_to_connect(ways, kConnectPatience, true)) {
      if (tried.error == 0) return tried.source;
    }
  }
  return sources.empty() ? std::nullopt : std::optional(sources.front());
}

// Bridges have the addresses of containers and virtual machines on this host, tunnels those of a private network.
bool is_bridge_or_tunnel(const ifaddrs& entry) {
  if (entry.ifa_flags & IFF_POINTOPOINT) return true;
  const File any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ethtool_drvinfo info{};
  info.cmd = ETHTOOL_GDRVINFO;
  ifreq request{};
  std::strncpy(request.ifr_name, entry.ifa_name, sizeof request.ifr_name - 1);
  request.ifr_data = reinterpret_cast<char*>(&info);
  if (!any.is_open() || ioctl(any.fd(), SIOCETHTOOL, &request) != 0) return false;
  const std::string_view driver(info.driver, strnlen(info.driver, sizeof info.driver));
  return driver == "bridge" || driver == "tun";
}

bool is_link_local(const std::string& number) { return number.starts_with("169.254.") || number.starts_with("fe80:"); }

template <typename Use>
void for_each_address(const Use& use) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> guard(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || !(entry->ifa_flags & IFF_UP)) continue;
    if (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6) continue;
    if (const auto number = numeric(entry->ifa_addr)) use(*entry, *number);
  }
}

// Nullopt: there is none but loopback.
std::optional<std::string> best_interface_address() {
  using Rank = std::tuple<bool, bool, bool, bool>;  // the smaller the better
  std::optional<std::pair<Rank, std::string>> best;
  for_each_address([&](const ifaddrs& entry, const std::string& number) {
    if ((entry.ifa_flags & IFF_LOOPBACK) || is_loopback(number) || number.starts_with("fe80:")) return;
    const bool v6 = entry.ifa_addr->sa_family == AF_INET6;
    const Rank rank{is_link_local(number), !(entry.ifa_flags & IFF_RUNNING), is_bridge_or_tunnel(entry), v6};
    if (!best || rank < best->first) best = {rank, number};
  });
  return best ? std::optional(best->second) : std::nullopt;
}

}  // namespace

std::optional<std::string> source_towards(const Endpoint& peer) {
  for (const std::string& number : numbers_of(peer.host)) {
    const std::string source = source_of(number, peer.port);
    if (!source.empty()) return source;
  }
  return std::nullopt;
}

bool is_any_address(const std::string& host) {
  return host.empty() || host == "0.0.0.0" || host == "::" || host == "*";
}

std::vector<std::string> interface_addresses() {
  std::vector<std::string> all;
  for_each_address([&](const ifaddrs&, const std::string& number) { all.push_back(number); });
  std::sort(all.begin(), all.end());
  return all;
}

std::string own_address(const std::vector<Endpoint>& peers) {
  if (const auto source = source_towards_any(peers)) return *source;
  for (const Endpoint& far : kFarAway) {
    const auto source = source_towards(far);
    if (source && !is_loopback(*source) && !is_link_local(*source)) return *source;
  }
  return best_interface_address().value_or("127.0.0.1");
}

bool follows_interfaces(const AgentConfig& config) {
  return is_any_address(config.advertise ? config.advertise->host : config.listen.host);
}

Endpoint advertised(const AgentConfig& config, const Endpoint& bound) {
  Endpoint endpoint = config.advertise.value_or(config.listen);
  if (endpoint.port == 0) endpoint.port = bound.port;
  if (is_any_address(endpoint.host)) endpoint.host = own_address(config.bootstrap);
  return endpoint;
}

std::string loopback_problem(const Endpoint& own, const std::vector<Endpoint>& peers) {
  if (!is_loopback(own.host)) return "";
  for (const Endpoint& peer : peers) {
    const auto source = source_towards(peer);
    if (!source || is_loopback(*source)) continue;
    return "this agent tells others that it is at " + own.to_string() + ", where only this machine reaches it, but " +
           peer.to_string() + " is on another one: leave --listen and --advertise out, or name " +
           Endpoint{*source, own.port}.to_string();
  }
  return "";
}

}  // namespace starling
