#include "gossip/neighborhood/neighborhood.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gossip/exchange/bitmap.h"
#include "gossip/exchange/coefficients.h"
#include "gossip/exchange/paces.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr size_t kReportsMax = 4096;        // the oldest go first if the caller does not fetch them
constexpr uint64_t kRoundMax = 1ull << 62;  // no honest count of rounds reaches it

uint32_t window_of(const Layout& layout, const Codec& codec) {
  STARLING_CHECK(!layout.blocks.empty() && layout.blocks.size() <= kBlocksMax);
  size_t largest = 0;
  for (const Block& block : layout.blocks) largest = std::max(largest, codec.payload_bytes_max(block.element_count));
  return stream_window(largest);
}

}  // namespace

Neighborhood::Neighborhood(const ExchangeOptions& options, bool guarded, const Layout& layout, const Codec& codec,
                           Worker& worker, const Clock& clock, Outbox& outbox, PeerSampler& sampler)
    : options_(options),
      guarded_(guarded),
      layout_(layout),
      codec_(codec),
      worker_(worker),
      clock_(clock),
      outbox_(outbox),
      round_(options, layout.blocks.size(), window_of(layout, codec), clock, sampler) {
  STARLING_CHECK(codec.linear());
}

// ---- a round ----

void Neighborhood::publish(std::shared_ptr<const Snapshot> snapshot) {
  STARLING_CHECK(snapshot == nullptr || snapshot->blocks.size() == layout_.blocks.size());
  snapshot_ = std::move(snapshot);  // an open round keeps the snapshot it began with
}

bool Neighborhood::begin() {
  if (snapshot_ == nullptr || round_.open() || !round_.begin(*snapshot_)) return false;
  own_ = snapshot_;
  ++rounds_;
  for (const Participant& neighbor : round_.neighbors()) {
    if (NeighborLink* link = round_.find(neighbor.peer)) send_to(neighbor.peer, *link);
  }
  finish_if_due();
  return true;
}

void Neighborhood::send_to(const PeerId& peer, NeighborLink& link) {
  link.pump([&](uint32_t index, const SharedBytes& payload) {
    outbox_.send(peer, RoundBlock{0, round_.number(), 0, index, own_->mass, 0}, payload);
  });
}

void Neighborhood::finish_if_due() {
  if (!round_.open() || !round_.due()) return;
  round_.close();
  std::vector<Brought> all;
  for (const Participant& neighbor : round_.neighbors()) all.push_back(take(neighbor));
  if (guarded_) guard(all);
  for (Brought& one : all) {
    if (one.report.blocks_mixed > 0) decided_.push_back(std::move(one.delta));
    if (reports_.size() >= kReportsMax) reports_.erase(reports_.begin());
    reports_.push_back(one.report);
  }
}

Neighborhood::Brought Neighborhood::take(const Participant& neighbor) {
  const size_t count = layout_.blocks.size();
  Brought brought;
  ExchangeReport& report = brought.report;
  report.peer = neighbor.peer;
  report.initiated = true;
  report.outcome = ExchangeOutcome::kFailed;
  report.duration = round_.time_taken();
  report.blocks_total = static_cast<uint32_t>(count);
  brought.delta.coefficient = static_cast<float>(neighbor.weight);
  brought.mass = neighbor.mass;  // whoever claims another one in its blocks is not allowed more by it
  if (NeighborLink* link = round_.find(neighbor.peer)) {
    take(*link, brought);
  } else {  // forgotten since the round began
    for (size_t k = 0; k < count; ++k) settle(BlockOutcome::kDead);
  }
  return brought;
}

void Neighborhood::take(NeighborLink& link, Brought& brought) {
  const size_t count = layout_.blocks.size();
  Delta& delta = brought.delta;
  ExchangeReport& report = brought.report;
  delta.blocks = make_bitmap(count);
  delta.own.resize(count);
  delta.peer.resize(count);
  double squares = 0;
  size_t elements = 0, fresh = 0;
  for (size_t k = 0; k < count; ++k) {
    const BlockOutcome outcome = settle(link.use(k, round_.number()));
    if (outcome != BlockOutcome::kCounted && outcome != BlockOutcome::kOld) continue;
    fresh += outcome == BlockOutcome::kCounted ? 1 : 0;
    set_bit(delta.blocks, k);
    delta.own[k] = own_->blocks[k];
    delta.peer[k] = link.payload(k);
    ++report.blocks_mixed;
    if (k >= options_.param_blocks) continue;
    squares += link.squared_distance(k);
    elements += layout_.blocks[k].element_count;
  }
  report.peer_round = link.peer_round();
  report.payload_bytes_sent = link.bytes_sent();
  report.payload_bytes_received = link.bytes_received();
  if (elements > 0) report.distance = std::sqrt(squares / static_cast<double>(elements));
  if (report.blocks_mixed > 0) report.outcome = fresh == count ? ExchangeOutcome::kDone : ExchangeOutcome::kLate;
  link.end_round(fresh > 0, round_.deadline());
}

