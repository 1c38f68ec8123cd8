// How a round ends: whom nobody waits for any more, what is decided, what never counted.
#include <algorithm>
#include <cmath>

#include "gossip/exchange/bitmap.h"
#include "gossip/exchange/group_impl.h"
#include "kernels/check.h"

namespace starling {

void Group::Impl::settle(Fate* fate, Fate value) {
  *fate = value;
  ++counters.blocks_due;
  switch (value) {
    case Fate::kCounted: ++counters.blocks_counted; break;
    case Fate::kLate: ++counters.lost_late; break;
    case Fate::kMissing: ++counters.lost_missing; break;
    case Fate::kDead: ++counters.lost_dead; break;
    case Fate::kRefused: ++counters.lost_refused; break;
    case Fate::kInjected: ++counters.lost_injected; break;
    case Fate::kHere: STARLING_CHECK(!"a block that is here has no fate yet");
  }
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
      Fate* fate = &owned.from[rank].fate;
      if (rank != round->roster.self && *fate == Fate::kMissing) settle(fate, Fate::kMissing);
    }
  }
  for (Average& average : round->averages) {
    if (average.fate == Fate::kMissing) settle(&average.fate, Fate::kMissing);
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
  for (uint32_t index : round->roster.blocks_of(*rank, layout.blocks.size())) {
    Fate* fate = &round->averages[index].fate;
    if (*fate == Fate::kMissing) settle(fate, Fate::kDead);
  }
  for (Owned& owned : round->owned) {
    Fate* fate = &owned.from[*rank].fate;
    if (*fate == Fate::kMissing) settle(fate, Fate::kDead);
  }
  stop_waiting(*rank);
}

// Nothing more is to come from this member in this round; if something comes all the same before the end, it counts.
void Group::Impl::stop_waiting(size_t rank) {
  if (!std::exchange(round->links[rank].waited_for, false)) return;
  const auto open = [](Fate fate) { return fate == Fate::kMissing || fate == Fate::kDead; };
  for (uint32_t index : round->roster.blocks_of(rank, layout.blocks.size())) {
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

}  // namespace starling
