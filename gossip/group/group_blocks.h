// The blocks of a group's round at one member: the contributions it sends and averages, the averages it collects, and
// their transfer. GroupRound decides when to wait for them and when the round ends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "gossip/exchange/block_outcome.h"
#include "gossip/exchange/group_members.h"
#include "gossip/exchange/group_streams.h"
#include "gossip/group/block_owner.h"
#include "gossip/group/group_averages.h"
#include "gossip/group/group_guard.h"
#include "gossip/group/options.h"

namespace starling {

// What a round brought this agent. There is no delta if no block of another member counted.
struct RoundEnd {
  ExchangeReport report;
  bool whole = false;  // every block of both phases arrived in time, and counted
  std::optional<Delta> delta;
};

class GroupBlocks {
 public:
  // All references must outlive the object. `codec` is used from worker jobs. `on_change`: a block was averaged or
  // judged.
  GroupBlocks(const GroupOptions& options, double far, const Layout& layout, const Codec& codec, Worker& worker,
              OutcomeTally& outcomes, Outbox& outbox, std::function<void()> on_change);

  // Sends what the first credit allows. `now` and `repeat` as for GroupStreams::begin.
  void begin(const GroupMembers& members, uint64_t round, std::shared_ptr<const Snapshot> own, TimePoint now,
             Duration repeat);
  void retire();  // settles what is still missing of the round before
  void close();   // drops the blocks not sent yet and the snapshot

  size_t count() const { return payload_bytes_max_.size(); }
  bool fits(const RoundBlock& block, const SharedBytes& payload) const {
    return payload.size <= payload_bytes_max_[block.index];
  }

  // From other members. REQUIRES: the indices and phases are in range. arrived() says whether the block was expected
  // and is no duplicate; receive() then takes it. receive_late() takes a contribution to the next round.
  [[nodiscard]] bool arrived(size_t rank, const RoundBlock& block, const SharedBytes& payload);
  void receive(size_t rank, const RoundBlock& block, const SharedBytes& payload, bool in_time);
  [[nodiscard]] bool receive_late(size_t rank, const RoundBlock& block, const SharedBytes& payload);

  bool waits_for(size_t rank) const { return owner_.waits_for(rank); }
  void stop_waiting(size_t rank);
  void stop_waiting_for_all() { owner_.stop_waiting_for_all(); }
  void forget(const PeerId& peer) { owner_.forget(peer); }
  void mark_dead(size_t rank);

  GroupStreams& streams() { return streams_; }
  const GroupStreams& streams() const { return streams_; }
  bool resolved() const { return averages_.unresolved() == 0; }
  size_t jobs() const { return owner_.jobs() + averages_.jobs(); }

  // Without the duration. REQUIRES: once per round.
  RoundEnd take_end();

 private:
  void give_contributions(const Snapshot& own);
  void send(size_t rank, uint8_t phase, uint32_t index, const SharedBytes& payload);
  bool lost(size_t rank, const RoundBlock& block) const;
  void on_averaged(uint32_t index, const AverageJob& job);

  const GroupOptions options_;
  const Layout& layout_;
  OutcomeTally& outcomes_;
  Outbox& outbox_;
  std::function<void()> on_change_;
  const std::vector<size_t> payload_bytes_max_;  // by block
  GroupGuard guard_;
  BlockOwner owner_;
  GroupAverages averages_;
  GroupStreams streams_;
  GroupMembers members_;  // of the round
  uint64_t round_ = 0;
  double mass_ = 1;
};

}  // namespace starling
