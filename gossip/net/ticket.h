// The text by which a machine joins a swarm that has tickets: HOST:PORT#TICKET. It names an agent or a registry by
// address and id, and holds the seed of the swarm's key: a holder can join, and invite others.
//
// TICKET is 92 characters of A-Z a-z 0-9 - _ (base64url) that stand for 69 bytes: the version 1, the seed, the id, and
// the first 4 bytes of BLAKE2b-256 over "starling ticket" and all before. Later versions end with such a sum as well.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "gossip/net/identity.h"
#include "gossip/peer.h"

namespace starling {

struct Ticket {
  Endpoint at;
  PeerId id;       // of the agent or registry there
  KeySeed seed{};  // of the swarm's key
  std::string to_string() const;
  bool operator==(const Ticket&) const = default;
};

inline constexpr size_t kTicketTextMax = 1024;  // bytes, the address included

// Foreign text. Throws std::invalid_argument: what is wrong with it, and the remedy. The text is not shown.
Ticket parse_ticket(std::string_view text);

// For errors and logs that repeat what was typed: "HOST:PORT#..." in place of each ticket, whole or damaged.
std::string hide_tickets(std::string_view text);

}  // namespace starling
