#include "gossip/updates/update_messages.h"

#include <algorithm>
#include <utility>

#include "gossip/exchange/coefficients.h"
#include "gossip/exchange/injected_loss.h"
#include "gossip/updates/update_bundles.h"
#include "gossip/updates/update_parts.h"

namespace starling {
namespace {

constexpr uint64_t kRoundsAheadMax = 1 << 16;  // of an entry: longer than anybody is cut off
constexpr size_t kWitnessedFrom = 4;           // members of a roster, from which two must show a split

}  // namespace

UpdateMessages::UpdateMessages(const UpdateGroupOptions& options, const UpdateCodecs& codecs,
                               const UpdateReplicas& replicas, UpdateSlices& slices, UpdateRound& round,
                               UpdateTables& tables, RoundNumbers& numbers, UpdateRefusals& refusals, Worker& worker,
                               const Clock& clock, Outbox& outbox, PeerSampler& sampler,
                               std::function<void(uint32_t slice)> advance)
    : options_(options),
      codecs_(codecs),
      slices_(slices),
      round_(round),
      tables_(tables),
      numbers_(numbers),
      refusals_(refusals),
      outbox_(outbox),
      sampler_(sampler),
      advance_(std::move(advance)),
      heads_(replicas.all().size()),
      ends_(replicas.all().size()),
      donor_(replicas.all(), worker, clock, outbox),
      pulls_(replicas.all().size(), clock, outbox, options.rng_seed) {}

void UpdateMessages::begin_round(std::vector<LogHead> heads) {
  heads_ = std::move(heads);
  const Duration interval = std::max(options_.deadline_min, round_.wait().first_wait() / 4);
  pulls_.begin_round(round_.members(), round_.number(), interval);
  donor_.drop_old_copies();
  for (auto& slice : slices_) {
    slice->begin_round(round_.members().count() >= kWitnessedFrom ? 2 : 1);
    slice->inbox().keep_only(round_.members());
  }
}

void UpdateMessages::handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message,
                            const SharedBytes& payload) {
  tally_.frames += std::holds_alternative<Contribution>(message) || std::holds_alternative<LogEntry>(message) ||
                   std::holds_alternative<UpdateBundle>(message);
  if (const auto* m = std::get_if<Contribution>(&message)) return on_contribution(from, generation, *m, payload);
  if (const auto* m = std::get_if<LogEntry>(&message)) return on_entry(from, *m, payload);
  if (const auto* m = std::get_if<LogPull>(&message)) return on_pull(from, *m);
  if (const auto* m = std::get_if<SliceState>(&message)) return on_state(from, *m, payload);
  if (const auto* m = std::get_if<RoundCredit>(&message)) return on_credit(from, *m);
  if (const auto* m = std::get_if<UpdateBundle>(&message)) return on_bundle(from, generation, *m, payload);
  if (const auto* m = std::get_if<SketchTable>(&message)) return on_tables(from, *m, 3, payload);
  if (const auto* m = std::get_if<SketchRequest>(&message)) return on_tables(from, *m, 4, payload);
  ignore();
}

// A credit of any round tells the round of its sender; one of this round may grant blocks too.
void UpdateMessages::on_credit(const PeerId& from, const RoundCredit& credit) {
  if (credit.group == 0 || credit.round > kUpdateRoundMax || credit.phase > 1) return ignore();
  if (!is_member(from)) return;
  note(from, credit.group, credit.round);
  // After the own end too: another member may still lack entries that were made here.
  if (credit.group != round_.members().group || credit.round != round_.number()) return;
  const std::optional<size_t> rank = round_.members().rank_of_other(from);
  if (rank) round_.streams().on_credit(*rank, credit);
}

// Of the group of the round, or of that of the next one.
bool UpdateMessages::is_member(const PeerId& peer) {
  if (round_.number() > 0 && round_.members().rank_of_other(peer)) return true;
  const std::optional<GroupMembers> next = update_members(sampler_, options_.self);
  if (next && next->rank_of_other(peer)) return true;
  ignore();
  return false;
}

// What no member of this swarm sends, unless it lies or runs another program.
void UpdateMessages::refuse(const PeerId& from, uint64_t UpdateRefusals::* kind) {
  if (!is_member(from)) return;
  ignore();
  refusals_.note(kind, from);
}

bool UpdateMessages::lost(const PeerId& from, uint64_t round, uint32_t slice, uint8_t phase) {
  if (!injected_loss(options_.inject_loss, options_.rng_seed, {round, from, options_.self, slice, phase})) return false;
  ++tally_.injected;
  return true;
}

void UpdateMessages::note(const PeerId& from, uint64_t group, uint64_t round) {
  numbers_.note(from, group, round);
  if (round_.ended()) return;
  if (group != round_.members().group) return look_at_rosters();
  if (round > round_.number()) {
    round_.stop_waiting_for_those_ahead();
    for (uint32_t i = 0; i < slices_.size(); ++i) advance_(i);
  }
  round_.wait().take_back_time();
}

