// Judges and bounds the links that others open to this process. ZeroMQ asks before each new one (ZAP, RFC 27), and
// tells of every link that opens or closes; a thread of the gate's own answers. In a swarm with tickets it lets in the
// peers that show a door key (CURVE). Without its answer nobody gets in, and what ends the thread ends the process. A
// link above the bound is closed by the time limit of the handshake, and its owner tries again. Links that are open
// stay; a listener that is unbound would lose all of its links. It also cuts links that hold too much of what is no
// whole frame yet, and those that bring frames which nobody can read after many others of the same host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "gossip/net/identity.h"
#include "gossip/net/link_load.h"
#include "gossip/net/transport.h"

namespace starling {

class LinkGate {
 public:
  explicit LinkGate(void* zmq_context);  // outlives the gate; one gate each
  ~LinkGate();
  LinkGate(const LinkGate&) = delete;
  LinkGate& operator=(const LinkGate&) = delete;

  uint64_t new_group();  // of sockets; their links are bounded together
  // Before it is bound. `unfinished_max`: bytes that a link may hold before they are a whole frame. `port_secret`: of
  // swarms with tickets; null: every peer gets in. All sockets of a group have the same.
  void guard(uint64_t group, void* zmq_router, size_t unfinished_max, const CurveKey* port_secret);
  // The door keys that open such ports from now on, and the swarm of each. All frames of a link show its swarm, as the
  // digits of the property `User-Id`.
  void set_doors(uint64_t group, std::map<CurveKey, PeerId> swarms);
  // Also of one source address: half as many, so that one host leaves room for the others. A link that closes within
  // seconds counts for four all the same.
  void set_most(uint64_t group, size_t most);
  FramesRead& frames_read(uint64_t group);  // the transport tells it of each frame
  void frame_refused(uint64_t group, int connection, const std::string& source);
  void cut(uint64_t group, int connection, const std::string& source);  // at once
  LinkCounters counters(uint64_t group) const;
  void remove(uint64_t group);  // when its sockets are closed

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace starling
