// Membership: SWIM with Lifeguard's rules over the control port. Every agent knows all members. Only a member makes
// versions of its own record. Death is not gossiped: every agent runs its own timer for each suspect. A state machine:
// no sockets, no threads; clock and random seed come by constructor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "gossip/clock.h"
#include "gossip/membership/member.h"
#include "gossip/membership/options.h"
#include "gossip/net/member_keys.h"
#include "gossip/net/message.h"
#include "gossip/net/outbox.h"
#include "gossip/net/revocations.h"
#include "gossip/peer.h"

namespace starling {

class Membership {
 public:
  // `secret`: nobody else may guess it, since the numbers of pings follow from it and the random numbers.
  // `revocations`: of a certified swarm, else null; may be shared. `keys`: of a swarm with tickets, where records are
  // signed, else null. Both outlive the object.
  Membership(const MembershipOptions& options, PeerRecord self, const Clock& clock, Outbox& outbox, uint64_t rng_seed,
             uint64_t secret, Revocations* revocations = nullptr, const MemberKeys* keys = nullptr);
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  void tick();
  TimePoint next_deadline() const;

  // Replaces the options. A newcomer learns the swarm's options when it joins.
  void set_options(const MembershipOptions& options);

  // `generation`: of the process that sent the frame; nullopt: of the one that the table holds.
  void handle(const PeerId& from, const MembershipMessage& message, std::optional<uint64_t> generation = {});
  // To be called for every frame from a peer: it proves that the peer lives, and counts as an ack of a probe.
  void heard_from(const PeerId& peer, uint64_t generation);

  // This process of the peer answered with a random number that it can only have from here.
  void prove(const PeerId& peer, uint64_t generation);

  // Adds the records of a join: those in a JoinReply of `from`, or the newcomer's own.
  void add(const std::vector<PeerRecord>& records, const PeerId& from);
  void add(const PeerRecord& record) { add({record}, record.id); }
  // Addresses to contact again and again, members or not, so that islands find each other.
  void set_seeds(std::vector<Endpoint> seeds);
  // Announced as options.meta_interval says. What others wait for is told at once: a new phase, or that the steps have
  // reached `last_step`; 0: no step is the last.
  void update_self(const MemberMeta& meta, uint64_t last_step = 0);
  void announce_leave();  // tells all live members at once; no refutations from now on
  // Takes revocations (as Revocations::take() reads them), and tells the members those that are new. The record of a
  // member that is revoked leaves, and none of it is taken again. REQUIRES: the swarm is certified.
  void revoke(std::string_view entries);
  // From now on this agent is reached there, or its links are new: a next version of its record goes to all members at
  // once, dead ones too.
  void move_to(const Endpoint& endpoint);

  const PeerRecord& self() const;
  PeerRecord farewell() const;                   // the own record, to be sent as that one has left
  const Member* find(const PeerId& peer) const;  // nullptr: unknown. Valid until the next non-const call.
  std::vector<Member> alive() const;             // without self, ordered by id; kSuspect ones are not among them
  size_t alive_count() const;
  void visit_alive(const std::function<void(const Member&)>& visit) const;  // the same, without copies
  bool any_alive(const std::function<bool(const Member&)>& is_one) const;   // looks no further than the first
  std::vector<Member> all() const;  // without self, tombstones included, ordered by id
  void visit_all(const std::function<void(const Member&)>& visit) const;  // the same, without copies
  // For a JoinReply: self first, then random living ones.
  std::vector<PeerRecord> sample_records(size_t count_max);
  // For a reader: all records, the own one first, and the state of each member that is not alive. Of the tombstones
  // only those of members that died in the last ten minutes are there. `nonce` marks the pages; never 0.
  std::vector<Sync> pages(uint64_t nonce) const;

  std::vector<MemberEvent> take_events();
  // `from` holds it of this agent; of another id it is passed over.
  void hear_of_self(const PeerRecord& record, const PeerId& from);
  // A record of this agent's id that this process did not make: of a later one, or of one at another address.
  std::optional<PeerRecord> take_other_self();
  // The last one since the last call; nullopt: none.
  std::optional<ForgedRecord> take_forged();
  // A record that was not taken, because its generation is more than a day ahead while its member lives.
  std::optional<PeerRecord> take_record_ahead();
  // Members were asked and none of them has answered for so long, though frames of theirs may come: the ways there may
  // be dead. False where none has answered ever.
  bool nobody_answers(Duration for_long) const;
  const MembershipCounters& counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace starling
