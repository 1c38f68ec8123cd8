// One neighbor in the neighborhood exchange: its last payload, block by block; the streams of blocks from it and to it;
// how regularly it brings something new, and how late. Pure state: the caller sends what it returns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "gossip/clock.h"
#include "gossip/exchange/block_outcome.h"
#include "gossip/exchange/deadline.h"
#include "gossip/exchange/options.h"
#include "gossip/exchange/round_stream.h"
#include "gossip/neighborhood/neighbor_pace.h"
#include "gossip/net/message.h"
#include "gossip/net/transport.h"

namespace starling {

class NeighborLink {
 public:
  static constexpr uint64_t kAgeMax = 4;  // rounds: a payload that arrived longer ago counts no more

  // `window`: blocks in flight in either direction.
  NeighborLink(const ExchangeOptions& options, size_t block_count, uint32_t window);

  // ---- this agent's rounds

  // The peer is a neighbor in this round, which begins at `now`; its stream out then carries `own`, payloads by block.
  void begin_round(uint64_t round, const std::vector<SharedBytes>& own, TimePoint now);
  void still_wanted(uint64_t round) { wanted_in_ = std::max(wanted_in_, round); }
  bool unwanted(uint64_t round) const { return wanted_in_ + kAgeMax < round; }  // no neighbor for longer than that
  void cancel();  // drops what has not been sent, and takes no credit any more

  // Decides whether the block counts in the round that ends: kCounted, kOld (it counted before), kMissing or kRefused.
  BlockOutcome use(size_t index, uint64_t round);
  const SharedBytes& payload(size_t index) const { return pieces_[index].payload; }
  double squared_distance(size_t index) const { return pieces_[index].squared_distance; }
  // After use() of all blocks. `deadline`: how long the round would have waited.
  void end_round(bool brought_news, Duration deadline);

  double pace() const { return pace_.value(); }
  // The neighbor's payload of the current round, or of a later one, is here in full. Any payload that was not mixed yet
  // would not do as the condition: two neighbors would take turns, each computing while the other waits.
  bool fresh() const { return in_time_ == pieces_.size(); }
  bool heard() const { return heard_; }                // it has sent a valid payload
  uint64_t peer_round() const { return peer_round_; }  // of its newest block; 0: none
  const AdaptiveDeadline& lateness() const { return lateness_; }
  uint64_t bytes_sent() const { return bytes_sent_; }  // since the last round ended
  uint64_t bytes_received() const { return bytes_received_; }

  // ---- to the neighbor

  bool takes_credit() const { return sending_; }
  void grant(uint32_t credit) { out_.grant(credit); }
  // Calls send(index, payload) for each block that the credit allows.
  template <typename Send>
  void pump(const Send& send) {
    out_.pump([&](uint32_t index, const SharedBytes& payload) {
      send(index, payload);
      bytes_sent_ += payload.size;
    });
  }
  bool drained() const { return out_.drained(); }

  // ---- from the neighbor

  // False: the block came before. A block of a later round than all before begins a new stream.
  [[nodiscard]] bool arrived(const RoundBlock& block);
  // The credit that is due after the arrival of this block; nullopt: none.
  std::optional<RoundCredit> credit_after(const RoundBlock& block, TimePoint now);
  // The last credit again, because it may be lost; nullopt: not due.
  std::optional<RoundCredit> repeated_credit(TimePoint now);
  TimePoint credit_repeat_at() const { return credit_repeat_at_; }

  // True: the block is newer than the payload held, and not too many blocks are being judged. judging() must follow, or
  // refused().
  bool wants(const RoundBlock& block) const;
  void refused(uint32_t index) { pieces_[index].refused = true; }
  void judging(size_t payload_bytes);
  // The end of judging(), for a payload that the neighbor sent in `peer_round`; this agent is in `round`. True: the
  // payload is held from now on.
  struct Judged {
    uint64_t peer_round = 0;
    uint32_t index = 0;
    SharedBytes payload;
    bool good = false;
    double squared_distance = 0;
  };
  bool judged(const Judged& judged, uint64_t round, TimePoint now);

 private:
  struct Piece {
    SharedBytes payload;
    uint64_t peer_round = 0;
    bool used = false;      // was mixed already; counts again only until something newer arrives
    bool refused = false;   // an invalid payload arrived since the last mix
    uint64_t taken_in = 0;  // this agent's round when it arrived
    double squared_distance = 0;
  };
  static bool in_time(const Piece& piece, uint64_t round) {
    return piece.peer_round >= round && !piece.payload.empty();
  }
  std::vector<uint32_t> all_blocks() const;

  const uint32_t window_;
  const Duration credit_interval_;
  std::vector<Piece> pieces_;  // by block
  size_t in_time_ = 0;         // pieces of the current round or a later one; recounted when a round begins
  size_t judging_ = 0;
  bool heard_ = false;
  uint64_t peer_round_ = 0;  // the neighbor's round that `in_` belongs to
  InStream in_;
  OutStream out_;
  bool sending_ = false;
  TimePoint credit_repeat_at_ = TimePoint::max();
  uint64_t wanted_in_ = 0;  // this agent's last round in which it was a neighbor
  AdaptiveDeadline lateness_;
  std::optional<TimePoint> waiting_since_;  // begin of the first round without its whole payload
  NeighborPace pace_;
  uint64_t bytes_sent_ = 0, bytes_received_ = 0;
};

}  // namespace starling
