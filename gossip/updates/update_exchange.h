// UpdateGroup as the agent drives it: its rounds as reports of exchanges, its slices as blocks.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "gossip/exchange/exchange.h"
#include "gossip/net/hash.h"
#include "gossip/updates/status.h"
#include "gossip/updates/update_group.h"

namespace starling {

class UpdateExchange final : public ExchangeMachine {
 public:
  // As UpdateGroup's constructor.
  UpdateExchange(const UpdateGroupOptions& options, std::span<const SliceRange> slices, const SliceMemory& memory,
                 const UpdateCodecs& codecs, Worker& worker, const Clock& clock, Outbox& outbox, PeerSampler& sampler)
      : group_(options, slices, memory, codecs, worker, clock, outbox, sampler) {}

  UpdateGroup& group() { return group_; }
  const UpdateGroup& group() const { return group_; }

  void handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message,
              const SharedBytes& payload) override {
    group_.handle(from, generation, message, payload);
  }
  void tick() override {
    group_.tick();
    for (const UpdateReport& report : group_.take_reports()) note(report);
  }
  TimePoint next_deadline() const override { return group_.next_deadline(); }
  // Its payloads may count all the same: the log tells processes apart.
  void forget(const PeerId& peer, uint64_t) override { group_.forget(peer); }
  void lost(const PeerId& peer) override { group_.lost(peer); }
  std::vector<ExchangeReport> take_reports() override { return std::exchange(reports_, {}); }
  ExchangeStatus status() const override;
  UpdatesStatus updates_status() const;

 private:
  void note(const UpdateReport& update);

  UpdateGroup group_;
  std::vector<ExchangeReport> reports_;
  BlockTally blocks_;  // a slice is due in each round, and counted if it got an entry
  GroupCounters rounds_;
};

inline void UpdateExchange::note(const UpdateReport& update) {
  ExchangeReport report;
  report.initiated = true;
  const bool whole = update.entries == update.slices && !update.missed;
  const ExchangeOutcome not_whole = update.entries > 0 ? ExchangeOutcome::kLate : ExchangeOutcome::kFailed;
  report.outcome = whole ? ExchangeOutcome::kDone : not_whole;
  report.duration = update.duration;
  report.blocks_mixed = update.entries;
  report.blocks_total = update.slices;
  report.payload_bytes_sent = update.payload_bytes_sent;
  report.payload_bytes_received = update.payload_bytes_received;
  report.peer_round = update.round;
  reports_.push_back(report);
  blocks_.due += update.slices;
  blocks_.counted += update.entries;
  blocks_.missing += update.slices - update.entries;
  ++rounds_.rounds;
  rounds_.rounds_whole += whole;
}

inline ExchangeStatus UpdateExchange::status() const {
  ExchangeStatus status;
  status.under_way = group_.under_way();
  status.serving_until = group_.serving_until();
  status.idle = !status.under_way && !status.serving_until;
  status.in_rounds = true;
  status.latencies = 2;
  status.block_tally = blocks_;
  status.block_tally.ignored_messages = group_.tally().ignored_messages;
  return status;
}

inline UpdatesStatus UpdateExchange::updates_status() const {
  UpdatesStatus status;
  const UpdateTally tally = group_.tally();
  status.rounds = rounds_;
  status.counters.behind = group_.behind();
  status.counters.made = tally.entries_made;
  status.counters.short_splits = group_.splits().short_splits;
  status.counters.long_splits = group_.splits().long_splits;
  status.counters.states_adopted = tally.states_adopted;
  status.counters.audits_failed = tally.audits_failed;
  status.counters.payloads_refused = tally.refused.payloads;
  status.counters.pulls = tally.pulls_sent;
  status.counters.early = tally.handed_in_early;
  status.counters.buckets = group_.plans().newest().ends.size();
  status.counters.plan_since = group_.plans().newest().since;
  status.counters.plans_refused = group_.plans().refused();
  status.counters.frames_saved = group_.frames_saved();
  status.counters.entries_refused = tally.refused.entries;
  status.counters.blocks_refused = tally.refused.blocks;
  status.counters.heads_refused = tally.refused.heads;
  status.refused_last = tally.refused.last;
  std::vector<std::byte> hashes;
  for (uint32_t i = 0; i < group_.slice_count(); ++i) {
    const LogHead& head = group_.log(i).head();
    status.counters.entries += head.length;
    status.counters.payloads += head.weight;
    const auto hash = std::as_bytes(std::span(head.hash));
    hashes.insert(hashes.end(), hash.begin(), hash.end());
  }
  constexpr size_t kHeadsBytes = 8;
  const Digest16 digest = blake2b_128(hashes);
  for (size_t i = 0; i < kHeadsBytes; ++i) {
    for (const int shift : {4, 0}) status.log_heads += "0123456789abcdef"[digest[i] >> shift & 15];
  }
  status.held_back = group_.held_back();
  return status;
}

}  // namespace starling
