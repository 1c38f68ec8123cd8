#include "gossip/updates/slice_replica.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "compression/update_sketch.h"
#include "gossip/net/hash.h"
#include "gossip/updates/update_parts.h"
#include "kernels/check.h"

namespace starling {
namespace {

const UpdateSupport kEverywhere{};

UpdateSeeds seeds_of(const PeerId& self, uint64_t generation, uint64_t seq, const LogHead& head) {
  std::array<uint8_t, sizeof self.bytes + sizeof head.hash + 2 * sizeof(uint64_t)> fields;
  uint8_t* at = std::copy(self.bytes.begin(), self.bytes.end(), fields.data());
  at = std::copy(head.hash.begin(), head.hash.end(), at);
  std::memcpy(at, &generation, sizeof generation);
  std::memcpy(at + sizeof generation, &seq, sizeof seq);
  return {.own = xxh3_64(std::as_bytes(std::span(fields))),
          .common = xxh3_64(std::as_bytes(std::span(head.hash))),
          .entries = head.length};
}

}  // namespace

const UpdateCodec* UpdateCodecs::of(uint8_t kind) const {
  if (static_cast<uint8_t>(running->kind()) == kind) return running;
  return static_cast<uint8_t>(exact->kind()) == kind ? exact : nullptr;
}

SliceReplica::SliceReplica(const PeerId& self, uint64_t generation, const SliceMemory& memory, const OuterRule& rule,
                           const UpdateCodecs& codecs)
    : self_(self), generation_(generation), memory_(memory), rule_(rule), codecs_(codecs), sent_(memory.params.size()) {
  STARLING_CHECK(memory.accumulator.size() == size());
  STARLING_CHECK(math().takes(*codecs.running) && math().takes(*codecs.exact));
  STARLING_CHECK(math().space() == MemorySpace::kHost || (memory.velocity.empty() && !codecs.running->tables()));
  STARLING_CHECK(memory.momentum.size() == (rule.has_momentum() ? size() : 0));
  STARLING_CHECK(memory.velocity.size() == (codecs.running->velocity().used ? size() : 0));
}

void SliceReplica::restore(const SliceState& state) {
  head_ = state.head;
  table_ = CountedTable(state.table);
  recent_ = state.recent;
}

void SliceReplica::resume_with_residual(std::span<float> x) {
  STARLING_CHECK(x.size() == size() && memory_.velocity.empty());
  math().add(memory_.accumulator, x);
  from_rest_ = true;
}

bool SliceReplica::add_drift(std::span<const float> x, bool round, float scale) {
  STARLING_CHECK(x.size() == size());
  if (!math().all_finite(x)) return false;
  const std::span<float> velocity = memory_.velocity;
  if (velocity.empty()) {
    // accumulator + (x - (R + accumulator)). What the accumulator held below half a unit of R's last bit is gone.
    if (std::exchange(from_rest_, false)) math().clear(memory_.accumulator);
    math().add_change(scale, memory_.params, x, memory_.accumulator);
    return true;
  }
  const float momentum = codecs_.running->velocity().momentum;
  for (size_t i = 0; i < x.size(); ++i) {
    const float drift = scale * (x[i] - memory_.params[i]);
    if (round) {
      velocity[i] = momentum * velocity[i] + drift;
      memory_.accumulator[i] += velocity[i];
    } else {
      velocity[i] += drift;
      memory_.accumulator[i] += drift;
    }
  }
  return true;
}

// ---- the log moves on ----

// An entry that would carry R out of a float's range counts at factor 0: all who hold this log judge alike. What
// comes late at the end of a run is no step of momentum, which would move R by it again for each of those entries.
void SliceReplica::apply(const LoggedEntry& logged) {
  const LogEntry& entry = logged.entry;
  STARLING_CHECK(entry.previous == head_.hash);
  const UpdateCodec* codec = codecs_.of(entry.codec);
  const OuterRule rule = logged.quiet ? OuterRule{0, rule_.rate} : rule_;
  const std::span<float> momentum = logged.quiet ? std::span<float>() : memory_.momentum;
  const bool taken = apply_entry(math(), rule, *codec, logged.factor, logged.payload.span(),
                                 static_cast<double>(logged.recent.norm), memory_.params, momentum, &reach_);
  const float factor = taken ? logged.factor : 0;
  for (const CountedPayload& counted : entry.counted) {
    table_.count(counted, entry.head.length);
    if (counted.peer != self_ || counted.generation != generation_) continue;
    SentPayload* payload = sent_.find(counted.seq);
    if (!sent_.was_handed_in(counted.seq)) {
      ++tally_.forged;
    } else if (payload == nullptr) {
      ++tally_.lost_payloads;
    } else if (!payload->settled) {
      settle(*payload, counted.scale * factor, codec, logged.payload);
    }
  }
  head_ = entry.head;
  recent_.push_back(logged.recent);
  if (recent_.size() > kRecentEntries) recent_.erase(recent_.begin());
  follow_table();
}

void SliceReplica::follow_table() {
  const CountedRow* own = table_.row(self_);
  if (own != nullptr && own->generation == generation_) sent_.skip_to(own->newest);
  sent_.prune(table_, self_, generation_, head_.length);
}

void SliceReplica::settle(SentPayload& payload, float coefficient, const UpdateCodec* entry_codec,
                          const SharedBytes& entry) {
  const UpdateSupport on = entry_codec == nullptr ? kEverywhere : entry_codec->support(entry.span());
  math().add_payload(*codecs_.of(payload.codec), -coefficient, payload.bytes.span(), on, memory_.accumulator);
  if (!memory_.velocity.empty() && coefficient > 0) mask(payload, on);
  payload.settled = SentPayload::Settled{coefficient, 0, {}};
  if (on.everywhere) return;
  payload.settled->entry_codec = static_cast<uint8_t>(entry_codec->kind());
  payload.settled->entry = entry;
}

// What was sent goes on by itself no longer: it would arrive stale (momentum factor masking).
void SliceReplica::mask(const SentPayload& payload, const UpdateSupport& on) {
  const UpdateSupport sent = codecs_.of(payload.codec)->support(payload.bytes.span());
  if (sent.everywhere && on.everywhere) {
    std::fill(memory_.velocity.begin(), memory_.velocity.end(), 0.0f);
    return;
  }
  const std::vector<uint32_t>& fewer = sent.everywhere ? on.indices : sent.indices;
  for (const uint32_t i : fewer) {
    const bool both = sent.everywhere || on.everywhere || std::binary_search(on.indices.begin(), on.indices.end(), i);
    if (both) memory_.velocity[i] = 0;
  }
}

void SliceReplica::unsettle(SentPayload& payload) {
  const SentPayload::Settled& settled = *payload.settled;
  const UpdateSupport on =
      settled.entry_codec == 0 ? kEverywhere : codecs_.of(settled.entry_codec)->support(settled.entry.span());
  math().add_payload(*codecs_.of(payload.codec), settled.coefficient, payload.bytes.span(), on, memory_.accumulator);
  payload.settled.reset();
}

// ---- another log ----

// Whether one of two logs counts a payload of ours that the other lacks and whose bytes are gone. Then the logs went on
// apart for long. A member that was only behind never sees it: the other log counts all that its own does, and what
// only the other counts waits here. `parted`: the other log does not continue this one; if the tables then share
// nothing of what is gone, they parted before all that they remember.
bool SliceReplica::differ_in_what_is_gone(const CountedTable& theirs, bool parted) const {
  std::vector<uint64_t> newest_seqs;  // each window ends with one
  bool share = false, older = false;
  for (const CountedTable* table : {&table_, &theirs}) {
    const CountedRow* row = table->row(self_);
    if (row == nullptr || row->generation != generation_) continue;
    older = older || row->newest > first_seq_ + 64;
    newest_seqs.insert(newest_seqs.end(), {row->before_far, row->newest});
  }
  for (const uint64_t newest : newest_seqs) {
    for (uint64_t seq = std::max(first_seq_, newest > 64 ? newest - 64 : 1); seq <= newest; ++seq) {
      const SentPayload* held = sent_.find(seq);
      if ((held != nullptr && !held->past) || !sent_.was_handed_in(seq)) continue;
      const Counting here = table_.counting(self_, generation_, seq), there = theirs.counting(self_, generation_, seq);
      if (here == Counting::kUnknown || there == Counting::kUnknown) continue;
      if (here != there) return true;
      share = share || here == Counting::kCounted;
    }
  }
  return parted && older && !share;
}

// Only a log of at most kRecentEntries more tells whether it continues this one.
bool SliceReplica::parted(const SliceState& state) const {
  if (head_.length == 0 || state.head.length >= head_.length + kRecentEntries) return false;
  return std::none_of(state.recent.begin(), state.recent.end(),
                      [&](const RecentEntry& entry) { return entry.hash == head_.hash; });
}

void SliceReplica::adopt(const SliceState& state, std::span<const float> params, std::span<const float> momentum) {
  STARLING_CHECK(params.size() == size() && momentum.size() == memory_.momentum.size());
  const CountedTable theirs(state.table);
  const bool long_split = differ_in_what_is_gone(theirs, parted(state));
  bool short_split = false;
  if (long_split) math().add_change_from_host(params, memory_.params, memory_.accumulator);
  std::vector<SentPayload>& sent = sent_.all();
  for (SentPayload& payload : sent) {
    const Counting counting = theirs.counting(self_, generation_, payload.seq);
    if (payload.retired && long_split && counting == Counting::kCounted) {
      payload.settled = SentPayload::Settled{0, 0, {}};  // back in the log that it was retired from
    } else if (!payload.settled && counting == Counting::kCounted) {
      ++tally_.settled_blind;
      settle(payload, 1, nullptr, {});
    } else if (payload.settled && counting == Counting::kNot && long_split) {
      // What only our log counts lies in our R, so it is drift now. Their log may yet count it: then it is settled.
      payload.settled.reset();
      payload.retired = true;
    } else if (payload.settled && counting == Counting::kNot) {
      short_split = true;
      unsettle(payload);
    }
  }
  tally_.long_splits += long_split;
  tally_.short_splits += short_split;
  math().copy(params, memory_.params);
  math().copy(momentum, memory_.momentum);
  reach_ = OuterReach();
  head_ = state.head;
  table_ = theirs;
  recent_ = state.recent;
  follow_table();
}

// ---- own work ----

bool SliceReplica::hands_in_new() const {
  const std::vector<const SentPayload*> live = sent_.live(table_, self_, generation_, head_.length);
  // What a codec drops is coded again each time, with a larger error.
  return codecs_.running->residual().dropped ? live.size() < SentPayloads::kLiveMax : SentPayloads::may_join(live);
}

SharedBytes SliceReplica::table(const SketchTables& tables) const {
  std::vector<std::byte> bytes(tables.bytes(size()));
  const UpdateSeeds seeds = seeds_of(self_, generation_, sent_.newest_seq(), head_);
  return tables.encode(memory_.accumulator, seeds, bytes) ? SharedBytes::take(std::move(bytes)) : SharedBytes();
}

std::optional<SentPayload> SliceReplica::submit(const UpdateCodec& codec, SelectTime& select,
                                                std::span<const uint32_t> requested) {
  if (!hands_in_new()) return *sent_.live(table_, self_, generation_, head_.length).back();
  const UnsetBytes bytes(codec.bytes_max(UpdateRole::kContribution, size()));
  UpdateSeeds seeds = seeds_of(self_, generation_, sent_.newest_seq(), head_);
  seeds.requested = requested;
  const std::optional<UpdateSupport> chosen =
      select.timed([&] { return math().choose(codec, memory_.accumulator, seeds); });
  if (!chosen) return std::nullopt;
  const std::optional<size_t> written = math().encode_chosen(codec, memory_.accumulator, seeds, *chosen, bytes.span());
  if (!written) return std::nullopt;
  const SharedBytes payload = with_checksum(written_of(bytes, *written));
  if (codec.residual().dropped) math().decode(codec, payload.span(), memory_.accumulator);
  return sent_.add(head_.length, static_cast<uint8_t>(codec.kind()), payload);
}

void SliceReplica::keep_only_sent() {
  math().clear(memory_.accumulator);
  std::fill(memory_.velocity.begin(), memory_.velocity.end(), 0.0f);
  const std::vector<const SentPayload*> live = sent_.live(table_, self_, generation_, head_.length);
  if (live.empty()) return;
  const SentPayload& last = *live.back();
  math().add_payload(*codecs_.of(last.codec), 1, last.bytes.span(), kEverywhere, memory_.accumulator);
}

void SliceReplica::drop_own_work() {
  math().clear(memory_.accumulator);
  std::fill(memory_.velocity.begin(), memory_.velocity.end(), 0.0f);
  first_seq_ = sent_.newest_seq() + 1;
  sent_.clear();
}

}  // namespace starling
