// Answers the proposals of other agents by turns: a proposal is accepted when this agent is free and its payload is the
// newest state. Otherwise it waits for that, or is answered BUSY. Blocks that overtake their PROPOSE, or come with one
// that waits, are held for it.
//
// No ring of agents can wait for each other. While its own proposal is not answered, an agent lets another wait if that
// one has the smaller id. So every lasting edge of waiting leads from a smaller id to a larger one. A larger id waits
// for one round trip, the time of an answer that is on its way; after that it is told BUSY.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "gossip/exchange/exchange.h"
#include "gossip/net/outbox.h"
#include "gossip/pairs/early_pair_blocks.h"
#include "gossip/pairs/fair_share.h"
#include "gossip/pairs/options.h"
#include "gossip/pairs/pair_acceptor.h"
#include "gossip/pairs/pair_blocks.h"
#include "gossip/pairs/pair_proposer.h"
#include "gossip/pairs/pair_state.h"
#include "gossip/pairs/turn_schedule.h"

namespace starling {

class TurnAdmission {
 public:
  static constexpr size_t kEagerBytesMax = 2 << 20;              // a payload up to this size may go with its proposal
  static constexpr size_t kEarlyBytesMax = 16 * kEagerBytesMax;  // held for all proposals that wait
  static constexpr size_t kWaitingMax = 16;
  static constexpr int kAppointments = 4;  // deadlines: the longest delay of an appointment

  // All references must outlive the object; `sampler` may be null.
  TurnAdmission(const PairwiseOptions& options, PairState& ledger, const PairBlocks& blocks, PairProposer& proposer,
                PairAcceptor& acceptor, TurnSchedule& schedule, const Clock& clock, Outbox& outbox,
                PeerSampler* sampler)
      : options_(options),
        ledger_(ledger),
        blocks_(blocks),
        proposer_(proposer),
        acceptor_(acceptor),
        clock_(clock),
        outbox_(outbox),
        sampler_(sampler),
        schedule_(schedule),
        shares_(options.turns) {}

  // `from` and `generation` are the sender's.
  void on_propose(const PeerId& from, uint64_t generation, const Propose& propose);
  void on_block(const PeerId& from, const BlockPayload& block, const SharedBytes& payload);  // of a foreign proposal
  bool on_abort(const PeerId& from, const Abort& abort);  // true: of one that waited, and is gone

  // Begins the exchange of the one that waits and was mixed with longest ago. False: nobody waits.
  // REQUIRES: free, and a payload to offer.
  bool serve_next();
  bool serve(const PeerId& peer);                   // likewise of this one. False: it does not wait
  void asked();                                     // a proposal of this agent is on its way
  void refuse_waiting();                            // this agent shares nothing until further notice
  void only_asks(bool only) { only_asks_ = only; }  // the own blocks take long: proposals are answered BUSY
  // How many peers there are to exchange with, without this agent. 0: not known, and any peer may be served.
  void set_candidates(size_t count) { candidates_ = count; }
  size_t waiting() const;        // proposals that may begin
  size_t may_be_served() const;  // of those that wait

  void ended(const PairExchange& exchange, bool decided);              // PairState::on_ended
  void ask_later(const PeerId& peer, Duration free_in, bool unasked);  // PairState::on_busy_for
  std::vector<PeerId> not_asked() const { return shares_.not_asked(clock_.now()); }
  void add_asked_later(std::vector<PeerId>& peers) const;  // peers that told this agent to come later
  bool bars(const PeerId& peer) const { return barred_for(peer).has_value(); }  // it is told BUSY
  bool untried(const PeerId& peer, bool initiated) const { return shares_.untried(peer, initiated); }

  void forget(const PeerId& peer, uint64_t generation);
  void tick();
  TimePoint next_deadline() const;

 private:
  struct Waiting {
    PeerId from;
    uint64_t generation = 0;
    Propose propose;
    TimePoint since, expires_at;  // its proposer gives up then
    TimePoint ring_at;            // from then on it may close a ring, if its id is the larger
  };
  bool ready(const Propose& propose) const;  // its turn may begin
  bool ready(const Waiting& one) const;
  bool free() const;
  bool is_sane(const PeerId& from, uint64_t generation, const Propose& propose) const;
  void ask_again(const PeerId& from, const Propose& propose);
  std::optional<Duration> barred_for(const PeerId& from) const;
  bool had_its_share(const PeerId& from, const Propose& propose, uint64_t boundary) const;
  bool closes_ring(const PeerId& from, const Propose& propose) const;
  bool begin_waiting(std::vector<Waiting>::iterator next);
  TimePoint own_answer_due() const;
  void refuse_rings();
  void count_queued();
  void count_met(const PeerId& peer);
  void count_served(const PeerId& from, const Propose& propose, uint64_t boundary);
  bool crossing(const PeerId& from, uint64_t generation, const Propose& propose);
  void admit(const PeerId& from, uint64_t generation, const Propose& propose);
  void begin_turn(const PeerId& from, const Propose& propose, PairAcceptor::Turn turn);
  void refuse(const Propose& propose, Duration free_in);
  void refuse_over_share(const Propose& propose, Duration free_in);
  Duration appointment_in(const PeerId& from, TimePoint next_at);
  bool own_stands(const ExchangeId& own, const ExchangeId& other) const;

  const PairwiseOptions options_;
  PairState& ledger_;
  const PairBlocks& blocks_;
  PairProposer& proposer_;
  PairAcceptor& acceptor_;
  const Clock& clock_;
  Outbox& outbox_;
  PeerSampler* sampler_;
  TurnSchedule& schedule_;
  std::vector<Waiting> waiting_;
  FairShare shares_;
  bool only_asks_ = false;
  size_t candidates_ = 0;
  std::map<PeerId, TimePoint> not_before_;  // when this agent shall ask others
  EarlyPairBlocks early_{kEagerBytesMax, kEarlyBytesMax};
};

}  // namespace starling
