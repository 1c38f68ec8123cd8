// The first phase of a group's round at one member: it collects the other members' contributions to the blocks that it
// owns, and averages each block.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "compression/layout.h"
#include "gossip/exchange/block_outcome.h"
#include "gossip/exchange/group_members.h"
#include "gossip/group/group_average.h"
#include "gossip/net/message.h"
#include "gossip/worker.h"

namespace starling {

class BlockOwner {
 public:
  // A block of this owner was averaged; job.average is empty if it is not finite. Called from worker completions.
  using OnAveraged = std::function<void(uint32_t index, const AverageJob& job)>;

  // All references must outlive the object. `codec` is used from worker jobs.
  BlockOwner(const Layout& layout, const Codec& codec, Worker& worker, OutcomeTally& outcomes, const GroupGuard& guard,
             OnAveraged on_averaged);

  void begin(const GroupMembers& members, uint64_t round, std::shared_ptr<const Snapshot> own);
  void release() { own_ = nullptr; }  // the snapshot, which the closed round does not need
  void retire();                      // settles the contributions that are still missing

  // A contribution to a block of this owner, of this round. REQUIRES: it has not arrived before. `fits`: its size is
  // possible.
  void receive(size_t rank, const RoundBlock& block, const SharedBytes& payload, bool fits, bool injected_loss);
  // A contribution of the previous round to a block that this agent still owns. False: it cannot count any more.
  [[nodiscard]] bool receive_late(size_t rank, const RoundBlock& block, const SharedBytes& payload);

  void stop_waiting(size_t rank);   // a contribution that still arrives before the averaging counts
  void mark_dead(size_t rank);      // settles its missing contributions. stop_waiting() must follow
  void stop_waiting_for_all();      // averages the contributions that are here
  void forget(const PeerId& peer);  // drops its late contributions

  bool waits_for(size_t rank) const { return waits_for_[rank]; }
  uint32_t counted_in(uint32_t index) const { return owned_[index / members_.count()].counted; }  // ranks, as bits
  size_t jobs() const { return jobs_; }                                                           // with the worker
  size_t counted() const { return counted_; }  // contributions of this round, of others
  size_t late_counted() const { return late_counted_; }
  bool far(size_t rank) const { return far_[rank]; }  // a contribution of it to this round was too far away

 private:
  struct Contribution {
    BlockOutcome outcome = BlockOutcome::kMissing;
    double mass = 0;
    SharedBytes payload;  // while kHere and not yet with the worker
  };
  struct Owned {                     // one block of this owner; they stand in ascending order
    std::vector<Contribution> from;  // by rank; the own one is not used
    size_t waits_for = 0;
    bool started = false;  // the averaging has begun
    uint32_t counted = 0;  // the ranks that are in the average
  };
  struct Late {
    uint64_t round = 0;
    double mass = 0;
    SharedBytes payload;
  };

  Owned& owned(uint32_t index) { return owned_[index / members_.count()]; }
  void average_if_complete(Owned& owned);
  void start_average(Owned& owned);
  void averaged(uint32_t index, AverageJob& job);

  const Layout& layout_;
  const Codec& codec_;
  Worker& worker_;
  OutcomeTally& outcomes_;
  const GroupGuard& guard_;
  OnAveraged on_averaged_;
  GroupMembers members_;  // of the round
  uint64_t round_ = 0;
  std::shared_ptr<const Snapshot> own_;
  std::vector<bool> waits_for_;  // by rank
  std::vector<Owned> owned_;
  std::map<std::pair<PeerId, uint32_t>, Late> late_;  // by sender and block: contributions for the next round
  std::vector<bool> far_;                             // by rank
  size_t jobs_ = 0, counted_ = 0, late_counted_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // completions of a destroyed object do nothing
};

}  // namespace starling
