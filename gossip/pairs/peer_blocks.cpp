#include "gossip/pairs/peer_blocks.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace starling {

PeerBlocks::PeerBlocks(const Bitmap& due, size_t count, uint32_t window)
    : blocks_(count), due_(count_bits(due)), judged_(count - due_), window_(window) {
  STARLING_CHECK(window > 0 && fits(due, count));
  for (size_t i = 0; i < count; ++i) {
    if (test_bit(due, i)) {
      last_ = i;
    } else {
      blocks_[i].verdict = BlockVerdict::kNotDue;
    }
  }
  ahead_ = std::min<size_t>(due_, window);
  credit_ = after(0, ahead_);
}

// The index behind so many due blocks from `from` on; the end if no due block follows them.
uint32_t PeerBlocks::after(uint32_t from, size_t due) const {
  uint32_t index = from;
  for (; index < blocks_.size(); ++index) {
    if (blocks_[index].verdict == BlockVerdict::kNotDue) continue;
    if (due == 0) return index;
    --due;
  }
  return index;
}

bool PeerBlocks::all_judged(const Bitmap& wanted) const {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const BlockVerdict verdict = blocks_[i].verdict;
    const bool open = verdict == BlockVerdict::kMissing || verdict == BlockVerdict::kJudging;
    if (open && test_bit(wanted, i)) return false;
  }
  return true;
}

Bitmap PeerBlocks::passed() const {
  Bitmap bits = make_bitmap(blocks_.size());
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].verdict == BlockVerdict::kPassed) set_bit(bits, i);
  }
  return bits;
}

bool PeerBlocks::late_outside(const Bitmap& kept) const {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (test_bit(kept, i)) continue;
    const BlockVerdict verdict = blocks_[i].verdict;
    if (verdict == BlockVerdict::kMissing || verdict == BlockVerdict::kJudging) return true;
    if (verdict == BlockVerdict::kPassed) return true;  // arrived here in time, but not at the peer
  }
  return false;
}

void PeerBlocks::arrived(size_t index, SharedBytes payload) {
  One& block = blocks_[index];
  STARLING_CHECK(block.verdict == BlockVerdict::kMissing);
  block.payload = std::move(payload);
  block.verdict = BlockVerdict::kJudging;
  ++judging_;
  for (; received_below_ <= index; ++received_below_) {
    const bool due = blocks_[received_below_].verdict != BlockVerdict::kNotDue;
    if (due && received_below_ < credit_) --ahead_;
  }
}

void PeerBlocks::judged(size_t index, BlockVerdict verdict, const PairStats& stats) {
  One& block = blocks_[index];
  STARLING_CHECK(block.verdict == BlockVerdict::kJudging);
  block.verdict = verdict;
  block.stats = stats;
  --judging_;
  ++judged_;
  if (verdict == BlockVerdict::kPassed) ++passed_;
  if (verdict == BlockVerdict::kRefused) block.payload = {};
}

std::vector<SharedBytes> PeerBlocks::take(const Bitmap& kept) {
  std::vector<SharedBytes> taken(blocks_.size());
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (test_bit(kept, i)) taken[i] = std::move(blocks_[i].payload);
    blocks_[i].payload = {};
  }
  return taken;
}

std::optional<uint32_t> PeerBlocks::next_credit() {
  const size_t more = window_ - ahead_;
  const uint32_t from = std::max(credit_, received_below_), target = after(from, more);
  const uint32_t half = std::max(1u, window_ / 2);
  const bool due = target > credit_ && (more >= half || target == blocks_.size());
  if (!due) return std::nullopt;
  ahead_ = 0;
  for (uint32_t i = received_below_; i < target; ++i) ahead_ += blocks_[i].verdict != BlockVerdict::kNotDue;
  credit_ = target;
  return credit_;
}

}  // namespace starling
