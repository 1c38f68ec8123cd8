// The text by which a machine joins a swarm that has tickets: HOST:PORT#TICKET. It names an agent or a registry by
// address and id. A ticket of a shared swarm holds the seed of the swarm's key: a holder can join, and invite others.
// One of a certified swarm holds the admission of one member.
//
// TICKET is of A-Z a-z 0-9 - _ (base64url). It stands for a version, the id, the rest, and the first 4 bytes of
// BLAKE2b-256 over "starling ticket" and all before. Later versions end with such a sum as well.
//
//   1  shared: the seed (32) and then the id (32); 92 characters
//   2  certified: the id (32), the swarm's key (32), the door's seed (32), and the membership; 286 characters
//   3  as 2, and the seed of the member's own identity (32), which the holder of the swarm's key made; 328 characters
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "gossip/net/identity.h"
#include "gossip/net/member_keys.h"
#include "gossip/peer.h"

namespace starling {

struct Ticket {
  Endpoint at;
  PeerId id;                             // of the agent or registry there
  KeySeed seed{};                        // of the swarm's key; zero: it is certified
  std::optional<Admission> admission{};  // of a certified swarm
  std::string to_string() const;
  PeerId swarm() const;  // the public half of its key
  bool operator==(const Ticket&) const = default;
};

inline constexpr size_t kTicketTextMax = 1024;  // bytes, the address included

// Foreign text. Throws std::invalid_argument: what is wrong with it, and the remedy. The text is not shown.
Ticket parse_ticket(std::string_view text);

// For errors and logs that repeat what was typed: "HOST:PORT#..." in place of each ticket, whole or damaged.
std::string hide_tickets(std::string_view text);

}  // namespace starling
