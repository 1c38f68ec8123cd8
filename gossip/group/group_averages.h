// The second phase of a group's round at one member: collects the averages of all block owners, its own included,
// leaves out those that are too far away, and makes the member's delta from them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "compression/codec.h"
#include "compression/layout.h"
#include "gossip/exchange/block_outcome.h"
#include "gossip/exchange/group_members.h"
#include "gossip/exchange/snapshot.h"
#include "gossip/group/group_guard.h"
#include "gossip/worker.h"

namespace starling {

class GroupAverages {
 public:
  // All references must outlive the object. `codec` is used from worker jobs. `on_change`: an average was judged.
  GroupAverages(const Layout& layout, const Codec& codec, Worker& worker, OutcomeTally& outcomes,
                std::function<void()> on_change);

  void begin(const GroupMembers& members, uint64_t round, std::shared_ptr<const Snapshot> own);
  void release() { own_ = nullptr; }  // the snapshot, which the closed round does not need
  void retire();                      // settles the averages that are still missing

  // An average of this round, from its owner. REQUIRES: it has not arrived before. `fits`: its size is possible.
  void receive(size_t rank, uint32_t index, const SharedBytes& payload, bool fits, bool injected_loss, bool in_time);
  void set_own(uint32_t index, const SharedBytes& average, double squared_distance);  // empty: it is not finite

  void stop_waiting(size_t rank);  // an average that still arrives before the end counts
  void mark_dead(size_t rank);     // settles its missing averages. stop_waiting() must follow

  size_t unresolved() const { return unresolved_; }  // waited for, or with the worker
  size_t jobs() const { return jobs_; }              // with the worker
  size_t counted() const { return counted_; }        // averages by other owners
  // Settles the averages of others that are here, those too far away by the guard as refused. REQUIRES: no jobs.
  void decide(GroupGuard& guard);
  bool far(size_t rank) const { return far_[rank]; }  // an average of it was too far away
  // REQUIRES: after decide().
  Delta take_delta();
  // Rms of (average - own) over the elements of those of the first `param_blocks` blocks that count; negative: none.
  double distance(size_t param_blocks) const;

 private:
  struct Average {
    BlockOutcome outcome = BlockOutcome::kMissing;
    double squared_distance = 0;
    SharedBytes payload;
  };
  void judge(uint32_t index);
  void judged(uint32_t index, PairStatus status, const PairStats& stats);

  const Layout& layout_;
  const Codec& codec_;
  Worker& worker_;
  OutcomeTally& outcomes_;
  std::function<void()> on_change_;
  GroupMembers members_;  // of the round
  uint64_t round_ = 0;
  std::shared_ptr<const Snapshot> own_;
  std::vector<bool> waits_for_;    // by rank
  std::vector<Average> averages_;  // by block
  std::vector<bool> far_;          // by rank
  size_t unresolved_ = 0, jobs_ = 0, counted_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // completions of a destroyed object do nothing
};

}  // namespace starling
