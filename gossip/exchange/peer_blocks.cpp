#include "gossip/exchange/peer_blocks.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace starling {

PeerBlocks::PeerBlocks(size_t count, uint32_t window)
    : blocks_(count), window_(window), credit_(static_cast<uint32_t>(std::min<size_t>(count, window))) {
  STARLING_CHECK(window > 0);
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
    if (verdict == BlockVerdict::kPassed) return true;   // arrived here in time, but not at the peer
  }
  return false;
}

void PeerBlocks::arrived(size_t index, SharedBytes payload) {
  One& block = blocks_[index];
  STARLING_CHECK(block.verdict == BlockVerdict::kMissing);
  block.payload = std::move(payload);
  block.verdict = BlockVerdict::kJudging;
  ++judging_;
  received_below_ = std::max(received_below_, static_cast<uint32_t>(index) + 1);
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
  const size_t ahead = size_t{received_below_} + window_;
  const auto target = static_cast<uint32_t>(std::min(blocks_.size(), ahead));
  const uint32_t half = std::max(1u, window_ / 2);
  const bool due = target > credit_ && (target - credit_ >= half || target == blocks_.size());
  if (!due) return std::nullopt;
  credit_ = target;
  return credit_;
}

}  // namespace starling
