// How the state machines send: they name a peer (or, before there are members, an address) and a message; the owner
// of the transport finds the endpoint, encodes and sends. Never blocks; what cannot be sent is lost and counted.
#pragma once

#include "gossip/net/message.h"
#include "gossip/net/transport.h"

namespace starling {

class Outbox {
 public:
  virtual ~Outbox() = default;
  virtual void send(const PeerId& to, const Message& message, SharedBytes payload = {}) = 0;
  virtual void send(const Endpoint& to, const Message& message, SharedBytes payload = {}) = 0;
};

}  // namespace starling
