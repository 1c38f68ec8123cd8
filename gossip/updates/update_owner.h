// The owner's part of a round of updates: merges what members handed in for the slices that this member owns, and
// makes the next entry of their logs.
//
// An entry needs more than half of the roster, so that a member cut off, or thawed after a stop, makes no history of
// its own. No entry is made while a greater head is known, because it would be a second history.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "gossip/exchange/group_members.h"
#include "gossip/updates/update_merge.h"
#include "gossip/updates/update_slice.h"
#include "gossip/worker.h"

namespace starling {

class UpdateOwner {
 public:
  // The log of an own slice took this entry. Called from worker completions.
  using OnMade = std::function<void(const LogEntry& entry, const SharedBytes& payload)>;
  // The own replica of a slice is not what most others have under the same head; `donor` is one of them.
  using OnDiffers = std::function<void(uint32_t slice, const PeerId& donor)>;

  // A merge has ended, whatever came of it.
  using OnEnded = std::function<void()>;

  // Most members hold another log of the slice than this owner; `donor` is one of them.
  using OnApart = std::function<void(uint32_t slice, const PeerId& donor)>;

  // All references must outlive the object.
  UpdateOwner(const PeerId& self, const UpdateCodecs& codecs, Worker& worker, UpdateSlices& slices,
              UpdateRefusals& refusals, OnMade on_made, OnEnded on_ended, OnDiffers on_differs, OnApart on_apart);

  // `masses`: by rank. `encoder` encodes the entries of this round, and slice 0's says `plan`.
  void begin(const GroupMembers& members, uint64_t round, std::vector<double> masses, const UpdateCodec& encoder,
             std::vector<uint8_t> plan);

  // Makes the entry of an own slice if it can. `waited`: nobody else is waited for. After a merge that could not be
  // made, the next call tries again.
  void merge(uint32_t slice, bool waited);

  bool owns(uint32_t slice) const { return members_.owner(slice, round_) == members_.self; }
  bool made(uint32_t slice) const { return made_[slice]; }
  bool merging(uint32_t slice) const { return merging_[slice]; }  // now
  size_t jobs() const { return jobs_; }

 private:
  std::shared_ptr<MergeJob> draft(uint32_t slice) const;
  void audit(uint32_t slice, const std::vector<HandedIn>& items) const;
  bool is_apart(uint32_t slice) const;
  void merged(uint32_t slice, uint64_t round, const MergeJob& job);

  const PeerId self_;
  const UpdateCodecs& codecs_;
  Worker& worker_;
  UpdateSlices& slices_;
  UpdateRefusals& refusals_;
  OnMade on_made_;
  OnEnded on_ended_;
  OnDiffers on_differs_;
  OnApart on_apart_;
  GroupMembers members_;
  uint64_t round_ = 0;
  std::vector<double> masses_;
  const UpdateCodec* encoder_ = nullptr;
  std::vector<uint8_t> plan_;
  std::vector<bool> made_, merging_;
  size_t jobs_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // completions of a destroyed object do nothing
};

}  // namespace starling
