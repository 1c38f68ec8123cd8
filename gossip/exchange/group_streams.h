// The transfer of a group's blocks, under credits: in each of the two phases one stream each way per other member.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "gossip/exchange/block_owner.h"
#include "gossip/exchange/group_members.h"
#include "gossip/exchange/round_stream.h"
#include "gossip/net/outbox.h"

namespace starling {

class GroupStreams {
 public:
  // References must outlive the object. `owner` tells which members an average counts.
  GroupStreams(size_t block_count, size_t largest_payload, const BlockOwner& owner, Outbox& outbox)
      : block_count_(block_count), largest_payload_(largest_payload), owner_(owner), outbox_(outbox) {}

  // The previous round is kept only to recognise its late blocks. `mass`: of this agent.
  void begin(const GroupMembers& members, uint64_t round, double mass);
  void close();                                // drops the blocks not sent yet

  // All streams towards one receiver share its credit.
  uint32_t window(const GroupMembers& members) const { return stream_window(largest_payload_ * (members.count() - 1)); }

  void give(size_t rank, uint8_t phase, uint32_t index, const SharedBytes& payload);
  void pump(size_t rank, uint8_t phase);       // sends the blocks that the credit allows
  void on_credit(size_t rank, const RoundCredit& credit);
  bool drained() const;                        // no block waits for credit

  // True: the block is expected from this member and has not arrived before.
  [[nodiscard]] bool arrived(size_t rank, const RoundBlock& block, const SharedBytes& payload);
  [[nodiscard]] bool arrived_late(size_t rank, const RoundBlock& block, const SharedBytes& payload);   // round before
  void credit_more(size_t rank, uint8_t phase);
  bool credits_needed() const { return credits_needed_; }   // the first credits do not cover all blocks
  // Repeats the credits of incomplete streams, because the last one may be lost. False: there are none.
  bool repeat_credits(bool first_over);

  void mark_dead(size_t rank);                 // nothing is sent to it or accepted from it any more
  bool dead(size_t rank) const { return links_[rank].dead; }

  // Blocks of this round from other members, by phase: due, and arrived.
  size_t due(uint8_t phase) const { return due_[phase]; }
  size_t came(uint8_t phase) const { return came_[phase]; }
  uint64_t take_bytes_sent() { return std::exchange(bytes_sent_, 0); }   // since the last time
  uint64_t take_bytes_received() { return std::exchange(bytes_received_, 0); }

 private:
  struct Link {                                // by phase
    std::array<InStream, 2> in;
    std::array<OutStream, 2> out;
    bool dead = false;
  };
  void send_credit(size_t rank, uint8_t phase, uint32_t credit);

  size_t block_count_, largest_payload_;
  const BlockOwner& owner_;
  Outbox& outbox_;
  GroupMembers members_;                       // of the round
  uint64_t round_ = 0, round_before_ = 0, group_before_ = 0;
  double mass_ = 1;
  uint32_t window_ = 0;
  bool credits_needed_ = false;
  std::vector<Link> links_, links_before_;     // by rank
  std::array<size_t, 2> due_{}, came_{};
  uint64_t bytes_sent_ = 0, bytes_received_ = 0;
};

}  // namespace starling
