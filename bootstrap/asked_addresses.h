// The addresses that an agent asks to let it in. Each Join carries a random number of its own address, so an answer
// counts only if it comes from an address that was asked, under whatever name or port the other side answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/path_found.h"
#include "gossip/net/message.h"
#include "gossip/net/outbox.h"

namespace starling {

class AskedAddresses {
 public:
  // `own`: where this agent listens; it is never asked. `secret`: nobody else may guess it; the numbers follow from it.
  AskedAddresses(std::vector<Endpoint> addresses, const Endpoint& own, Outbox& outbox, uint64_t secret);

  size_t count() const { return addresses_.size(); }
  const Endpoint& address(size_t index) const { return addresses_[index]; }
  // `signature`: of the settings, as in Join.
  void ask(size_t index, const PeerRecord& self, const std::string& settings, const std::string& signature);
  // A JoinCookie from an address that was asked: asks there again with it. False: it is another message.
  bool show_cookie(const BootstrapMessage& message, const PeerRecord& self, const std::string& settings,
                   const std::string& signature);
  // Which address was asked for this JoinReply or JoinRefused; nullopt: none, or it is another message.
  std::optional<size_t> answered(const BootstrapMessage& message);
  std::string list() const;  // for people: "a:1, b:2", of many the first ones
  // The same with what a look at the way to each has found: "a:1 (10.0.0.1 accepts connections)".
  std::string list(const FindPath& find_path) const;
  // For people: where one of them is a name, that it may have no number now, and how to look. Empty: none may.
  std::string doubt_of_names(const FindPath& find_path) const;
  // For people, with the remedy: three long answers of an address were lost, and a short one, asked for then, arrives.
  // Empty: there is none.
  std::string lost_long_answers() const;
  // For people, with the remedy: why the first of the first `count` addresses that lets nobody in does so. Empty: none.
  std::string closed(const FindPath& find_path, size_t count) const;
  bool surely_closed(const FindPath& find_path, size_t count) const;  // one of them, and that is no guess
  // One that takes connections; null: none is known to.
  const Endpoint* accepting(const FindPath& find_path) const;

 private:
  std::optional<size_t> index_of(uint64_t nonce) const;

  std::vector<Endpoint> addresses_;
  std::vector<uint64_t> nonces_, cookies_;  // of the same index; 0: not asked yet, none
  std::vector<uint32_t> shown_;             // likewise: Joins with a cookie since the last long answer
  std::vector<bool> short_;                 // likewise: three of them, and then a cookie came
  Outbox& outbox_;
  const uint64_t secret_;
};

}  // namespace starling
