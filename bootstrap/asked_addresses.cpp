#include "bootstrap/asked_addresses.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "gossip/net/hash.h"
#include "gossip/net/name_cache.h"

namespace starling {

AskedAddresses::AskedAddresses(std::vector<Endpoint> addresses, const Endpoint& own, Outbox& outbox,
                               uint64_t secret)
    : addresses_(std::move(addresses)), outbox_(outbox), secret_(secret) {
  std::erase(addresses_, own);
  nonces_.resize(addresses_.size());
  cookies_.resize(addresses_.size());
}

// The number stays the same, because the answer to an earlier Join may be on its way.
void AskedAddresses::ask(size_t index, const PeerRecord& self, const std::string& settings) {
  nonces_[index] = secret_number(secret_, index);
  outbox_.send(addresses_[index], Join{self, settings, nonces_[index], cookies_[index]});
}

bool AskedAddresses::show_cookie(const BootstrapMessage& message, const PeerRecord& self,
                                 const std::string& settings) {
  const auto* asks = std::get_if<JoinCookie>(&message);
  if (!asks) return false;
  const std::optional<size_t> index = index_of(asks->nonce);
  if (index && cookies_[*index] != asks->cookie) {   // the same again: it is not what opens that door
    cookies_[*index] = asks->cookie;
    ask(*index, self, settings);
  }
  return true;
}

std::optional<size_t> AskedAddresses::index_of(uint64_t nonce) const {
  const auto found = std::find(nonces_.begin(), nonces_.end(), nonce);
  if (nonce == 0 || found == nonces_.end()) return std::nullopt;
  return static_cast<size_t>(found - nonces_.begin());
}

std::optional<size_t> AskedAddresses::answered(const BootstrapMessage& message) const {
  const auto* reply = std::get_if<JoinReply>(&message);
  const auto* refused = std::get_if<JoinRefused>(&message);
  return index_of(reply ? reply->nonce : refused ? refused->nonce : 0);
}

std::string AskedAddresses::list() const {
  std::string text;
  for (const Endpoint& endpoint : addresses_) text += (text.empty() ? "" : ", ") + endpoint.to_string();
  return text;
}

std::string AskedAddresses::doubt_of_names() const {
  for (const Endpoint& endpoint : addresses_) {
    if (endpoint.host == "localhost" || is_number(endpoint.host)) continue;
    return "no name server tells the address of " + endpoint.host + " now (see: getent hosts " + endpoint.host + ")";
  }
  return "";
}

}  // namespace starling
