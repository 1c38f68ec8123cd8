// A one-way stream of blocks from one agent to another within a round, under the receiver's credits. Blocks are never
// repeated: a block that is lost, or not sent when the round ends, stays lost. Used by neighborhood and group.
//
// Credits are block indices: the sender may send blocks below the credit. Both ends begin with the same first credit,
// so a small model needs no credit message at all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "gossip/limits.h"
#include "gossip/net/transport.h"

namespace starling {

// How many blocks of `largest_payload` bytes may be in flight beyond the highest one received.
inline uint32_t stream_window(size_t largest_payload) {
  return static_cast<uint32_t>(std::max<size_t>(2, kCreditBytes / std::max<size_t>(1, largest_payload)));
}

// The credit a stream over these block indices (ascending) begins with.
inline uint32_t first_credit(const std::vector<uint32_t>& indices, uint32_t window) {
  return indices.size() <= window ? UINT32_MAX : indices[window];
}

class OutStream {
 public:
  OutStream() = default;
  // `indices`: the blocks of the stream, ascending. give() takes them in any order, each once.
  OutStream(std::vector<uint32_t> indices, uint32_t window) : credit_(first_credit(indices, window)) {}

  void give(uint32_t index, SharedBytes payload) { waiting_.emplace_back(index, std::move(payload)); }
  void grant(uint32_t credit) { credit_ = std::max(credit_, credit); }

  // Calls send(index, payload) for each given block that the credit allows, and drops it.
  template <typename Send>
  void pump(const Send& send) {
    const auto may_go = [this](const auto& item) { return item.first < credit_; };
    for (const auto& [index, payload] : waiting_) {
      if (may_go(std::pair(index, 0))) send(index, payload);
    }
    std::erase_if(waiting_, may_go);
  }
  bool drained() const { return waiting_.empty(); }

 private:
  std::vector<std::pair<uint32_t, SharedBytes>> waiting_;
  uint32_t credit_ = 0;
};

class InStream {
 public:
  InStream() = default;
  InStream(std::vector<uint32_t> indices, uint32_t window)
      : indices_(std::move(indices)), window_(window), credit_(first_credit(indices_, window)), told_(window) {}

  // True: the block belongs to this stream and has not arrived before.
  [[nodiscard]] bool arrived(uint32_t index) {
    const auto at = std::lower_bound(indices_.begin(), indices_.end(), index);
    if (at == indices_.end() || *at != index) return false;
    const auto ordinal = static_cast<size_t>(at - indices_.begin());
    if (here_.empty()) here_.assign(indices_.size(), false);
    if (here_[ordinal]) return false;
    here_[ordinal] = true;
    ++count_;
    below_ = std::max(below_, ordinal + 1);
    return true;
  }
  bool complete() const { return count_ == indices_.size(); }
  size_t count() const { return count_; }
  size_t expected() const { return indices_.size(); }

  // A new credit that is worth a message; nullopt: more than half of the window is still unused.
  std::optional<uint32_t> next_credit() {
    const size_t target = below_ + window_;
    const uint32_t credit = target >= indices_.size() ? UINT32_MAX : indices_[target];
    if (credit <= credit_ || (credit != UINT32_MAX && target < told_ + window_ / 2)) return std::nullopt;
    told_ = target;
    credit_ = credit;
    return std::min(credit_, static_cast<uint32_t>(kBlocksMax));
  }
  // The current credit. To be repeated while nothing arrives, because the last message may be lost.
  uint32_t credit() const { return std::min(credit_, static_cast<uint32_t>(kBlocksMax)); }
  // The same. Where no block came since the call before, those under way are lost too, and a window beyond them is
  // granted: else no block would come again.
  uint32_t credit_again() {
    if (count_ == count_before_ && credit_ != UINT32_MAX) {
      below_ = std::min(indices_.size(), told_);
      (void)next_credit();
    }
    count_before_ = count_;
    return credit();
  }

 private:
  std::vector<uint32_t> indices_;
  uint32_t window_ = 1, credit_ = 0;
  size_t told_ = 0;  // the ordinal that credit_ stands for
  std::vector<bool> here_;
  size_t count_ = 0, below_ = 0, count_before_ = SIZE_MAX;
};

}  // namespace starling
