#include "gossip/updates/sent_payloads.h"

#include <algorithm>
#include <utility>

#include "gossip/updates/counted_table.h"

namespace starling {
namespace {

constexpr size_t kSkippedMax = 64;  // no table remembers more of them

}  // namespace

SentPayload* SentPayloads::find(uint64_t seq) { return const_cast<SentPayload*>(std::as_const(*this).find(seq)); }

const SentPayload* SentPayloads::find(uint64_t seq) const {
  const auto at = std::find_if(sent_.begin(), sent_.end(), [&](const SentPayload& sent) { return sent.seq == seq; });
  return at == sent_.end() ? nullptr : &*at;
}

namespace {

bool may_count(const CountedTable& table, const PeerId& self, uint64_t generation, const SentPayload& sent,
               uint64_t length) {
  return table.may_count(self, generation, sent.seq) && !table.counted_since(self, generation, sent.length) &&
         !CountedTable::too_old(sent.length, length);
}

}  // namespace

std::vector<const SentPayload*> SentPayloads::live(const CountedTable& table, const PeerId& self, uint64_t generation,
                                                   uint64_t length) const {
  std::vector<const SentPayload*> live;
  for (const SentPayload& sent : sent_) {
    const bool may = may_count(table, self, generation, sent, length);
    if (may && !sent.settled && !sent.retired && !sent.past) live.push_back(&sent);
  }
  return live;
}

bool SentPayloads::may_join(const std::vector<const SentPayload*>& live) {
  size_t bytes = 0;
  for (const SentPayload* sent : live) bytes += sent->bytes.size;
  return live.size() < kLiveMax || (live.size() < kSmallLiveMax && bytes < kSmallBytes);
}

const SentPayload& SentPayloads::add(uint64_t length, uint8_t codec, SharedBytes bytes) {
  sent_.push_back({++newest_seq_, length, codec, std::move(bytes)});
  return sent_.back();
}

void SentPayloads::skip_to(uint64_t seq) {
  if (seq <= newest_seq_) return;
  skipped_.emplace_back(newest_seq_ + 1, seq);
  if (skipped_.size() > kSkippedMax) skipped_.pop_front();
  newest_seq_ = seq;
}

bool SentPayloads::was_handed_in(uint64_t seq) const {
  return seq <= newest_seq_ && std::none_of(skipped_.begin(), skipped_.end(), [&](const auto& skipped) {
           return skipped.first <= seq && seq <= skipped.second;
         });
}

// A void payload can count in another log only, which took it within kEntriesToCount entries of its encoding; a member
// hears of that log within as many more, or takes over its whole state.
void SentPayloads::prune(const CountedTable& table, const PeerId& self, uint64_t generation, uint64_t length) {
  uint64_t newest_settled = 0;
  for (const SentPayload& sent : sent_) {
    if (sent.settled) newest_settled = std::max(newest_settled, sent.seq);
  }
  for (SentPayload& sent : sent_) {
    const bool old = sent.settled ? sent.seq < newest_settled
                                  : !may_count(table, self, generation, sent, length) &&
                                        CountedTable::too_old(sent.length + CountedTable::kEntriesToCount, length);
    sent.past = sent.past || old;
  }
  drop_past();
}

// Another log may be far shorter than the own one, and an owner of it still hold what this member handed in long ago.
// If it counts that after a long split, what it counts must leave the drift that the split made.
void SentPayloads::drop_past() {
  size_t count = 0, bytes = 0;
  for (auto sent = sent_.rbegin(); sent != sent_.rend(); ++sent) {
    if (!sent->past) continue;
    bytes += sent->bytes.size;
    if (++count > kPastMax || bytes > past_bytes_max_) sent->bytes = {};
  }
  std::erase_if(sent_, [](const SentPayload& sent) { return sent.past && sent.bytes.empty(); });
}

}  // namespace starling
