// The current round of the neighborhood exchange: its number, the neighbors in it, and how long it waits for which.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "gossip/clock.h"
#include "gossip/exchange/exchange.h"
#include "gossip/exchange/options.h"
#include "gossip/neighborhood/neighbor_link.h"

namespace starling {

class NeighborRound {
 public:
  // References must outlive the object. `window`: as NeighborLink has it.
  NeighborRound(const ExchangeOptions& options, size_t block_count, uint32_t window, const Clock& clock,
                PeerSampler& sampler)
      : options_(options), block_count_(block_count), window_(window), clock_(clock), sampler_(sampler) {}

  // Begins the next round, in which this agent sends `own`. False: it has no neighbor. REQUIRES: none is open.
  bool begin(const Snapshot& own);
  bool open() const { return open_; }
  // All that it waits for is here, or its deadline is over. REQUIRES: it is open.
  bool due() const { return complete() || clock_.now() >= deadline_at_; }
  void close() { open_ = false; }
  TimePoint next_deadline() const;  // when due() may change without a message

  uint64_t number() const { return number_; }  // it may jump; 0: none yet
  const std::vector<Participant>& neighbors() const { return neighbors_; }
  Duration deadline() const { return deadline_; }
  Duration time_taken() const { return clock_.now() - began_at_; }

  NeighborLink* find(const PeerId& peer);  // nullptr: none, or forgotten
  // The link to the sender of a block of that round, made at first contact; nullptr: it is not a neighbor.
  NeighborLink* link_to_sender(const PeerId& peer, uint64_t in_round);
  std::map<PeerId, NeighborLink>& links() { return links_; }
  const std::map<PeerId, NeighborLink>& links() const { return links_; }
  void forget(const PeerId& peer) { links_.erase(peer); }

  Duration deadline_now() const;    // of a round begun now
  Duration usual_duration() const;  // what arrivals need; 0: not known yet

 private:
  uint64_t next_number(uint64_t rounds_of_agent) const;
  std::vector<const NeighborLink*> known_links() const;
  bool complete() const;
  bool is_neighbor(const PeerId& peer, uint64_t in_round);
  NeighborLink& make_link(const PeerId& peer);
  template <typename Of>
  Duration median(Duration otherwise, const Of& of) const;

  const ExchangeOptions options_;
  const size_t block_count_;
  const uint32_t window_;
  const Clock& clock_;
  PeerSampler& sampler_;
  uint64_t number_ = 0;
  bool open_ = false;
  TimePoint began_at_, deadline_at_, first_contact_until_;
  Duration deadline_{};
  std::vector<Participant> neighbors_;
  std::map<uint64_t, std::vector<Participant>> nearby_;  // neighbors in nearby rounds, for early and late blocks
  std::map<PeerId, NeighborLink> links_;
};

}  // namespace starling
