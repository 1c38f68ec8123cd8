#include "bootstrap/asked_addresses.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "gossip/net/hash.h"
#include "gossip/net/name_cache.h"

namespace starling {
namespace {

constexpr uint32_t kLostMin = 3;  // long answers in a row

}  // namespace

AskedAddresses::AskedAddresses(std::vector<Endpoint> addresses, const Endpoint& own, Outbox& outbox, uint64_t secret)
    : addresses_(std::move(addresses)), outbox_(outbox), secret_(secret) {
  std::erase(addresses_, own);
  nonces_.resize(addresses_.size());
  cookies_.resize(addresses_.size());
  shown_.resize(addresses_.size());
  short_.resize(addresses_.size());
}

// The number stays the same, because the answer to an earlier Join may be on its way.
void AskedAddresses::ask(size_t index, const PeerRecord& self, const std::string& settings,
                         const std::string& signature) {
  nonces_[index] = secret_number(secret_, index);
  const bool asks_briefly = shown_[index] >= kLostMin && !short_[index];
  const uint64_t cookie = asks_briefly ? 0 : cookies_[index];
  shown_[index] += cookie != 0;
  Join join{self, settings, nonces_[index], cookie};
  join.signature = signature;
  outbox_.send({addresses_[index]}, join);
}

bool AskedAddresses::show_cookie(const BootstrapMessage& message, const PeerRecord& self, const std::string& settings,
                                 const std::string& signature) {
  const auto* asks = std::get_if<JoinCookie>(&message);
  if (!asks) return false;
  const std::optional<size_t> index = index_of(asks->nonce);
  if (index && shown_[*index] >= kLostMin) short_[*index] = true;
  if (index && cookies_[*index] != asks->cookie) {  // the same again: it is not what opens that door
    cookies_[*index] = asks->cookie;
    ask(*index, self, settings, signature);
  }
  return true;
}

std::optional<size_t> AskedAddresses::index_of(uint64_t nonce) const {
  const auto found = std::find(nonces_.begin(), nonces_.end(), nonce);
  if (nonce == 0 || found == nonces_.end()) return std::nullopt;
  return static_cast<size_t>(found - nonces_.begin());
}

std::optional<size_t> AskedAddresses::answered(const BootstrapMessage& message) {
  const auto* reply = std::get_if<JoinReply>(&message);
  const auto* refused = std::get_if<JoinRefused>(&message);
  const std::optional<size_t> index = index_of(reply ? reply->nonce : refused ? refused->nonce : 0);
  if (index) {
    shown_[*index] = 0;
    short_[*index] = false;
  }
  return index;
}

std::string AskedAddresses::lost_long_answers() const {
  const auto lost = std::find(short_.begin(), short_.end(), true);
  if (lost == short_.end()) return "";
  return "short answers of " + addresses_[static_cast<size_t>(lost - short_.begin())].to_string() +
         " arrive, but not its long ones: " + lost_packets_remedy();
}

std::string AskedAddresses::closed(const FindPath& find_path, size_t count) const {
  for (size_t i = 0; find_path && i < std::min(count, addresses_.size()); ++i) {
    const std::string why = find_path(addresses_[i]).closed;
    if (!why.empty()) return why;
  }
  return "";
}

bool AskedAddresses::surely_closed(const FindPath& find_path, size_t count) const {
  for (size_t i = 0; find_path && i < std::min(count, addresses_.size()); ++i) {
    if (find_path(addresses_[i]).surely_closed) return true;
  }
  return false;
}

const Endpoint* AskedAddresses::accepting(const FindPath& find_path) const {
  const auto found = std::find_if(addresses_.begin(), addresses_.end(),
                                  [&](const Endpoint& to) { return find_path && find_path(to).accepts; });
  return found == addresses_.end() ? nullptr : &*found;
}

std::string lost_packets_remedy() {
  return "something on the way, a tunnel perhaps, loses packets of full size and tells nobody (MTU). Lower the MTU of "
         "both machines (ip link set dev INTERFACE mtu 1280), or let both find it out (sysctl -w "
         "net.ipv4.tcp_mtu_probing=1)";
}

std::string AskedAddresses::list() const { return list({}); }

std::string AskedAddresses::list(const FindPath& find_path) const {
  constexpr size_t kShown = 6;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, addresses_.size()); ++i) {
    text += (i == 0 ? "" : ", ") + addresses_[i].to_string();
    if (!find_path) continue;
    const PathFound found = find_path(addresses_[i]);
    if (found.known) text += " (" + found.text + ")";
  }
  return addresses_.size() <= kShown ? text : text + " and " + std::to_string(addresses_.size() - kShown) + " more";
}

std::string AskedAddresses::doubt_of_names(const FindPath& find_path) const {
  for (const Endpoint& endpoint : addresses_) {
    if (endpoint.host == "localhost" || is_number(endpoint.host)) continue;
    if (find_path && find_path(endpoint).named) continue;
    return "no name server tells the address of " + endpoint.host + " now (see: getent hosts " + endpoint.host + ")";
  }
  return "";
}

}  // namespace starling
