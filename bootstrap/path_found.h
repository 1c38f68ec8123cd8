// What a look at the way to an address has found, in words.
#pragma once

#include <functional>
#include <string>

#include "gossip/peer.h"

namespace starling {

struct PathFound {
  bool known = false;    // it has been looked at
  bool named = false;    // its host has numbers
  bool accepts = false;  // one of them has taken connections at both ports for some seconds
  bool refuses = false;  // each of them answers that nobody listens there
  std::string text;      // "10.0.0.1 accepts connections; fd00::1: no route to host"
  std::string closed{};  // why nobody there lets this process in, with the remedy; empty: it is not known to be so
  bool surely_closed = false;  // the port said so; a forwarder before a dead agent breaks handshakes off as well
};

// At once; may find out meanwhile. Empty: nobody looks, as in a simulation.
using FindPath = std::function<PathFound(const Endpoint& to)>;

// What to do where short packets pass, and those of full size do not.
std::string lost_packets_remedy();

}  // namespace starling
