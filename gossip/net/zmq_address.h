// Addresses in the words of ZeroMQ, and what to do about one that cannot be bound.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "gossip/peer.h"

namespace starling {

// "tcp://HOST:PORT" to connect to.
std::string zmq_address(const std::string& host, uint32_t port);

// As above, to listen on; port 0: any. The host is not that of `listen` alone: "0.0.0.0" and "::" mean every interface.
std::string zmq_listen_address(const Endpoint& listen, uint32_t port);

// Another program listens on the port.
class PortTaken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws std::runtime_error with the address, the cause and a remedy. `number` is ZeroMQ's errno.
[[noreturn]] void throw_listen_failed(const Endpoint& failed, int number, const std::string& cause);

}  // namespace starling
