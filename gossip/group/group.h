// The group exchange: Robust Parameter Server averaging over unreliable links (Yu et al., ICML 2019).
//
//   1 every member sends block k of its snapshot to the block's owner: rank (k + round / 4) mod n of the sorted list
//   2 the owner averages, weighted by mass, the blocks that arrived by its deadline; its own always counts
//   3 the owner sends the average to all members; a member that misses it keeps its own block
//
// Without loss every member ends with the exact mean: this is all-reduce. A late contribution counts in the owner's
// next round, if the sender's next contribution is missing then and the owner still has that block. Ownership rotates:
// otherwise a late owner withholds its block for ever, and the models diverge in it.
//
// A round has 2 (n-1) streams of 1/n of the model each way. Frames carry the group (hash of the sorted list) and the
// round. Frames of future rounds are held; frames of other groups are counted and dropped, unless they belong to the
// group that this agent is about to join. A member behind the median of the members' rounds jumps to it. A member more
// than one round ahead of all others falls back.
//
// A round does not wait for a member that was seen in a later round, because it sends nothing more of this one. Nor
// does it wait for a member that was silent for a whole round, until it is heard again: a stalled member would cost a
// deadline per round. A member ahead of most others extends its first deadline once per round. Only codecs with
// payloads that can be averaged (Codec::linear). A state machine, like all exchanges.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "compression/layout.h"
#include "gossip/exchange/block_outcome.h"
#include "gossip/exchange/counters.h"
#include "gossip/exchange/exchange.h"
#include "gossip/exchange/group_members.h"
#include "gossip/exchange/round_numbers.h"
#include "gossip/group/early_round_blocks.h"
#include "gossip/group/group_round.h"
#include "gossip/group/options.h"
#include "gossip/net/outbox.h"
#include "gossip/worker.h"

namespace starling {

class Group final : public Exchange {
 public:
  // All references must outlive the object. `codec` works on host memory and is used from worker jobs only.
  // `far`: the guard's multiple of the usual distance (group_guard.h); 0: no guard.
  Group(const GroupOptions& options, double far, const Layout& layout, const Codec& codec, Worker& worker,
        const Clock& clock, Outbox& outbox, PeerSampler& sampler);

  void publish(std::shared_ptr<const Snapshot> snapshot) override;
  Due next(const Boundary& boundary) override { return one_.next(boundary, false, *this); }
  void retract() { snapshot_ = nullptr; }  // an open round keeps the snapshot it began with
  bool begin();
  void handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message,
              const SharedBytes& payload) override;
  void tick() override;
  TimePoint next_deadline() const override;
  void forget(const PeerId& peer, uint64_t generation) override;
  void lost(const PeerId& peer) override;
  Decided take_decided() override { return {std::exchange(decided_, {}), {}}; }
  std::vector<ExchangeReport> take_reports() override { return std::exchange(reports_, {}); }
  ExchangeStatus status() const override;

  bool under_way() const { return !round_.ended(); }
  bool idle() const { return !round_.open(); }
  const BlockTally& block_tally() const { return outcomes_.tally(); }  // of both phases
  const GroupCounters& counters() const { return counters_; }
  uint64_t round() const { return round_.number(); }  // 0: none yet

 private:
  std::optional<GroupMembers> members_now() const {
    return group_members(sampler_.group(), options_.self, {2, kGroupMax});
  }
  void on_block(const PeerId& from, const RoundBlock& block, const SharedBytes& payload);
  void on_block_of_other_group(const PeerId& from, const RoundBlock& block, const SharedBytes& payload);
  void on_credit(const PeerId& from, const RoundCredit& credit);
  bool hold_early(const GroupMembers& members, size_t rank, const RoundBlock& block, const SharedBytes& payload);
  void on_end(RoundEnd end);

  static constexpr size_t kReportsMax = 4096;        // the oldest go first if the caller does not fetch them
  static constexpr uint64_t kRoundMax = 1ull << 62;  // no honest count of rounds reaches it, and + 1 cannot wrap

  const GroupOptions options_;
  const Layout& layout_;
  PeerSampler& sampler_;
  std::shared_ptr<const Snapshot> snapshot_;  // published
  OutcomeTally outcomes_;
  RoundNumbers numbers_;
  EarlyRoundBlocks early_;
  GroupRound round_;
  std::vector<Delta> decided_;
  std::vector<ExchangeReport> reports_;
  GroupCounters counters_;
  OneExchange one_;
};

}  // namespace starling
