// What arrives: blocks of this round, too early and too late ones, and credits. All of it is hostile until checked.
#include <algorithm>
#include <cstring>

#include "gossip/exchange/group_impl.h"
#include "gossip/exchange/weight.h"
#include "gossip/net/hash.h"

namespace starling {

void Group::Impl::handle(const PeerId& from, const ExchangeMessage& message, const SharedBytes& payload) {
  if (const auto* m = std::get_if<RoundBlock>(&message)) return on_block(from, *m, payload);
  if (const auto* m = std::get_if<RoundCredit>(&message)) return on_credit(from, *m);
  ignore();
}

void Group::Impl::on_block(const PeerId& from, const RoundBlock& block, const SharedBytes& payload) {
  const bool sane = block.group != 0 && block.round <= kRoundMax && block.phase <= 1 &&
                    block.index < layout.blocks.size() && mass_is_sane(block.mass);
  if (!sane) return ignore();

  if (!round || block.group != round->roster.group) {   // perhaps the list that this agent will begin with next
    const std::optional<Roster> next = make_roster();
    if (!next || next->group != block.group) return ignore();
    const std::optional<size_t> rank = next->rank_of_other(from);
    if (!rank || !hold_early(*next, *rank, block, payload)) return ignore();
    note_round(from, block);
    // It has begun with the new list and sends nothing more by the old one.
    const std::optional<size_t> old_rank = round ? round->roster.rank_of_other(from) : std::nullopt;
    if (old_rank) stop_waiting(*old_rank);
    return;
  }

  const std::optional<size_t> rank = round->roster.rank_of_other(from);
  if (!rank) return ignore();
  note_round(from, block);
  if (block.round > round->number) stop_waiting_for_those_ahead();
  take_back_time();
  if (block.round == round->number) return receive(*rank, block, payload, clock.now() - round->begun_at);
  if (block.round + 1 == round->number) return receive_previous(*rank, block, payload);
  const bool held = block.round > round->number && hold_early(round->roster, *rank, block, payload);
  if (!held) ignore();
}

// One less is an older frame that was overtaken; much less is a member that fell back.
void Group::Impl::note_round(const PeerId& from, const RoundBlock& block) {
  Seen& newest = seen[from];
  if (newest.group != block.group || newest.round != block.round + 1) newest = {block.group, block.round};
}

// ---- too early ----

// Of each sender the newest round, however far ahead: a slow member jumps there when it begins, and needs what came.
// One less is an older frame, much less a member that fell back. A newer copy replaces an older one: a fast agent that
// begins the same round again says its newer word. False: no honest sender would have sent it yet.
bool Group::Impl::hold_early(const Roster& roster, size_t rank, const RoundBlock& block, const SharedBytes& payload) {
  const bool contribution = block.phase == 0;
  if (roster.owner(block.index, block.round) != (contribution ? roster.self : rank)) return false;
  if (payload.size > payload_bytes_max[block.index]) return false;
  const uint32_t window = stream_window(largest_payload * (roster.count() - 1));
  if (block.index / roster.count() >= window) return false;   // its ordinal in the stream: not without a credit

  Early& held = early[roster.members[rank]];
  const bool fell_back = held.round > block.round + 1;
  if (held.group != block.group || held.round < block.round || fell_back) held = Early{block.group, block.round, {}};
  if (held.round > block.round) return false;
  return held.blocks.insert_or_assign({block.phase, block.index}, std::pair(block, payload)).second;
}

void Group::Impl::take_early() {
  for (size_t rank = 0; rank < round->roster.count(); ++rank) {
    const auto it = early.find(round->roster.members[rank]);
    if (it == early.end()) continue;
    const Early& held = it->second;
    if (held.group == round->roster.group && held.round > round->number) continue;   // still too early
    const Early taken = std::move(it->second);
    early.erase(it);
    if (taken.group != round->roster.group || taken.round != round->number) continue;
    for (const auto& [key, item] : taken.blocks) receive(rank, item.first, item.second, Duration(0));
  }
}

// ---- this round ----

void Group::Impl::receive(size_t rank, const RoundBlock& block, const SharedBytes& payload, Duration after) {
  const bool contribution = block.phase == 0;
  const size_t n = round->roster.count();
  const uint32_t counted_by_owner = 1u << rank;
  const bool plausible = contribution ? block.counted == 0
                                      : block.counted >> n == 0 && (block.counted & counted_by_owner) != 0;
  Link& link = round->links[rank];
  // Dead, or a block that is not for this agent, or the second time.
  if (link.dead || !plausible || !link.in[block.phase].arrived(block.index)) return ignore();
  ++round->arrived[block.phase];
  deadlines[block.phase].arrived(after);
  bytes_received += payload.size;
  if (contribution) {
    receive_contribution(rank, block, payload);
  } else {
    receive_average(rank, block, payload);
  }
  const bool useful = contribution ? !round->first_over : !round->ended;
  if (!round->open || !useful) return;
  if (const std::optional<uint32_t> credit = link.in[block.phase].next_credit()) {
    send_credit(rank, block.phase, *credit);
  }
}

void Group::Impl::receive_contribution(size_t rank, const RoundBlock& block, const SharedBytes& payload) {
  Owned& owned = owned_block(block.index);
  Contribution& contribution = owned.from[rank];
  if (round->links[rank].waited_for) --owned.waits_for;
  if (injected_loss(round->roster.members[rank], block)) {
    settle(contribution, Fate::kInjected);
  } else if (payload.size > payload_bytes_max[block.index]) {
    settle(contribution, Fate::kRefused);
  } else if (owned.started) {
    settle(contribution, Fate::kLate);
    late[{round->roster.members[rank], block.index}] = {block.round, block.mass, payload};
  } else {
    contribution = {Fate::kHere, block.mass, payload};
  }
  average_if_complete(owned);
}

void Group::Impl::receive_average(size_t rank, const RoundBlock& block, const SharedBytes& payload) {
  Average& average = round->averages[block.index];
  const bool in_time = !round->ended && !round->second_over;
  if (injected_loss(round->roster.members[rank], block)) {
    settle(average, Fate::kInjected);
  } else if (payload.size > payload_bytes_max[block.index]) {
    settle(average, Fate::kRefused);
  } else if (!in_time) {
    settle(average, Fate::kLate);
  } else {
    average.fate = Fate::kHere;
    average.payload = payload;
    if (!round->links[rank].waited_for) ++round->unresolved;   // again, until it is judged
    return judge(block.index);
  }
  if (round->links[rank].waited_for) --round->unresolved;
  try_end();
}

// ---- too late ----

// Feeds the deadline, and counts in this round where the sender's own block is missing.
void Group::Impl::receive_previous(size_t rank, const RoundBlock& block, const SharedBytes& payload) {
  const PeerId& from = round->roster.members[rank];
  const bool known = previous && previous->roster.group == block.group && previous->number == block.round &&
                     !round->links[rank].dead && !previous->links[rank].dead;
  if (!known || !previous->links[rank].in[block.phase].arrived(block.index)) return ignore();
  deadlines[block.phase].arrived(clock.now() - previous->begun_at);
  bytes_received += payload.size;
  const bool of_use = block.phase == 0 && round->roster.owner(block.index, round->number) == round->roster.self &&
                      payload.size <= payload_bytes_max[block.index] && !injected_loss(from, block);
  if (!of_use) return ignore();
  const Owned& owned = owned_block(block.index);
  const Fate fate = owned.from[rank].fate;
  if (owned.started || (fate != Fate::kMissing && fate != Fate::kInjected)) return ignore();
  late.try_emplace({from, block.index}, Late{block.round, block.mass, payload});
}

// ---- loss and credits ----

bool Group::Impl::injected_loss(const PeerId& from, const RoundBlock& block) const {
  if (options.inject_loss <= 0) return false;
  std::array<std::byte, 8 + 8 + 32 + 32 + 4 + 1> bytes;
  size_t at = 0;
  const auto put_number = [&](uint64_t value, size_t size) {   // little end first on every machine
    for (size_t i = 0; i < size; ++i) bytes[at++] = static_cast<std::byte>(value >> (8 * i));
  };
  const auto put_id = [&](const PeerId& id) {
    std::memcpy(bytes.data() + at, id.bytes.data(), id.bytes.size());
    at += id.bytes.size();
  };
  put_number(options.rng_seed, 8);
  put_number(block.round, 8);
  put_id(from);
  put_id(options.self);
  put_number(block.index, 4);
  put_number(block.phase, 1);
  return static_cast<double>(xxh3_64(bytes) >> 11) * 0x1.0p-53 < options.inject_loss;
}

void Group::Impl::on_credit(const PeerId& from, const RoundCredit& credit) {
  const bool ours = round && round->open && credit.group == round->roster.group && credit.round == round->number &&
                    credit.phase <= 1;
  const std::optional<size_t> rank = ours ? round->roster.rank_of_other(from) : std::nullopt;
  if (!rank) return ignore();
  round->links[*rank].out[credit.phase].grant(credit.credit);
  pump(*rank, credit.phase);
  try_end();
}

void Group::Impl::pump(size_t rank, uint8_t phase) {
  RoundBlock frame{.group = round->roster.group, .round = round->number, .phase = phase, .mass = round->own->mass};
  round->links[rank].out[phase].pump([&](uint32_t index, const SharedBytes& payload) {
    frame.index = index;
    frame.counted = phase == 0 ? 0 : owned_block(index).counted;
    outbox.send(round->roster.members[rank], frame, payload);
    bytes_sent += payload.size;
  });
}

void Group::Impl::send_credit(size_t rank, uint8_t phase, uint32_t credit) {
  outbox.send(round->roster.members[rank], RoundCredit{round->roster.group, round->number, phase, credit});
}

// The last one may be lost, and blocks wait for it.
void Group::Impl::repeat_credits() {
  const auto waits = [&](const InStream& in) { return !in.complete() && in.expected() > round->window; };
  bool waiting = false;
  for (size_t rank = 0; rank < round->links.size() && !round->ended; ++rank) {
    const Link& link = round->links[rank];
    for (uint8_t phase = round->first_over ? 1 : 0; phase <= 1; ++phase) {
      if (link.dead || !waits(link.in[phase])) continue;
      waiting = true;
      send_credit(rank, phase, link.in[phase].credit());
    }
  }
  const Duration interval = (round->first_at - round->begun_at) / kCreditRepeats;
  round->credit_repeat_at = waiting ? clock.now() + std::max(interval, Duration(1)) : TimePoint::max();
}

}  // namespace starling
