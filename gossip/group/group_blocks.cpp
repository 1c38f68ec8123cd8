#include "gossip/group/group_blocks.h"

#include <algorithm>
#include <utility>

#include "gossip/exchange/bitmap.h"
#include "gossip/exchange/injected_loss.h"
#include "gossip/limits.h"
#include "kernels/check.h"

namespace starling {
namespace {

std::vector<size_t> payload_bounds(const Layout& layout, const Codec& codec) {
  STARLING_CHECK(!layout.blocks.empty() && layout.blocks.size() <= kBlocksMax);
  std::vector<size_t> bounds;
  for (const Block& block : layout.blocks) bounds.push_back(codec.payload_bytes_max(block.element_count));
  return bounds;
}

}  // namespace

GroupBlocks::GroupBlocks(const GroupOptions& options, double far, const Layout& layout, const Codec& codec,
                         Worker& worker, OutcomeTally& outcomes, Outbox& outbox, std::function<void()> on_change)
    : options_(options),
      layout_(layout),
      outcomes_(outcomes),
      outbox_(outbox),
      on_change_(std::move(on_change)),
      payload_bytes_max_(payload_bounds(layout, codec)),
      guard_(layout, far),
      owner_(layout, codec, worker, outcomes, guard_,
             [this](uint32_t index, const AverageJob& job) { on_averaged(index, job); }),
      averages_(layout, codec, worker, outcomes, [this] { on_change_(); }),
      streams_(*std::max_element(payload_bytes_max_.begin(), payload_bytes_max_.end()), outbox,
               [this](size_t rank, uint8_t phase, uint32_t index, const SharedBytes& payload) {
                 send(rank, phase, index, payload);
               }) {}

void GroupBlocks::begin(const GroupMembers& members, uint64_t round, std::shared_ptr<const Snapshot> own, TimePoint now,
                        Duration repeat) {
  members_ = members;
  round_ = round;
  mass_ = own->mass;
  const auto blocks_of = [&](size_t rank) { return members.blocks_of(rank, layout_.blocks.size(), round); };
  streams_.begin(members, round, blocks_of, now, repeat);
  owner_.begin(members, round, own);
  averages_.begin(members, round, own);
  give_contributions(*own);
}

void GroupBlocks::retire() {
  owner_.retire();
  averages_.retire();
}

void GroupBlocks::close() {
  STARLING_CHECK(jobs() == 0);
  owner_.release();
  averages_.release();
  streams_.close();
}

// ---- out ----

// Each member begins with the one after itself; otherwise all would send to the first member first.
void GroupBlocks::give_contributions(const Snapshot& own) {
  for (size_t i = 1; i < members_.count(); ++i) {
    const size_t rank = (members_.self + i) % members_.count();
    for (uint32_t index : members_.blocks_of(rank, layout_.blocks.size(), round_)) {
      streams_.give(rank, 0, index, own.blocks[index]);
    }
    streams_.pump(rank, 0);
  }
}

void GroupBlocks::send(size_t rank, uint8_t phase, uint32_t index, const SharedBytes& payload) {
  RoundBlock frame{.group = members_.group, .round = round_, .phase = phase, .index = index, .mass = mass_};
  frame.counted = phase == 0 ? 0 : owner_.counted_in(index);
  outbox_.send(members_.ids[rank], frame, payload);
}

void GroupBlocks::on_averaged(uint32_t index, const AverageJob& job) {
  averages_.set_own(index, job.average, job.squared_distance);
  for (size_t i = 1; i < members_.count() && !job.average.empty(); ++i) {
    const size_t rank = (members_.self + i) % members_.count();
    if (streams_.dead(rank)) continue;
    streams_.give(rank, 1, index, job.average);
    streams_.pump(rank, 1);
  }
  on_change_();
}

// ---- what arrives: all of it is hostile until checked ----

bool GroupBlocks::arrived(size_t rank, const RoundBlock& block, const SharedBytes& payload) {
  const uint32_t counted_by_owner = 1u << rank;
  const bool plausible = block.phase == 0
                             ? block.counted == 0
                             : block.counted >> members_.count() == 0 && (block.counted & counted_by_owner) != 0;
  return plausible && streams_.arrived(rank, block.phase, block.index, payload.size);
}

void GroupBlocks::receive(size_t rank, const RoundBlock& block, const SharedBytes& payload, bool in_time) {
  if (block.phase == 0) {
    owner_.receive(rank, block, payload, fits(block, payload), lost(rank, block));
  } else {
    averages_.receive(rank, block.index, payload, fits(block, payload), lost(rank, block), in_time);
  }
}

bool GroupBlocks::receive_late(size_t rank, const RoundBlock& block, const SharedBytes& payload) {
  return block.phase == 0 && fits(block, payload) && !lost(rank, block) && owner_.receive_late(rank, block, payload);
}

bool GroupBlocks::lost(size_t rank, const RoundBlock& block) const {
  return injected_loss(options_.inject_loss, options_.rng_seed,
                       {block.round, members_.ids[rank], options_.self, block.index, block.phase});
}

// ---- waiting, and the end ----

void GroupBlocks::stop_waiting(size_t rank) {
  averages_.stop_waiting(rank);
  owner_.stop_waiting(rank);
}

void GroupBlocks::mark_dead(size_t rank) {
  streams_.mark_dead(rank);
  averages_.mark_dead(rank);
  owner_.mark_dead(rank);
}

RoundEnd GroupBlocks::take_end() {
  RoundEnd end;
  averages_.decide(guard_);
  end.whole = owner_.counted() == streams_.due(0) && averages_.counted() == streams_.due(1);
  const bool any = owner_.counted() + averages_.counted() + owner_.late_counted() > 0;
  Delta delta = averages_.take_delta();
  ExchangeReport& report = end.report;
  report.initiated = true;
  report.outcome = end.whole ? ExchangeOutcome::kDone : any ? ExchangeOutcome::kLate : ExchangeOutcome::kFailed;
  report.blocks_mixed = any ? static_cast<uint32_t>(count_bits(delta.blocks)) : 0;
  report.blocks_total = static_cast<uint32_t>(layout_.blocks.size());
  report.payload_bytes_sent = streams_.take_bytes_sent();
  report.payload_bytes_received = streams_.take_bytes_received();
  if (report.outcome != ExchangeOutcome::kFailed) report.distance = averages_.distance(options_.param_blocks);
  report.peer_round = round_;
  for (size_t rank = 0; rank < members_.count(); ++rank) {
    if (owner_.far(rank) || averages_.far(rank)) report.left_out.push_back(members_.ids[rank]);
  }
  if (any) end.delta = std::move(delta);  // otherwise the averages equal the own blocks
  return end;
}

}  // namespace starling
