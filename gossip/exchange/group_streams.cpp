#include "gossip/exchange/group_streams.h"

#include <algorithm>
#include <optional>

namespace starling {

void GroupStreams::begin(const GroupMembers& members, uint64_t round, const BlocksOf& blocks_of, TimePoint now,
                         Duration repeat) {
  links_before_ = std::exchange(links_, {});
  group_before_ = members_.group;
  round_before_ = round_;
  members_ = members;
  round_ = round;
  window_ = window(members);
  due_ = came_ = {};
  bool credits_needed = false;
  const std::vector<uint32_t> own_blocks = blocks_of(members.self);
  links_.resize(members.count());
  for (size_t rank = 0; rank < members.count(); ++rank) {
    if (rank == members.self) continue;
    const std::vector<uint32_t> their_blocks = blocks_of(rank);
    links_[rank].in = {InStream(own_blocks, window_), InStream(their_blocks, window_)};
    links_[rank].out = {OutStream(their_blocks, window_), OutStream(own_blocks, window_)};
    due_[0] += own_blocks.size();
    due_[1] += their_blocks.size();
    credits_needed = credits_needed || std::max(own_blocks.size(), their_blocks.size()) > window_;
  }
  repeat_at_ = credits_needed ? now + repeat : TimePoint::max();
}

void GroupStreams::close() {
  for (Link& link : links_) link.out = {};
}

void GroupStreams::mark_dead(size_t rank) {
  links_[rank].dead = true;
  links_[rank].out = {};
}

// ---- out ----

void GroupStreams::give(size_t rank, uint8_t phase, uint32_t index, const SharedBytes& payload) {
  links_[rank].out[phase].give(index, payload);
}

void GroupStreams::pump(size_t rank, uint8_t phase) {
  links_[rank].out[phase].pump([&](uint32_t index, const SharedBytes& payload) {
    send_block_(rank, phase, index, payload);
    bytes_sent_ += payload.size;
  });
}

void GroupStreams::on_credit(size_t rank, const RoundCredit& credit) {
  links_[rank].out[credit.phase].grant(credit.credit);
  pump(rank, credit.phase);
}

bool GroupStreams::drained() const {
  for (size_t rank = 0; rank < links_.size(); ++rank) {
    if (!drained(rank)) return false;
  }
  return true;
}

// ---- in ----

bool GroupStreams::arrived(size_t rank, uint8_t phase, uint32_t index, size_t payload_bytes) {
  if (links_[rank].dead || !links_[rank].in[phase].arrived(index)) return false;
  ++came_[phase];
  bytes_received_ += payload_bytes;
  return true;
}

void GroupStreams::pass(size_t rank, uint8_t phase, uint32_t index) {
  if (links_[rank].in[phase].arrived(index)) ++came_[phase];
}

bool GroupStreams::arrived_late(size_t rank, const RoundBlock& block, const SharedBytes& payload) {
  const bool known = !links_before_.empty() && group_before_ == block.group && round_before_ == block.round &&
                     !links_[rank].dead && !links_before_[rank].dead;
  if (!known || !links_before_[rank].in[block.phase].arrived(block.index)) return false;
  bytes_received_ += payload.size;
  return true;
}

void GroupStreams::credit_more(size_t rank, uint8_t phase) {
  const std::optional<uint32_t> credit = links_[rank].in[phase].next_credit();
  if (credit) send_credit(rank, phase, *credit);
}

void GroupStreams::send_credit(size_t rank, uint8_t phase, uint32_t credit) {
  outbox_.send(members_.ids[rank], RoundCredit{members_.group, round_, phase, credit});
}

void GroupStreams::repeat_credits(TimePoint now, Duration interval, bool wanted, bool first_over) {
  if (repeat_at_ > now) return;
  const bool waiting = wanted && send_credits(first_over);
  repeat_at_ = waiting ? now + std::max(interval, Duration(1)) : TimePoint::max();
}

bool GroupStreams::send_credits(bool first_over) {
  bool waiting = false;
  for (size_t rank = 0; rank < links_.size(); ++rank) {
    for (uint8_t phase = first_over ? 1 : 0; phase <= 1; ++phase) {
      InStream& in = links_[rank].in[phase];
      if (links_[rank].dead || in.complete() || in.expected() <= window_) continue;
      waiting = true;
      send_credit(rank, phase, in.credit_again());
    }
  }
  return waiting;
}

}  // namespace starling
