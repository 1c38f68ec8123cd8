// The part of a ZmqTransport that one of its swarms has: what it sends goes out with that swarm's keys, and it gets the
// frames of that swarm's members alone. So what uses it cannot mix swarms. Of an open transport: all of it.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "gossip/net/inbox.h"
#include "gossip/net/zmq_transport.h"

namespace starling {

class SwarmPort final : public Inbox {
 public:
  // `swarm`: its key; zero: the transport is open. `shared` outlives the port.
  SwarmPort(ZmqTransport& shared, const PeerId& swarm) : Inbox(shared), shared_(shared), swarm_(swarm) {}

  // Hands each port the next frames of its swarm, at most `frames_max` together. REQUIRES: all ports are of `shared`.
  static void deal(ZmqTransport& shared, const std::vector<SwarmPort*>& ports, int frames_max) {
    for (int i = 0; i < frames_max; ++i) {
      std::optional<ReceivedFrame> frame = shared.poll();
      if (!frame) break;
      const auto port =
          std::find_if(ports.begin(), ports.end(), [&](SwarmPort* p) { return p->swarm_ == frame->swarm; });
      if (port != ports.end()) (*port)->take(*std::move(frame));
    }
  }

  SendStatus send(const Endpoint& to, Channel channel, Frame frame) override {
    frame.swarm = swarm_;
    return Inbox::send(to, channel, std::move(frame));
  }
  void forget(const Endpoint& peer) override { shared_.forget(peer, swarm_); }

 private:
  ZmqTransport& shared_;
  const PeerId swarm_;
};

}  // namespace starling