// A member that is in a round of the next roster sends nothing more of this one. Its message may have come before this
// member saw that roster, or before this round began.
void UpdateMessages::look_at_rosters() {
  const GroupMembers& members = round_.members();
  std::optional<GroupMembers> next;
  bool changed = false;
  for (size_t rank = 0; rank < members.count(); ++rank) {
    const uint64_t group = numbers_.group_of(members.ids[rank]);
    if (rank == members.self || group == 0 || group == members.group || round_.has_gone_on(rank)) continue;
    if (!next) next = update_members(sampler_, options_.self);
    if (!next) return;
    if (next->group != group) continue;
    round_.went_on(rank);
    changed = true;
  }
  for (uint32_t i = 0; i < slices_.size() && changed; ++i) advance_(i);
}

void UpdateMessages::tick() {
  pulls_.tick(slices_);
  if (!round_.ended()) look_at_rosters();
}

void UpdateMessages::on_contribution(const PeerId& from, uint64_t generation, const Contribution& message,
                                     const SharedBytes& part) {
  const UpdateCodec* codec = codecs_.of(message.codec);
  const bool sane = message.slice < slices_.size() && message.round <= kUpdateRoundMax && codec != nullptr &&
                    mass_is_sane(message.mass);
  if (!sane) return refuse(from, &UpdateRefusals::payloads);
  if (!is_member(from)) return;
  UpdateSlice& slice = *slices_[message.slice];
  const size_t bytes_max = codec->bytes_max(UpdateRole::kContribution, slice.shape().element_count);
  if (!PartBuffer::fits(message.part, message.parts, part.size, bytes_max)) {
    return refuse(from, &UpdateRefusals::payloads);
  }
  if (lost(from, message.round, message.slice, 0)) return;
  note(from, message.group, message.round);
  round_.note_arrival(from, message.group, message.round, 0, message.slice, message.part, message.parts, part.size);
  hear(from, message.slice, message.head);
  if (slice.inbox().add(from, generation, message, part)) advance_(message.slice);
}

void UpdateMessages::on_bundle(const PeerId& from, uint64_t generation, const UpdateBundle& bundle,
                               const SharedBytes& payload) {
  if (!is_member(from)) return;  // before its payload is copied
  const std::vector<SharedBytes> payloads = payloads_of(bundle, payload);
  size_t i = 0;
  for (const Contribution& contribution : bundle.contributions) {
    on_contribution(from, generation, contribution, payloads[i++]);
  }
  for (const LogEntry& entry : bundle.entries) on_entry(from, entry, payloads[i++]);
}

// A table or a request. `phase`: for injected losses.
template <class Message>
void UpdateMessages::on_tables(const PeerId& from, const Message& message, uint8_t phase, const SharedBytes& part) {
  if (message.slice >= slices_.size() || message.round > kUpdateRoundMax) {
    return refuse(from, &UpdateRefusals::payloads);
  }
  if (!is_member(from)) return;
  if (lost(from, message.round, message.slice, phase)) return;
  note(from, message.group, message.round);
  tables_.receive(from, message, part);
  advance_(message.slice);
}

// A round far ahead is believed of its sender alone. Entries that were pulled are old news.
void UpdateMessages::note_entry(const PeerId& from, const LogEntry& entry) {
  const GroupMembers& members = round_.members();
  if (round_.number() == 0 || entry.group != members.group || entry.round < round_.number()) return;
  const std::optional<size_t> rank = members.rank_of_other(from);
  if (rank && numbers_.seen(members, *rank) < entry.round) note(from, entry.group, entry.round);
}

// Whether an owner may have made it. Members follow the rounds of the log, so one entry of a round that never comes
// would end all logs; and one that a minority made would be a history of its own.
bool UpdateMessages::plausible(const LogEntry& entry) const {
  const GroupMembers& members = round_.members();
  if (round_.number() == 0) return true;
  if (entry.group == members.group && 2 * entry.counted.size() <= members.count()) return false;
  return entry.round <= std::max(round_.number(), numbers_.median(members, round_.number())) + kRoundsAheadMax;
}

void UpdateMessages::on_entry(const PeerId& from, const LogEntry& entry, const SharedBytes& part) {
  const UpdateCodec* codec = codecs_.of(entry.codec);
  if (entry.slice >= slices_.size() || entry.round > kUpdateRoundMax || codec == nullptr) {
    return refuse(from, &UpdateRefusals::entries);
  }
  if (!is_member(from)) return;
  UpdateSlice& slice = *slices_[entry.slice];
  const size_t bytes_max = codec->bytes_max(UpdateRole::kEntry, slice.shape().element_count);
  const bool fits = PartBuffer::fits(entry.part, entry.parts, part.size, bytes_max);
  if (!fits || !plausible(entry)) return refuse(from, &UpdateRefusals::entries);
  if (lost(from, entry.round, entry.slice, 1)) return;
  round_.note_arrival(from, entry.group, entry.round, 1, entry.slice, entry.part, entry.parts, part.size);
  note_entry(from, entry);
  const bool here = !greater(entry.head, slice.log().head());
  if (entry.part == 0) pulls_.came(entry.slice, from, entry.head.length, here);
  if (here) {
    if (goes_on_without(slice, entry)) yield(entry.slice, from);
    return hear(from, entry.slice, entry.head);
  }
  const bool gap = !slice.log().is_next(entry) && !slice.expects(entry.previous);
  slice.claims().note_holder(from, entry.head, round_.number());
  slice.receive(from, entry, part);
  if (gap) hear(from, entry.slice, entry.head);
}

