// One agent's view of the payload that its peer sends: the blocks that have arrived, their verdicts, the peer's credit.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compression/codec.h"
#include "gossip/exchange/bitmap.h"
#include "gossip/net/transport.h"

namespace starling {

// kNotDue: of another fragment; it is not sent in this exchange.
enum class BlockVerdict : uint8_t { kMissing, kJudging, kPassed, kRefused, kLeftOut, kNotDue };

class PeerBlocks {
 public:
  // `due`: the blocks that the peer sends; the others are not counted. `window`: how many of them the sender may be
  // ahead of the highest one received; > 0.
  PeerBlocks(const Bitmap& due, size_t count, uint32_t window);

  size_t count() const { return blocks_.size(); }
  size_t due_count() const { return due_; }
  BlockVerdict verdict(size_t index) const { return blocks_[index].verdict; }
  const SharedBytes& payload(size_t index) const { return blocks_[index].payload; }
  const PairStats& stats(size_t index) const { return blocks_[index].stats; }
  size_t judging_count() const { return judging_; }
  size_t missing_count() const { return blocks_.size() - judging_ - judged_; }
  uint32_t received_below() const { return received_below_; }    // behind the highest one that has arrived
  bool last_arrived() const { return received_below_ > last_; }  // of those that are due, by index
  bool all_judged() const { return judged_ == blocks_.size(); }
  bool all_judged(const Bitmap& wanted) const;
  Bitmap passed() const;

  // True: a block outside `kept` was neither refused nor left out by the codec, so it arrived too late or not at all.
  bool late_outside(const Bitmap& kept) const;

  void arrived(size_t index, SharedBytes payload);  // REQUIRES: missing. Now judging
  // REQUIRES: judging. Frees the bytes of a refused block; the others are kept for learning and applying.
  void judged(size_t index, BlockVerdict verdict, const PairStats& stats);

  // Moves out the payloads of the blocks in `kept`, by block index, empty elsewhere; all others are freed.
  std::vector<SharedBytes> take(const Bitmap& kept);

  // The peer may send due blocks below this index. next_credit() raises it when half of the window has been used.
  uint32_t credit() const { return credit_; }
  std::optional<uint32_t> next_credit();

 private:
  struct One {
    SharedBytes payload;
    PairStats stats;
    BlockVerdict verdict = BlockVerdict::kMissing;
  };
  uint32_t after(uint32_t from, size_t due) const;

  std::vector<One> blocks_;
  size_t due_ = 0, passed_ = 0, judging_ = 0, judged_ = 0;  // judged_: those that are not due among them
  uint32_t window_, credit_ = 0, received_below_ = 0;
  size_t last_ = 0;   // index of the last that is due
  size_t ahead_ = 0;  // due blocks from received_below_ up to credit_
};

}  // namespace starling
