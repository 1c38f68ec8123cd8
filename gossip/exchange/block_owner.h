// The first phase of a group's round at one of its members: it owns some of the blocks, collects what the others
// contribute to them, and averages each.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "compression/layout.h"
#include "gossip/exchange/block_fate.h"
#include "gossip/exchange/group_average.h"
#include "gossip/exchange/group_members.h"
#include "gossip/net/message.h"
#include "gossip/worker.h"

namespace starling {

class BlockOwner {
 public:
  // An own block was averaged; job.average is empty where that is not finite. From the worker's completions.
  using OnAveraged = std::function<void(uint32_t index, const AverageJob& job)>;

  // All references must outlive the object. `codec` is used from worker jobs.
  BlockOwner(const Layout& layout, const Codec& codec, Worker& worker, FateTally& fates, OnAveraged on_averaged);

  void begin(const GroupMembers& members, uint64_t round, std::shared_ptr<const Snapshot> own);
  void release() { own_ = nullptr; }           // the snapshot: nobody is owed anything any more
  void retire();                               // what is still missing now will never count

  // A block that this agent owns, of this round, for the first time. `fits`: not larger than any payload of this block.
  void receive(size_t rank, const RoundBlock& block, const SharedBytes& payload, bool fits, bool injected_loss);
  // One of the round before, for a block that this agent owns now too. False: of no use any more.
  [[nodiscard]] bool receive_late(size_t rank, const RoundBlock& block, const SharedBytes& payload);

  void stop_waiting(size_t rank);              // if something comes all the same before the end, it counts
  void mark_dead(size_t rank);                 // its blocks that are missing; to be followed by stop_waiting()
  void stop_waiting_for_all();                 // averages what there is
  void forget(const PeerId& peer);             // what it sent too late

  bool waits_for(size_t rank) const { return waits_for_[rank]; }
  uint32_t counted_in(uint32_t index) const { return owned_[index / members_.count()].counted; }   // ranks, as bits
  size_t jobs() const { return jobs_; }        // with the worker
  size_t counted() const { return counted_; }  // contributions of this round, of others
  size_t late_counted() const { return late_counted_; }

 private:
  struct Contribution {
    BlockFate fate = BlockFate::kMissing;
    double mass = 0;
    SharedBytes payload;                       // while kHere and not yet with the worker
  };
  struct Owned {                               // the i-th block that this agent owns, at i
    std::vector<Contribution> from;            // by rank; the own one is not used
    size_t waits_for = 0;
    bool started = false;                      // is being averaged, or was
    uint32_t counted = 0;                      // the ranks that are in the average
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
  FateTally& fates_;
  OnAveraged on_averaged_;
  GroupMembers members_;                       // of the round
  uint64_t round_ = 0;
  std::shared_ptr<const Snapshot> own_;
  std::vector<bool> waits_for_;                // by rank
  std::vector<Owned> owned_;
  std::map<std::pair<PeerId, uint32_t>, Late> late_;   // by sender and block: contributions for the next round
  size_t jobs_ = 0, counted_ = 0, late_counted_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);   // completions of a destroyed object do nothing
};

}  // namespace starling
