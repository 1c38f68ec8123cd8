// Merge plans: which slices are selected, coded and sent together. The owner of slice 0 may propose one. It travels as
// bytes in the entries of slice 0's log, and nobody computes it again, because no two members measure the same.
//
// A plan decides nothing else. Logs, owners, accumulators and entries are those of each slice, so members with
// different plans lose a frame that could have been shared, and nothing more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gossip/limits.h"

namespace starling {

struct UpdatePlan {
  std::vector<uint32_t> ends;  // bucket i: the slices from ends[i - 1] (0 for the first) to ends[i] - 1
  uint64_t since = 0;          // the first round that it holds in
  bool operator==(const UpdatePlan&) const = default;
};

// Little-endian: u8 version 1, u8 buckets, u64 model, u64 since, u8 each of the ends, u32 of the XXH3-64 of all before.
std::vector<uint8_t> encode_plan(const UpdatePlan& plan, uint64_t model);
// What is wrong with the bytes, for people; empty: `plan` is theirs, else it is left as it was.
std::string decode_plan(std::span<const uint8_t> bytes, uint64_t model, size_t slice_count, UpdatePlan* plan);

// What one member knows of plans. With `on` false it takes none.
class UpdatePlans {
 public:
  static constexpr uint64_t kAhead = 8;      // rounds from a proposal until it holds: all members hear of it before
  static constexpr uint64_t kBetween = 200;  // rounds from one plan to the next

  // `slice_sizes` in elements: plans for others are refused.
  UpdatePlans(bool on, std::span<const size_t> slice_sizes);

  bool on() const { return on_; }
  // What slice 0's entry of this round says; empty: nothing. A bad plan is counted, and the last good one stays. Of two
  // plans that are too close the earlier one holds: members that heard of them in another order would keep to theirs
  // for good. A member gives its plan up for an earlier one once in kBetween rounds, so that a liar with backdated
  // plans does not change them all the time.
  void take(std::span<const uint8_t> bytes, uint64_t round);
  // Of this round; each slice alone until a plan is known. A newcomer learns the plan with the first entry of slice 0
  // that it takes, because every one repeats it.
  const std::vector<uint32_t>& ends(uint64_t round) const;
  // This member tries another plan until the next call, which ends() tells of; empty: no more. Others keep to theirs.
  void try_out(std::vector<uint32_t> ends) { tried_ = std::move(ends); }
  std::vector<uint32_t> bucket_of_slices(uint64_t round) const;

  // The next entry of slice 0 that this member makes shall say this plan, if it may then: kBetween after the last one.
  // REQUIRES: ascending ends, the last one the number of slices.
  void propose(std::vector<uint32_t> ends) { proposed_ = std::move(ends); }
  bool may_change(uint64_t round) const { return may_follow(round + kAhead); }
  // What the own entry of slice 0 in this round says.
  std::vector<uint8_t> say(uint64_t round);

  const UpdatePlan& newest() const { return newest_; }  // without ends: none is known
  uint64_t refused() const { return refused_; }
  const std::string& last_fault() const { return fault_; }  // of the last plan refused; empty: none

 private:
  bool may_follow(uint64_t since) const { return newest_.ends.empty() || since >= newest_.since + kBetween; }
  bool gives_way_to(const UpdatePlan& plan, std::span<const uint8_t> bytes, uint64_t round) const;
  std::string judge(std::span<const uint8_t> bytes, uint64_t round, UpdatePlan* plan) const;

  const bool on_;
  const size_t slice_count_;
  uint64_t model_ = 0;                // a hash of the slices' sizes
  UpdatePlan newest_, before_;        // before_: holds until newest_.since
  std::vector<uint8_t> bytes_;        // of newest_
  std::optional<uint64_t> gave_way_;  // the round in which an earlier plan took newest_'s place
  std::vector<uint32_t> alone_;       // the plan of a member that knows none
  std::vector<uint32_t> proposed_, tried_;
  uint64_t refused_ = 0;
  std::string fault_;
};

}  // namespace starling
