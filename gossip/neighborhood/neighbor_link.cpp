#include "gossip/neighborhood/neighbor_link.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace starling {
namespace {

constexpr int kCreditRepeats = 8;  // per longest deadline, while nothing arrives; and once in kCreditIntervalMax
constexpr Duration kCreditIntervalMax = std::chrono::milliseconds(500);

}  // namespace

NeighborLink::NeighborLink(const ExchangeOptions& options, size_t block_count, uint32_t window)
    : window_(window),
      credit_interval_(std::min(options.deadline_max / kCreditRepeats, kCreditIntervalMax)),
      pieces_(block_count),
      lateness_(options.deadline_min, options.deadline_max) {}

std::vector<uint32_t> NeighborLink::all_blocks() const {
  std::vector<uint32_t> indices(pieces_.size());
  std::iota(indices.begin(), indices.end(), 0u);
  return indices;
}

// ---- this agent's rounds ----

void NeighborLink::begin_round(uint64_t round, const std::vector<SharedBytes>& own, TimePoint now) {
  wanted_in_ = round;
  in_time_ = static_cast<size_t>(
      std::count_if(pieces_.begin(), pieces_.end(), [&](const Piece& piece) { return in_time(piece, round); }));
  if (fresh()) {
    lateness_.arrived(Duration::zero());  // the neighbor's payload arrived before this round began
  } else if (!waiting_since_) {
    waiting_since_ = now;
  }
  out_ = OutStream(all_blocks(), window_);
  for (uint32_t index = 0; index < own.size(); ++index) out_.give(index, own[index]);
  sending_ = true;
}

void NeighborLink::cancel() {
  out_ = OutStream();
  sending_ = false;
}

BlockOutcome NeighborLink::use(size_t index, uint64_t round) {
  Piece& piece = pieces_[index];
  const bool refused = std::exchange(piece.refused, false);
  if (piece.payload.empty() || piece.taken_in + kAgeMax < round) {
    return refused ? BlockOutcome::kRefused : BlockOutcome::kMissing;
  }
  return std::exchange(piece.used, true) ? BlockOutcome::kOld : BlockOutcome::kCounted;
}

void NeighborLink::end_round(bool brought_news, Duration deadline) {
  pace_.add(brought_news);
  if (waiting_since_ && bytes_received_ == 0) lateness_.missed(deadline);
  bytes_sent_ = bytes_received_ = 0;
}

// ---- from the neighbor ----

bool NeighborLink::arrived(const RoundBlock& block) {
  if (block.round > peer_round_) {  // the neighbor has begun a new round
    peer_round_ = block.round;
    in_ = InStream(all_blocks(), window_);
  }
  return block.round < peer_round_ || in_.arrived(block.index);
}

std::optional<RoundCredit> NeighborLink::credit_after(const RoundBlock& block, TimePoint now) {
  if (block.round != peer_round_) return std::nullopt;
  const bool waiting = !in_.complete() && pieces_.size() > window_;
  credit_repeat_at_ = waiting ? now + credit_interval_ : TimePoint::max();
  const std::optional<uint32_t> credit = in_.next_credit();
  if (!credit) return std::nullopt;
  return RoundCredit{0, peer_round_, 0, *credit};
}

std::optional<RoundCredit> NeighborLink::repeated_credit(TimePoint now) {
  if (credit_repeat_at_ > now) return std::nullopt;
  credit_repeat_at_ = now + credit_interval_;
  return RoundCredit{0, peer_round_, 0, in_.credit()};
}

bool NeighborLink::wants(const RoundBlock& block) const {
  const Piece& piece = pieces_[block.index];
  return (piece.payload.empty() || block.round > piece.peer_round) && judging_ < 2 * pieces_.size();
}

void NeighborLink::judging(size_t payload_bytes) {
  bytes_received_ += payload_bytes;
  ++judging_;
}

bool NeighborLink::judged(const Judged& judged, uint64_t round, TimePoint now) {
  judging_ -= judging_ > 0 ? 1 : 0;  // 0: this link was made after the peer of the judged block was forgotten
  Piece& piece = pieces_[judged.index];
  if (!judged.good) {
    piece.refused = true;
    return false;
  }
  if (!piece.payload.empty() && piece.peer_round >= judged.peer_round) return false;  // a later one was judged first
  const bool was_in_time = in_time(piece, round);
  heard_ = true;
  piece.payload = judged.payload;
  piece.peer_round = judged.peer_round;
  piece.used = false;
  piece.taken_in = round;
  piece.squared_distance = judged.squared_distance;
  if (!was_in_time && in_time(piece, round)) ++in_time_;
  if (waiting_since_ && fresh()) {  // recorded for late payloads too: the wait should have been this long
    lateness_.arrived(now - *waiting_since_);
    waiting_since_.reset();
  }
  return true;
}

}  // namespace starling
