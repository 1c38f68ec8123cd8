// The transfer of a group's blocks, under credits: in each of the two phases one stream each way per other member.
// What a block's frame says besides its payload is the caller's.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "gossip/exchange/group_members.h"
#include "gossip/exchange/round_stream.h"
#include "gossip/net/outbox.h"

namespace starling {

class GroupStreams {
 public:
  using BlocksOf = std::function<std::vector<uint32_t>(size_t rank)>;  // the blocks a member owns, ascending
  using SendBlock = std::function<void(size_t rank, uint8_t phase, uint32_t index, const SharedBytes& payload)>;

  // `outbox` must outlive the object. `largest_payload` in bytes.
  GroupStreams(size_t largest_payload, Outbox& outbox, SendBlock send_block)
      : largest_payload_(largest_payload), outbox_(outbox), send_block_(std::move(send_block)) {}

  // The previous round is kept only to recognise its late blocks. Credits are repeated from `now` + `repeat` on, if the
  // first ones do not cover all blocks.
  void begin(const GroupMembers& members, uint64_t round, const BlocksOf& blocks_of, TimePoint now, Duration repeat);
  void close();  // drops the blocks not sent yet

  // All streams towards one receiver share its credit.
  uint32_t window(const GroupMembers& members) const { return stream_window(largest_payload_ * (members.count() - 1)); }

  void give(size_t rank, uint8_t phase, uint32_t index, const SharedBytes& payload);
  void pump(size_t rank, uint8_t phase);  // sends the blocks that the credit allows
  void on_credit(size_t rank, const RoundCredit& credit);
  bool drained() const;  // no block waits for credit
  bool drained(size_t rank) const { return links_[rank].out[0].drained() && links_[rank].out[1].drained(); }

  // True: the block is expected from this member and has not arrived before.
  [[nodiscard]] bool arrived(size_t rank, uint8_t phase, uint32_t index, size_t payload_bytes);
  void pass(size_t rank, uint8_t phase, uint32_t index);  // the block does not exist in this round
  [[nodiscard]] bool arrived_late(size_t rank, const RoundBlock& block, const SharedBytes& payload);  // round before
  // Whether all that this member is to send has come, of this round or of the one before.
  bool complete(size_t rank, uint8_t phase) const { return links_[rank].in[phase].complete(); }
  bool complete_before(size_t rank, uint8_t phase) const { return links_before_[rank].in[phase].complete(); }
  void credit_more(size_t rank, uint8_t phase);
  // Repeats the credits of incomplete streams when they are due, because the last one may be lost, and again after
  // `interval`. Not any more once they are not `wanted`, or nothing is missing.
  void repeat_credits(TimePoint now, Duration interval, bool wanted, bool first_over);
  TimePoint credits_repeat_at() const { return repeat_at_; }  // max: never

  void mark_dead(size_t rank);  // nothing is sent to it or accepted from it any more
  bool dead(size_t rank) const { return links_[rank].dead; }

  // Blocks of this round from other members, by phase: due, and arrived.
  size_t due(uint8_t phase) const { return due_[phase]; }
  bool nothing_came(uint8_t phase) const { return due_[phase] > 0 && came_[phase] == 0; }
  uint64_t bytes_sent() const { return bytes_sent_; }  // since the last time, as the next
  uint64_t bytes_received() const { return bytes_received_; }
  uint64_t take_bytes_sent() { return std::exchange(bytes_sent_, 0); }  // since the last time
  uint64_t take_bytes_received() { return std::exchange(bytes_received_, 0); }

 private:
  struct Link {  // by phase
    std::array<InStream, 2> in;
    std::array<OutStream, 2> out;
    bool dead = false;
  };
  void send_credit(size_t rank, uint8_t phase, uint32_t credit);
  bool send_credits(bool first_over);  // false: no stream is incomplete

  size_t largest_payload_;
  Outbox& outbox_;
  SendBlock send_block_;
  GroupMembers members_;  // of the round
  uint64_t round_ = 0, round_before_ = 0, group_before_ = 0;
  uint32_t window_ = 0;
  TimePoint repeat_at_ = TimePoint::max();
  std::vector<Link> links_, links_before_;  // by rank
  std::array<size_t, 2> due_{}, came_{};
  uint64_t bytes_sent_ = 0, bytes_received_ = 0;
};

}  // namespace starling
