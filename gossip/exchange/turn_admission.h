// Answers the proposals of other agents by turns: a proposal is accepted when this agent is free and its payload is the
// newest state. Otherwise it waits for that, or is answered BUSY. Blocks that overtake their PROPOSE, or come with one
// that waits, are held for it.
//
// No ring of agents can wait for each other. An agent whose own proposal is not answered lets another wait if the
// other's id is smaller, so every edge of waiting that lasts leads from a smaller id to a larger one. A larger one
// waits while an answer may be on its way: whoever is free answers within one round trip.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "gossip/exchange/appointments.h"
#include "gossip/exchange/early_pair_blocks.h"
#include "gossip/exchange/exchange.h"
#include "gossip/exchange/options.h"
#include "gossip/exchange/pair_acceptor.h"
#include "gossip/exchange/pair_blocks.h"
#include "gossip/exchange/pair_ledger.h"
#include "gossip/exchange/pair_proposer.h"
#include "gossip/exchange/turn_schedule.h"
#include "gossip/exchange/turn_shares.h"
#include "gossip/net/outbox.h"

namespace starling {

class TurnAdmission {
 public:
  static constexpr size_t kEagerBytesMax = 2 << 20;    // a payload up to this size may go with its proposal
  static constexpr size_t kEarlyBytesMax = 16 * kEagerBytesMax;   // held for all proposals that wait
  static constexpr size_t kWaitingMax = 16;
  static constexpr size_t kTrustedMin = 8;             // one of so many
  static constexpr int kAppointments = 4;              // deadlines: who is told to come later comes then

  // All references must outlive the object; `sampler` may be null.
  TurnAdmission(const PairwiseOptions& options, PairLedger& ledger, const PairBlocks& blocks, PairProposer& proposer,
                PairAcceptor& acceptor, TurnSchedule& schedule, const Clock& clock, Outbox& outbox,
                PeerSampler* sampler)
      : options_(options), ledger_(ledger), blocks_(blocks), proposer_(proposer), acceptor_(acceptor), clock_(clock),
        outbox_(outbox), sampler_(sampler), schedule_(schedule), shares_(options.turns) {}

  // `from` and `generation` are the sender's.
  void on_propose(const PeerId& from, uint64_t generation, const Propose& propose);
  void on_block(const PeerId& from, const BlockPayload& block, const SharedBytes& payload);   // of a foreign proposal
  bool on_abort(const PeerId& from, const Abort& abort);   // true: of one that waited, and is gone

  // Begins the exchange of the one that waits and was mixed with longest ago. False: nobody waits.
  // REQUIRES: free, and a payload to offer.
  bool serve_next();
  bool serve(const PeerId& peer);                  // likewise of this one. False: it does not wait
  void asked();                                    // a proposal of this agent is on its way
  void refuse_waiting();                           // this agent shares nothing until further notice
  void only_asks(bool only) { only_asks_ = only; }   // this agent's blocks take long: who asks it is told BUSY
  size_t waiting() const;                          // those whose turn may begin
  size_t may_be_served() const;                    // of those that wait

  void ended(const PairExchange& exchange, bool decided);   // PairLedger::on_ended
  void refused(const PeerId& peer) { shares_.refused(peer, clock_.now(), options_.deadline_max); }
  void ask_later(const PeerId& peer, Duration free_in, bool unasked);   // PairLedger::on_busy_for
  std::vector<PeerId> scheduled_with() const;      // whom a schedule is made for. REQUIRES: a sampler
  std::vector<PeerId> not_asked() const;           // whom this agent should not ask now. REQUIRES: a sampler
  void add_asked_later(std::vector<PeerId>& peers) const;   // who told this agent to come later
  bool bars(const PeerId& peer) const { return barred_for(peer).has_value(); }   // it is told BUSY
  bool suspects(const PeerId& peer) const { return shares_.strangers().suspected(peer); }   // it may never decide
  bool untried(const PeerId& peer, bool initiated) const { return shares_.strangers().untried(peer, initiated); }
  Duration patience_with(const PeerId& peer) const;   // how long a proposal to it may wait

  void forget(const PeerId& peer, uint64_t generation);
  void tick();
  TimePoint next_deadline() const;

 private:
  struct Waiting {
    PeerId from;
    uint64_t generation = 0;
    Propose propose;
    TimePoint since, expires_at;                   // its proposer gives up then
    TimePoint ring_at;                             // from then on it may close a ring, if its id is the larger
  };
  bool ready(const Propose& propose) const;        // its turn may begin
  bool ready(const Waiting& one) const;
  bool free() const;
  bool is_sane(const PeerId& from, uint64_t generation, const Propose& propose) const;
  void ask_again(const PeerId& from, const Propose& propose);
  std::optional<Duration> barred_for(const PeerId& from) const;
  bool had_its_share(const PeerId& from, const Propose& propose, uint64_t boundary) const;
  std::vector<PeerId> reckoned_with() const;       // those that may be met, without strangers that are suspected
  size_t candidates() const;
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
  PairLedger& ledger_;
  const PairBlocks& blocks_;
  PairProposer& proposer_;
  PairAcceptor& acceptor_;
  const Clock& clock_;
  Outbox& outbox_;
  PeerSampler* sampler_;
  TurnSchedule& schedule_;
  std::vector<Waiting> waiting_;
  TurnShares shares_;
  bool only_asks_ = false;
  Appointments given_;                             // when others shall ask this agent
  std::map<PeerId, TimePoint> not_before_;         // when this agent shall ask others
  EarlyPairBlocks early_{kEagerBytesMax, kEarlyBytesMax};
};

}  // namespace starling
