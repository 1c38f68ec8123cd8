// The second phase of a group's round at one of its members: the averages that it and the other owners made, of which
// its delta is made.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "compression/codec.h"
#include "compression/layout.h"
#include "gossip/exchange/block_fate.h"
#include "gossip/exchange/group_members.h"
#include "gossip/exchange/snapshot.h"
#include "gossip/worker.h"

namespace starling {

class GroupAverages {
 public:
  // All references must outlive the object. `codec` is used from worker jobs. `on_change`: an average was judged.
  GroupAverages(const Layout& layout, const Codec& codec, Worker& worker, FateTally& fates,
                std::function<void()> on_change);

  void begin(const GroupMembers& members, uint64_t round, std::shared_ptr<const Snapshot> own);
  void release() { own_ = nullptr; }           // the snapshot: nobody is owed anything any more
  void retire();                             // what is still missing now will never count

  // Of this round, from its owner, for the first time. `fits`: not larger than any payload of this block.
  void receive(size_t rank, uint32_t index, const SharedBytes& payload, bool fits, bool injected_loss, bool in_time);
  void set_own(uint32_t index, const SharedBytes& average, double squared_distance);   // empty: none is finite

  void stop_waiting(size_t rank);            // if something comes all the same before the end, it counts
  void mark_dead(size_t rank);               // its averages that are missing; to be followed by stop_waiting()

  size_t unresolved() const { return unresolved_; }   // waited for, or with the worker
  size_t jobs() const { return jobs_; }      // with the worker
  size_t counted() const { return counted_; }   // of others
  PairDelta take_delta();
  // Rms over the elements of the first `param_blocks` blocks, of those that count; negative: there are none.
  double distance(size_t param_blocks) const;

 private:
  struct Average {
    BlockFate fate = BlockFate::kMissing;
    double squared_distance = 0;
    SharedBytes payload;
  };
  void judge(uint32_t index);
  void judged(uint32_t index, PairStatus status, const PairStats& stats);

  const Layout& layout_;
  const Codec& codec_;
  Worker& worker_;
  FateTally& fates_;
  std::function<void()> on_change_;
  GroupMembers members_;                     // of the round
  uint64_t round_ = 0;
  std::shared_ptr<const Snapshot> own_;
  std::vector<bool> waits_for_;              // by rank
  std::vector<Average> averages_;            // by block
  size_t unresolved_ = 0, jobs_ = 0, counted_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);   // completions of a destroyed object do nothing
};

}  // namespace starling
