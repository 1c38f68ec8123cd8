// Nodes of link_relay: network namespaces with one TUN device each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

using Nanos = int64_t;  // of the steady clock
Nanos now();

// In front of each packet (virtio's virtio_net_hdr; the kernel's header for it is not C++).
struct VirtioHeader {
  uint8_t flags, gso_type;
  uint16_t hdr_len, gso_size, csum_start, csum_offset;
};
static_assert(sizeof(VirtioHeader) == 10);

// A node's own link. A packet between two nodes takes the sender's rate up and the receiver's down, the longer delay of
// both, and the higher loss of both.
struct Link {
  double delay_ms = 0, rate_mbit = 0, loss = 0;  // one way; 0: no limit; part of the packets
  bool cut = false;                              // nothing comes or goes, and nobody is told
  int side = 0;                                  // nothing comes from, or goes to, nodes of another side

  // Whether large packets may stay whole on it, as on a network card that segments: cheaper by far, but a loss would
  // take them whole, and on a thin link one would hold the others up for long.
  bool carries_large() const;
  Nanos delay() const { return static_cast<Nanos>(delay_ms * 1e6); }
  Nanos on_wire(size_t bytes) const;          // how long that many bytes take
  size_t queue_bytes(double queue_ms) const;  // what waits and what flies, at most
};

struct Packet {
  Nanos due = 0;
  int from = 0, to = 0;
  size_t on_wire = 0;
  std::string bytes;  // with the virtio header
};

struct Node {
  int ns = -1, tun = -1;
  Link link;
  Nanos uplink_free = 0, downlink_free = 0;
  size_t held = 0;                     // bytes in `flying`
  std::deque<Packet> flying, landing;  // each in the order of `due`
  uint64_t sent = 0, dropped_full = 0, dropped_lost = 0, bytes = 0;
};

[[noreturn]] void fail(const std::string& what);
[[noreturn]] void fail_system(const std::string& what, const std::string& hint);  // with errno's words

std::string address_of(int node);  // 10.77.0.1 for node 0
std::vector<Node> make_nodes(int count, const Link& link, int mtu);
// Large packets between the kernels only where every link carries them: one may go to any node.
void set_offload(const std::vector<Node>& nodes);
