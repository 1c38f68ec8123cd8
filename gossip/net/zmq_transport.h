// Transport over ZeroMQ: a ROUTER bound on the control port and one on the bulk port (the next), and one DEALER per
// contacted endpoint, channel and reader. One owner thread; only wake() may be called from others. With keys, those of
// a swarm with tickets, all links are encrypted, only members get in, and each frame says which one it is of. A
// registry has the keys of several swarms: the door that a link shows says its swarm, and only that one's proof counts.
#pragma once

#include <memory>

#include "gossip/net/member_keys.h"
#include "gossip/net/name_cache.h"
#include "gossip/net/transport.h"

namespace starling {

// ZeroMQ's own threads; one per process. Raises the soft limit of open files. Must outlive its transports; received
// payloads may outlive both.
class ZmqContext {
 public:
  explicit ZmqContext(int io_thread_count = 2);
  ~ZmqContext();
  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;

 private:
  friend class ZmqTransport;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct ZmqTransportImpl;

class ZmqTransport final : public Transport {
 public:
  // Binds both ports; port 0 takes any two free neighbors. Host "0.0.0.0" or "::": every interface. Throws
  // std::runtime_error with the address and the remedy.
  // `keys`: of a swarm with tickets; null: an open one. With keys it is tried first whether a stranger is refused.
  // `look_up` turns names of hosts into numbers; ZeroMQ itself would wait for the name server on its only threads.
  ZmqTransport(const Endpoint& listen, ZmqContext& context, std::shared_ptr<const MemberKeys> keys = nullptr,
               NameCache::LookUp look_up = NameCache::system_look_up);
  ~ZmqTransport() override;  // what has not reached the kernel by then is lost
  ZmqTransport(const ZmqTransport&) = delete;
  ZmqTransport& operator=(const ZmqTransport&) = delete;

  // Bounds the links that others open, by the members that there are. Those that are open stay.
  void expect_members(size_t count);

  // The members of one more swarm get in. REQUIRES: there are keys of the same identity, and none of that swarm. Throws
  // std::invalid_argument, with the remedy: its door is another swarm's.
  void open_to(std::shared_ptr<const MemberKeys> keys);
  // Nothing of that swarm comes in or goes out any more.
  void close_to(const PeerId& swarm);

  // Which peer is at an address, from a ticket or an earlier life; of two calls for one the later counts. What becomes
  // of control links to there is watched, also where the id is zero, as it is in an open swarm. `swarm` is the key of
  // one of several here and below; zero: the first.
  void expect_at(const PeerAddress& place, const PeerId& swarm = {});
  // Of such an address: why no link to it opens, for people, with the remedy. Empty: one does, or it is not known yet.
  std::string why_closed(const Endpoint& at, const PeerId& swarm = {}) const;
  bool surely_closed(const Endpoint& at) const;  // that is no guess; with keys a guess is taken for it

  // For people: which link was cut, since it has the door key of that swarm and shows no membership of it.
  // Again after a minute, then after twice as long each, up to an hour; empty: none, or not yet again.
  std::string take_foreign(const PeerId& swarm = {});

  // This process has another membership of that swarm, with the same identity and door: all its links to others are
  // made anew. REQUIRES: it had keys of it.
  void renew(std::shared_ptr<const MemberKeys> keys);

  SendStatus send(const Endpoint& to, Channel channel, Frame frame) override;
  std::optional<ReceivedFrame> poll() override;
  void wait_until(TimePoint deadline) override;
  void wake() override;
  void forget(const Endpoint& peer) override;  // in all swarms
  void forget(const Endpoint& peer, const PeerId& swarm);
  void refuse(const ReceivedFrame& frame) override;
  void cut(const ReceivedFrame& frame) override;
  Endpoint local() const override;
  TransportCounters counters() const override;

 private:
  std::unique_ptr<ZmqTransportImpl> impl_;
};

}  // namespace starling
