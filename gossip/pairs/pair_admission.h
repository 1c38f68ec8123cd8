// Answers the proposals of other agents: ACCEPT, BUSY, or later. A proposal that arrives while the next snapshot is
// being encoded waits for that snapshot. Blocks that overtake their PROPOSE wait for it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gossip/pairs/early_pair_blocks.h"
#include "gossip/pairs/options.h"
#include "gossip/pairs/pair_acceptor.h"
#include "gossip/pairs/pair_blocks.h"
#include "gossip/pairs/pair_proposer.h"
#include "gossip/pairs/pair_state.h"

namespace starling {

class PairAdmission {
 public:
  // All references must outlive the object.
  PairAdmission(const PairwiseOptions& options, PairState& ledger, const PairBlocks& blocks, PairProposer& proposer,
                PairAcceptor& acceptor, const Clock& clock)
      : options_(options), ledger_(ledger), blocks_(blocks), proposer_(proposer), acceptor_(acceptor), clock_(clock) {}

  // `from` and `generation` are the sender's.
  void on_propose(const PeerId& from, uint64_t generation, const Propose& propose);
  void on_block(const PeerId& from, const BlockPayload& block, const SharedBytes& payload);  // of a foreign proposal

  void answer_waiting();  // REQUIRES: a snapshot was adopted, or withdrawn
  void forget(const PeerId& peer, uint64_t generation);
  void tick() { early_.expire(clock_.now()); }
  TimePoint next_deadline() const { return early_.next_expiry(); }

 private:
  struct Waiting {
    PeerId from;
    uint64_t generation = 0;
    Propose propose;
  };
  bool is_news(const PeerId& from, uint64_t generation, const Propose& propose) const;
  std::optional<Duration> busy_for(const PeerId& from, const Propose& propose);
  void answer(const PeerId& from, const Propose& propose);

  static constexpr size_t kWaitingMax = 16;

  const PairwiseOptions options_;
  PairState& ledger_;
  const PairBlocks& blocks_;
  PairProposer& proposer_;
  PairAcceptor& acceptor_;
  const Clock& clock_;
  std::vector<Waiting> waiting_;
  EarlyPairBlocks early_;
};

}  // namespace starling
