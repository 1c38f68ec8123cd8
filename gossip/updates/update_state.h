// The whole state of a slice, for a member too far behind for single entries: params and momentum in blocks, the head,
// the table, and the last entries' norms. StateCopy is the donor's side, StateCollection the receiver's.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "gossip/net/message.h"
#include "gossip/updates/slice_replica.h"
#include "gossip/updates/update_parts.h"

namespace starling {

// BLAKE2b-128 of everything but the blocks; it covers their hashes. Two members with one head and one root hold the
// same bits.
Digest16 state_root(const SliceState& state);

// A consistent copy of a slice, made by the donor when it is asked, because the slice moves on while it is sent.
struct StateCopy {
  SliceState header;  // `block` is not used
  Digest16 root{};
  std::vector<SharedBytes> blocks;
};

// Copies and hashes the slice: for a worker job. `slice`: its number.
StateCopy copy_state(uint32_t slice, const SliceReplica& replica);

// The root alone, without a copy.
Digest16 root_of(uint32_t slice, const SliceReplica& replica);

// The frames of one state as they come, from any number of donors that offered the same root.
class StateCollection {
 public:
  // `value_count`: floats of params and momentum together.
  static bool fits(const SliceState& header, size_t value_count);

  // REQUIRES: it fits.
  StateCollection(const SliceState& header, size_t value_count);

  const SliceState& header() const { return header_; }
  const Digest16& root() const { return root_; }
  // False: the block is not what the header says, or holds a value that no replica can hold. REQUIRES: a header of the
  // same root.
  [[nodiscard]] bool add(const PeerId& from, uint32_t block, const SharedBytes& bytes);
  bool complete() const { return here_ == header_.hashes.size(); }
  Bitmap missing() const;
  const std::vector<float>& values() const { return values_; }  // params, then momentum
  // Members that offered this state, or one that continues it.
  const std::set<PeerId>& shown_by() const { return shown_by_; }
  void also_shown_by(const PeerId& peer) { shown_by_.insert(peer); }

 private:
  SliceState header_;
  Digest16 root_{};
  std::vector<float> values_;
  std::vector<bool> blocks_;
  size_t here_ = 0;
  std::set<PeerId> shown_by_;
};

}  // namespace starling