// Whether most members make another log that parted from the own one some entries ago.
bool UpdateMessages::goes_on_without(const UpdateSlice& slice, const LogEntry& entry) const {
  const GroupMembers& members = round_.members();
  const bool most = entry.group == members.group && 2 * entry.counted.size() > members.count();
  return most && slice.log().is_apart(entry.head) && !slice.log().has_recent(entry.previous);
}

// In the round of most members: this one may have been stopped.
bool UpdateMessages::believes(const PeerId& from, UpdateSlice& slice, const LogHead& head) const {
  const GroupMembers& members = round_.members();
  if (round_.number() == 0) return true;
  return slice.believes(from, head, members, std::max(round_.number(), numbers_.median(members, round_.number())));
}

// As an owner it would keep its slice without an entry for its whole turn, and more turns if it is ahead of the others'
// rounds.
bool UpdateMessages::is_alone(const UpdateSlice& slice) const {
  const GroupMembers& members = round_.members();
  return members.count() >= kWitnessedFrom && slice.claims().nobody_shares(members, slice.log());
}

void UpdateMessages::hear(const PeerId& from, uint32_t slice, const LogHead& head) {
  UpdateSlice& of = *slices_[slice];
  if (!believes(from, of, head)) return refuse(from, &UpdateRefusals::heads);
  const LogHead& own = of.log().head();
  if (of.claims().hear(from, head, own, round_.number())) {
    if (!of.full()) pulls_.ask(of, from);
    return of.look_again();
  }
  if (of.claims().sees_split(of.log(), round_.number())) pulls_.tell_all(of);
  if (is_alone(of)) return yield(slice, from);
  // Its holder hears of the own log by the pull, or this member moves to the other one.
  if (!greater(head, of.log().head()) && of.log().is_apart(head)) pulls_.ask(of, from);
}

void UpdateMessages::on_pull(const PeerId& from, const LogPull& pull) {
  if (pull.slice >= slices_.size()) return ignore();
  if (!sampler_.pauses(from) && !is_member(from)) return;
  if (lost(from, round_.number(), pull.slice, 2)) return;
  if (pull.round <= kUpdateRoundMax) note(from, pull.group, pull.round);
  UpdateSlice& slice = *slices_[pull.slice];
  ends_[pull.slice] = pull.head;
  if (!greater(slice.log().head(), pull.head)) {
    if (sampler_.pauses(from)) pulls_.tell(slice, from);
    return hear(from, pull.slice, pull.head);
  }
  if (pull.head.length > 0) {  // else it asks for a whole state, whatever it holds
    (void)slice.claims().hear(from, pull.head, slice.log().head(), round_.number());
    if (is_alone(slice)) yield(pull.slice, from);
    if (slice.claims().sees_split(slice.log(), round_.number())) pulls_.tell_all(slice);
  }
  if (send_after(pull.slice, from, pull.head)) return;
  if (greater(heads_[pull.slice], pull.head)) donor_.give(from, pull, heads_[pull.slice]);
  (void)send_after(pull.slice, from, heads_[pull.slice]);
}

bool UpdateMessages::send_after(uint32_t slice, const PeerId& to, const LogHead& head) {
  std::optional<std::vector<LoggedEntry>> entries = slices_[slice]->log().after(head);
  if (!entries) return false;
  for (LoggedEntry& logged : *entries) {
    logged.entry.parts = parts_of(logged.payload.size);
    for (uint32_t i = 0; i < logged.entry.parts; ++i) {
      logged.entry.part = i;
      outbox_.send(to, logged.entry, part_of(logged.payload, i));
    }
  }
  return true;
}

void UpdateMessages::on_state(const PeerId& from, const SliceState& state, const SharedBytes& block) {
  if (state.slice >= slices_.size()) return refuse(from, &UpdateRefusals::blocks);
  if (!is_member(from)) return;
  if (!believes(from, *slices_[state.slice], state.head)) return refuse(from, &UpdateRefusals::heads);
  UpdateSlice& slice = *slices_[state.slice];
  slice.claims().note_holder(from, state.head, round_.number());
  if (slice.receive(from, state, block)) pulls_.ask_for_witnesses(slice);
}

}  // namespace starling
