#include "gossip/group/group.h"

#include <algorithm>
#include <utility>

#include "gossip/exchange/coefficients.h"
#include "kernels/check.h"

namespace starling {

Group::Group(const GroupOptions& options, double far, const Layout& layout, const Codec& codec, Worker& worker,
             const Clock& clock, Outbox& outbox, PeerSampler& sampler)
    : options_(options),
      layout_(layout),
      sampler_(sampler),
      round_(options, far, layout, codec, worker, clock, outbox, numbers_, outcomes_,
             [this](RoundEnd end) { on_end(std::move(end)); }) {
  STARLING_CHECK(options.deadline_min.count() > 0 && options.deadline_min <= options.deadline_max);
  STARLING_CHECK(codec.linear());
}

void Group::publish(std::shared_ptr<const Snapshot> snapshot) {
  if (snapshot != nullptr) {
    STARLING_CHECK(snapshot->blocks.size() == layout_.blocks.size());
    STARLING_CHECK(mass_is_sane(snapshot->mass));
  }
  snapshot_ = std::move(snapshot);  // an open round keeps the snapshot it began with
}

bool Group::begin() {
  if (snapshot_ == nullptr || under_way()) return false;
  const std::optional<GroupMembers> members = members_now();
  if (!members) return false;
  // The agent's round count is used for the first round only: with overlap it also counts rounds without an exchange.
  const uint64_t own = round() > 0 ? round() + 1 : std::clamp<uint64_t>(snapshot_->round, 1, kRoundMax);
  const uint64_t number = numbers_.next(*members, own);
  numbers_.keep_only(*members);
  early_.keep_only(*members);
  ++counters_.rounds;
  round_.begin(*members, number, snapshot_);
  for (size_t rank = 0; rank < members->count(); ++rank) {
    for (const auto& [block, payload] : early_.take(*members, rank, number)) round_.receive(rank, block, payload);
  }
  round_.stop_waiting_for_those_ahead();
  round_.stop_waiting_for_the_silent();
  return true;
}

void Group::on_end(RoundEnd end) {
  if (end.whole) ++counters_.rounds_whole;
  if (end.delta) decided_.push_back(std::move(*end.delta));
  if (reports_.size() >= kReportsMax) reports_.erase(reports_.begin());
  reports_.push_back(std::move(end.report));
}

void Group::forget(const PeerId& peer, uint64_t) {
  numbers_.forget(peer);
  early_.forget(peer);
  round_.forget(peer);
}

void Group::lost(const PeerId& peer) {
  const std::optional<size_t> rank = round() > 0 ? round_.members().rank_of_other(peer) : std::nullopt;
  if (rank) round_.stop_waiting(*rank);
}

// ---- messages: all of them are hostile until checked ----

void Group::handle(const PeerId& from, uint64_t, const ExchangeMessage& message, const SharedBytes& payload) {
  if (const auto* m = std::get_if<RoundBlock>(&message)) return on_block(from, *m, payload);
  if (const auto* m = std::get_if<RoundCredit>(&message)) return on_credit(from, *m);
  outcomes_.ignore();
}

void Group::on_block(const PeerId& from, const RoundBlock& block, const SharedBytes& payload) {
  const bool sane = block.group != 0 && block.round <= kRoundMax && block.phase <= 1 &&
                    block.index < layout_.blocks.size() && mass_is_sane(block.mass);
  if (!sane) return outcomes_.ignore();
  if (round() == 0 || block.group != round_.members().group) return on_block_of_other_group(from, block, payload);

  const std::optional<size_t> rank = round_.members().rank_of_other(from);
  if (!rank) return outcomes_.ignore();
  numbers_.note(from, block.group, block.round);
  if (block.round > round()) round_.stop_waiting_for_those_ahead();
  round_.take_back_time();
  if (block.round == round()) return round_.receive(*rank, block, payload);
  if (block.round + 1 == round()) return round_.receive_late(*rank, block, payload);
  const bool held = block.round > round() && hold_early(round_.members(), *rank, block, payload);
  if (!held) outcomes_.ignore();
}

// The block may belong to the group of this agent's next round; then it is held.
void Group::on_block_of_other_group(const PeerId& from, const RoundBlock& block, const SharedBytes& payload) {
  const std::optional<GroupMembers> next = members_now();
  if (!next || next->group != block.group) return outcomes_.ignore();
  const std::optional<size_t> rank = next->rank_of_other(from);
  if (!rank || !hold_early(*next, *rank, block, payload)) return outcomes_.ignore();
  numbers_.note(from, block.group, block.round);
  // The sender has begun a round of the new group and sends nothing more of the old one.
  const std::optional<size_t> old_rank = round() > 0 ? round_.members().rank_of_other(from) : std::nullopt;
  if (old_rank) round_.stop_waiting(*old_rank);
}

bool Group::hold_early(const GroupMembers& members, size_t rank, const RoundBlock& block, const SharedBytes& payload) {
  return round_.fits(block, payload) && early_.hold(members, rank, block, payload, round_.window(members));
}

void Group::on_credit(const PeerId& from, const RoundCredit& credit) {
  const bool ours =
      round_.open() && credit.group == round_.members().group && credit.round == round() && credit.phase <= 1;
  const std::optional<size_t> rank = ours ? round_.members().rank_of_other(from) : std::nullopt;
  if (!rank) return outcomes_.ignore();
  round_.on_credit(*rank, credit);
}

// ---- time, and how it stands ----

void Group::tick() { round_.tick(); }
TimePoint Group::next_deadline() const { return round_.next_deadline(); }

ExchangeStatus Group::status() const {
  return {.under_way = under_way(),
          .idle = idle(),
          .in_rounds = true,
          .usual_duration = round_.usual_duration(),
          .block_tally = block_tally()};
}

}  // namespace starling
