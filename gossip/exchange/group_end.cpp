// How a round ends: whom nobody waits for any more, what is decided, what never counted.
#include <algorithm>
#include <cmath>

#include "gossip/exchange/bitmap.h"
#include "gossip/exchange/group_impl.h"
#include "kernels/check.h"

namespace starling {

uint64_t& Group::Impl::count_of(Fate fate) {
  STARLING_CHECK(fate != Fate::kHere);   // it has no fate yet
  switch (fate) {
    case Fate::kCounted: return tally.counted;
    case Fate::kOld: return tally.old;
    case Fate::kLate: return tally.late;
    case Fate::kDead: return tally.dead;
    case Fate::kRefused: return tally.refused;
    case Fate::kInjected: return tally.injected;
    case Fate::kMissing:
    case Fate::kHere: break;
  }
  return tally.missing;
}

// Where its sender's last payload counted, a block stays old, whatever still comes of it, or came before.
void Group::Impl::settle(Fate* fate, Fate value) {
  if (*fate == Fate::kOld) return;
  const bool settled_before = *fate >= Fate::kCounted;
  if (settled_before) --count_of(*fate);
  tally.due += settled_before ? 0 : 1;
  *fate = value;
  ++count_of(value);
}

void Group::Impl::settle(Average& average, Fate value) {
  ++tally.averages_due;
  tally.averages_counted += value == Fate::kCounted ? 1 : 0;
  settle(&average.fate, value);
}

void Group::Impl::try_end() {
  if (!round->ended) {
    const bool over = round->unresolved == 0 || (round->second_over && round->jobs == 0);
    if (!over) return;
    finish();
  }
  if (round->open && (round->second_over || drained())) close();
}

void Group::Impl::finish() {
  Round& r = *round;
  r.ended = true;
  const bool whole = r.counted == r.due;
  const bool any = r.counted[0] + r.counted[1] + r.late_counted > 0;
  if (whole) ++counters.rounds_whole;
  PairDelta delta;
  delta.own.resize(layout.blocks.size());
  delta.peer.resize(layout.blocks.size());
  delta.blocks = make_bitmap(layout.blocks.size());
  delta.coefficient = 1;
  for (size_t i = 0; i < r.averages.size(); ++i) {
    if (r.averages[i].fate != Fate::kCounted) continue;
    set_bit(delta.blocks, i);
    delta.own[i] = r.own->blocks[i];
    delta.peer[i] = std::move(r.averages[i].payload);
  }
  const ExchangeOutcome outcome =
      whole ? ExchangeOutcome::kDone : any ? ExchangeOutcome::kLate : ExchangeOutcome::kFailed;
  report(outcome, any ? static_cast<uint32_t>(count_bits(delta.blocks)) : 0);
  if (any) decided.push_back(std::move(delta));   // else the averages are the own blocks
}

void Group::Impl::report(ExchangeOutcome outcome, uint32_t blocks_mixed) {
  if (reports.size() >= kReportsMax) reports.erase(reports.begin());
  ExchangeReport& report = reports.emplace_back();
  report.initiated = true;
  report.outcome = outcome;
  report.duration = clock.now() - round->begun_at;
  report.blocks_mixed = blocks_mixed;
  report.blocks_total = static_cast<uint32_t>(layout.blocks.size());
  report.payload_bytes_sent = std::exchange(bytes_sent, 0);
  report.payload_bytes_received = std::exchange(bytes_received, 0);
  report.distance = outcome == ExchangeOutcome::kFailed ? -1 : distance();
  report.peer_round = round->number;
}

// rms over the params' elements in the averages that came; negative where these hold no params.
double Group::Impl::distance() const {
  double sum = 0;
  size_t elements = 0;
  for (size_t i = 0; i < std::min(options.param_blocks, layout.blocks.size()); ++i) {
    if (round->averages[i].fate != Fate::kCounted) continue;
    sum += round->averages[i].squared_distance;
    elements += layout.blocks[i].element_count;
  }
  return elements > 0 ? std::sqrt(sum / static_cast<double>(elements)) : -1;
}

bool Group::Impl::drained() const {
  return std::all_of(round->links.begin(), round->links.end(),
                     [](const Link& link) { return link.out[0].drained() && link.out[1].drained(); });
}

// What it still owes is cancelled by not being sent.
void Group::Impl::close() {
  STARLING_CHECK(round->ended && round->jobs == 0);
  round->open = false;
  round->own = nullptr;
  for (Link& link : round->links) link.out = {};
}

// What is still missing now will never count.
void Group::Impl::retire() {
  close();
  for (Owned& owned : round->owned) {
    for (size_t rank = 0; rank < owned.from.size(); ++rank) {
      Contribution& from = owned.from[rank];
      if (rank != round->roster.self && from.fate == Fate::kMissing) settle(from, Fate::kMissing);
    }
  }
  for (Average& average : round->averages) {
    if (average.fate == Fate::kMissing) settle(average, Fate::kMissing);
  }
  round->owned.clear();
  round->averages.clear();
  previous = std::move(round);
  round.reset();
}

void Group::Impl::forget(const PeerId& peer) {
  seen.erase(peer);
  early.erase(peer);
  std::erase_if(late, [&](const auto& entry) { return entry.first.first == peer; });
  if (!round) return;
  const std::optional<size_t> rank = round->roster.rank_of_other(peer);
  if (!rank || round->links[*rank].dead) return;
  round->links[*rank].dead = true;
  round->links[*rank].out = {};
  for (uint32_t index : blocks_of(*rank)) {
    Average& average = round->averages[index];
    if (average.fate == Fate::kMissing) settle(average, Fate::kDead);
  }
  for (Owned& owned : round->owned) {
    Contribution& from = owned.from[*rank];
    if (from.fate == Fate::kMissing) settle(from, Fate::kDead);
  }
  stop_waiting(*rank);
}

// Nothing more is to come from this member in this round; if something comes all the same before the end, it counts.
void Group::Impl::stop_waiting(size_t rank) {
  if (!std::exchange(round->links[rank].waited_for, false)) return;
  const auto open = [](Fate fate) { return fate == Fate::kMissing || fate == Fate::kDead; };
  for (uint32_t index : blocks_of(rank)) {
    if (open(round->averages[index].fate)) --round->unresolved;
  }
  for (Owned& owned : round->owned) {
    if (open(owned.from[rank].fate)) --owned.waits_for;
    average_if_complete(owned);
  }
  try_end();
}

// Who was seen in a later round sends nothing more of this one. Once that is the median, this agent is too late itself:
// the sooner it is with the others again, the better.
void Group::Impl::stop_waiting_for_those_ahead() {
  const bool behind = median_round(round->roster, round->number) > round->number;
  for (size_t rank = 0; rank < round->links.size(); ++rank) {
    if (rank == round->roster.self) continue;
    if (behind || seen_round(round->roster, rank) > round->number) stop_waiting(rank);
  }
}

// Nothing of a whole round has come from it, and nothing of this one yet: perhaps it is dead, and the membership will
// take seconds to be sure. Until it is heard again two deadlines a round would be too much for it.
void Group::Impl::stop_waiting_for_the_silent() {
  for (size_t rank = 0; rank < round->links.size(); ++rank) {
    const uint64_t heard = seen_round(round->roster, rank);
    if (rank != round->roster.self && heard > 0 && heard + 1 < round->number) stop_waiting(rank);
  }
}

}  // namespace starling
