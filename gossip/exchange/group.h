// The group exchange: Robust Parameter Server averaging over unreliable links (Yu et al., ICML 2019).
//
//   1 every member sends block k of its snapshot to the block's owner: number (k + round / 4) mod n of the sorted list
//   2 the owner averages, weighted by mass, what arrived by its deadline (its own always counts) ...
//   3 ... and sends the average back to all; a member that misses it keeps its own block
// Without loss every member ends with the exact mean: this is all-reduce. A block too late for its owner's deadline
// counts in the owner's next round, if the sender's next block is missing then and the block is still its own. Owners
// take turns: what a member that is always late owns is averaged by nobody, and the others' models part there.
//
// A round is 2 (n-1) streams of 1/n of the model each way. Frames carry the group (hash of the sorted list) and the
// round; frames of other groups are counted and dropped, those of a round to come are held. Rounds agree by the median:
// who is behind the median of the members' rounds jumps to it, and who is more than one ahead of all falls back.
// Nobody waits for a member that was seen in a later round: it sends nothing more of this one; nor for one of which
// nothing came for a whole round, until something does. Who is ahead of most
// puts its first deadline off for them, once a round.
// Only codecs whose payloads can be averaged (CodecTraits::linear). A state machine, like all exchanges.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compression/layout.h"
#include "gossip/exchange/exchange.h"
#include "gossip/exchange/options.h"
#include "gossip/net/outbox.h"
#include "gossip/worker.h"

namespace starling {

struct GroupCounters {
  uint64_t rounds = 0, rounds_whole = 0;   // whole: every block of both phases was there in time
};

class Group final : public Exchange {
 public:
  // All references must outlive the object. `codec` works on host memory and is used from worker jobs only.
  Group(const GroupOptions& options, const Layout& layout, const Codec& codec, Worker& worker, const Clock& clock,
        Outbox& outbox, Company& company);
  ~Group() override;

  void publish(std::shared_ptr<const Snapshot> snapshot) override;
  void retract() override;
  bool begin() override;
  void handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message,
              const SharedBytes& payload) override;
  void tick() override;
  TimePoint next_deadline() const override;
  void forget(const PeerId& peer, uint64_t generation) override;
  Decided take_decided() override;
  std::vector<ExchangeReport> take_reports() override;
  ExchangeStatus status() const override;

  bool under_way() const;
  bool idle() const;
  const BlockTally& block_tally() const;      // of both phases
  const GroupCounters& counters() const;
  uint64_t round() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// First 8 bytes of the BLAKE2b-256 of the sorted ids, never 0.
uint64_t group_id(const std::vector<Participant>& sorted);

}  // namespace starling