// The blocks of a neighbor that is cut off are tallied as counted, since they were due and arrived.
void Neighborhood::guard(std::vector<Brought>& all) {
  std::vector<Brought*> judged;
  std::vector<double> masses;
  for (Brought& one : all) {
    if (one.report.distance < 0) continue;
    judged.push_back(&one);
    masses.push_back(one.mass);
  }
  std::vector<NeighborGuard::Near> near;
  for (double pace : paces_of(masses)) {
    const ExchangeReport& report = judged[near.size()]->report;
    near.push_back({report.peer, report.distance, pace});
  }
  const std::vector<double> scales = guard_.scales(near, own_->drift);
  for (size_t i = 0; i < judged.size(); ++i) {
    ExchangeReport& report = judged[i]->report;
    report.scale = scales[i];
    if (scales[i] < 1) judged[i]->delta.coefficient *= static_cast<float>(scales[i]);
    if (scales[i] > 0) continue;
    report.left_out = {report.peer};
    report.blocks_mixed = 0;
    report.outcome = ExchangeOutcome::kFailed;
  }
}

BlockOutcome Neighborhood::settle(BlockOutcome value) {
  BlockOutcome outcome = BlockOutcome::kMissing;
  outcomes_.settle(&outcome, value);
  return outcome;
}

// ---- messages: all of them are hostile until checked ----

void Neighborhood::handle(const PeerId& from, uint64_t, const ExchangeMessage& message, const SharedBytes& payload) {
  if (const auto* block = std::get_if<RoundBlock>(&message)) return on_block(from, *block, payload);
  if (const auto* credit = std::get_if<RoundCredit>(&message)) return on_credit(from, *credit);
  outcomes_.ignore();
}

void Neighborhood::on_block(const PeerId& from, const RoundBlock& block, const SharedBytes& payload) {
  const bool ours = block.group == 0 && block.phase == 0 && block.round > 0 && block.round <= kRoundMax &&
                    block.index < layout_.blocks.size() && mass_is_sane(block.mass);
  NeighborLink* link = ours ? round_.link_to_sender(from, block.round) : nullptr;
  if (link == nullptr || !link->arrived(block)) return outcomes_.ignore();
  if (const auto credit = link->credit_after(block, clock_.now())) outbox_.send(from, *credit);
  if (!link->wants(block)) return outcomes_.ignore();
  if (payload.size > codec_.payload_bytes_max(layout_.blocks[block.index].element_count)) {
    return link->refused(block.index);
  }
  link->judging(payload.size);
  judge(from, block, payload);
}

// The job owns all that it reads except the codec: this object may be destroyed before the job runs.
void Neighborhood::judge(const PeerId& from, const RoundBlock& block, const SharedBytes& payload) {
  struct Job {
    std::shared_ptr<const Snapshot> own;
    NeighborLink::Judged judged;
  };
  auto job = std::make_shared<Job>(Job{own_ ? own_ : snapshot_, {block.round, block.index, payload}});
  auto run = [job, &codec = codec_, count = layout_.blocks[block.index].element_count] {
    NeighborLink::Judged& judged = job->judged;
    if (job->own == nullptr) {
      judged.good = codec.check(judged.payload.span(), count) == PayloadStatus::kOk;
      return;
    }
    PairStats stats;
    const Bytes own = job->own->blocks[judged.index].span();
    judged.good = codec.pair(own, judged.payload.span(), count, &stats) == PairStatus::kOk;
    judged.squared_distance = stats.squared_distance;
  };
  auto done = [this, job, here = std::weak_ptr<int>(alive_), from] {
    if (!here.expired()) on_judged(from, job->judged);
  };
  worker_.submit(std::move(run), std::move(done));
}

void Neighborhood::on_judged(const PeerId& from, const NeighborLink::Judged& judged) {
  NeighborLink* link = round_.find(from);
  if (link != nullptr && link->judged(judged, round_.number(), clock_.now())) finish_if_due();
}

void Neighborhood::on_credit(const PeerId& from, const RoundCredit& credit) {
  NeighborLink* link = round_.find(from);
  const bool ours = credit.group == 0 && credit.phase == 0 && credit.round == round_.number();
  if (!ours || link == nullptr || !link->takes_credit()) return outcomes_.ignore();
  link->grant(credit.credit);
  send_to(from, *link);
  finish_if_due();
}

// The generation does not matter: a payload is complete in itself, and nothing is acknowledged.
void Neighborhood::forget(const PeerId& peer, uint64_t) {
  round_.forget(peer);
  guard_.forget(peer);
  finish_if_due();
}

void Neighborhood::lost(const PeerId& peer) {
  round_.forget(peer);
  finish_if_due();
}

// ---- time ----

void Neighborhood::tick() {
  for (auto& [peer, link] : round_.links()) {
    if (const auto credit = link.repeated_credit(clock_.now())) outbox_.send(peer, *credit);
  }
  finish_if_due();
}

TimePoint Neighborhood::next_deadline() const {
  TimePoint next = round_.next_deadline();
  for (const auto& [peer, link] : round_.links()) next = std::min(next, link.credit_repeat_at());
  return next;
}

ExchangeStatus Neighborhood::status() const {
  return {.under_way = under_way(),
          .idle = idle(),
          .in_rounds = true,
          .usual_duration = round_.usual_duration(),
          .block_tally = block_tally()};
}

}  // namespace starling
