// Through an Outbox a state machine sends a message to a peer, or to an address before it knows any members. The owner
// of the transport finds the endpoint, encodes and sends. Sending never blocks; unsent frames are lost and counted.
#pragma once

#include "gossip/net/message.h"
#include "gossip/net/transport.h"

namespace starling {

class Outbox {
 public:
  virtual ~Outbox() = default;
  virtual void send(const PeerId& to, const Message& message, SharedBytes payload = {}) = 0;
  virtual void send(const PeerAddress& to, const Message& message, SharedBytes payload = {}) = 0;
};

}  // namespace starling
