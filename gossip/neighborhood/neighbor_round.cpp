#include "gossip/neighborhood/neighbor_round.h"

#include <algorithm>

#include "kernels/check.h"

namespace starling {
namespace {

constexpr int kFirstContact = 5;   // times the shortest deadline: the wait for a neighbor that never sent anything
constexpr double kPaceMin = 0.75;  // a neighbor below it is not waited for
constexpr uint64_t kAheadMax = 2;  // rounds; graphs further away than this are not computed for a sender
constexpr uint64_t kAheadBelieved = 1ull << 32;  // rounds of a neighbor; nobody is cut off for as long

}  // namespace

// An agent behind the upper median of its neighbors' rounds jumps to it. The upper median, because on a ring a chain of
// newcomers has an older neighbor only at its ends and would otherwise never catch up. The agent's count of rounds
// matters for its first round only. One neighbor's claim must not use up all numbers: blocks beyond the largest one are
// ignored. A jump goes half as far as claims are believed, so that neighbors that are some rounds behind can follow.
uint64_t NeighborRound::next_number(uint64_t rounds_of_agent) const {
  const uint64_t own = std::max(number_ > 0 ? number_ + 1 : rounds_of_agent, uint64_t{1});
  std::vector<uint64_t> seen;
  for (const auto& [peer, link] : links_) {
    if (link.peer_round() > 0 && link.peer_round() <= own + kAheadBelieved) seen.push_back(link.peer_round());
  }
  std::sort(seen.begin(), seen.end());
  const uint64_t median = seen.empty() ? 0 : seen[seen.size() / 2];
  return std::max(own, std::min(median, own + kAheadBelieved / 2));
}

bool NeighborRound::begin(const Snapshot& own) {
  STARLING_CHECK(!open_);
  number_ = next_number(own.round);
  nearby_.clear();
  for (auto& [peer, link] : links_) link.cancel();
  neighbors_ = sampler_.neighbors(number_);
  if (neighbors_.empty()) return false;  // alone, or without a partner in this round's graph
  const TimePoint now = clock_.now();
  open_ = true;
  began_at_ = now;
  for (const Participant& neighbor : neighbors_) make_link(neighbor.peer).begin_round(number_, own.blocks, now);
  std::erase_if(links_, [this](const auto& entry) { return entry.second.unwanted(number_); });
  deadline_ = deadline_now();
  deadline_at_ = now + deadline_;
  first_contact_until_ = now + std::min(deadline_, kFirstContact * options_.deadline_min);
  return true;
}

NeighborLink& NeighborRound::make_link(const PeerId& peer) {
  return links_.try_emplace(peer, options_, block_count_, window_).first->second;
}

NeighborLink* NeighborRound::find(const PeerId& peer) {
  const auto found = links_.find(peer);
  return found == links_.end() ? nullptr : &found->second;
}

NeighborLink* NeighborRound::link_to_sender(const PeerId& peer, uint64_t in_round) {
  if (!is_neighbor(peer, in_round)) return nullptr;
  NeighborLink& link = make_link(peer);
  link.still_wanted(number_);
  return &link;
}

// By this agent's view of the graph of that round. The sender's view may differ for a while after a join or a leave.
bool NeighborRound::is_neighbor(const PeerId& peer, uint64_t in_round) {
  if (links_.contains(peer)) return true;
  const bool near = in_round + kAheadMax >= number_ && in_round <= number_ + kAheadMax;
  const uint64_t of_round = near ? in_round : number_;  // far apart: one of the two is a newcomer
  auto row = nearby_.find(of_round);
  if (row == nearby_.end()) row = nearby_.emplace(of_round, sampler_.neighbors(of_round)).first;
  return std::any_of(row->second.begin(), row->second.end(),
                     [&](const Participant& neighbor) { return neighbor.peer == peer; });
}

// ---- waiting ----

// Of this round's neighbors, without those forgotten since.
std::vector<const NeighborLink*> NeighborRound::known_links() const {
  std::vector<const NeighborLink*> known;
  for (const Participant& neighbor : neighbors_) {
    const auto found = links_.find(neighbor.peer);
    if (found != links_.end()) known.push_back(&found->second);
  }
  return known;
}

// True: every neighbor that keeps pace has sent its payload and taken this agent's. If none keeps pace, the agent waits
// for the best of them: an agent that runs ahead of all its neighbors would cancel each of its payloads half sent.
// It does not wait for a neighbor that has gone silent, and only briefly for one never heard from, which may not know
// this agent yet.
// Agents do not wait for a neighbor of low pace; its last payload counts meanwhile. The deadline alone would let a
// straggler set the pace: other neighbors wait for this agent, so their lateness grows with its own waiting, and their
// lateness in turn lengthens its deadline.
bool NeighborRound::complete() const {
  const std::vector<const NeighborLink*> known = known_links();
  double best = 0;
  for (const NeighborLink* link : known) best = std::max(best, link->pace());
  if (best == 0) return true;
  const bool contact_over = clock_.now() >= first_contact_until_;
  return std::all_of(known.begin(), known.end(), [&](const NeighborLink* link) {
    if (contact_over && !link->heard()) return true;
    if (link->pace() < std::min(best, kPaceMin)) return true;
    return link->fresh() && link->drained();
  });
}

// The lower median of `of` over the neighbors; `otherwise` if there are none.
template <typename Of>
Duration NeighborRound::median(Duration otherwise, const Of& of) const {
  std::vector<Duration> all;
  for (const NeighborLink* link : known_links()) all.push_back(of(link->lateness()));
  if (all.empty()) return otherwise;
  std::sort(all.begin(), all.end());
  return all[(all.size() - 1) / 2];
}

Duration NeighborRound::deadline_now() const {
  return median(options_.deadline_max, [](const AdaptiveDeadline& lateness) { return lateness.current(); });
}

Duration NeighborRound::usual_duration() const {
  return median(Duration::zero(), [](const AdaptiveDeadline& lateness) { return lateness.usual(); });
}

TimePoint NeighborRound::next_deadline() const {
  if (!open_) return TimePoint::max();
  return first_contact_until_ > clock_.now() ? first_contact_until_ : deadline_at_;
}

}  // namespace starling
