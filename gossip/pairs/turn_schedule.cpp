#include "gossip/pairs/turn_schedule.h"

#include <algorithm>
#include <utility>

#include "gossip/limits.h"

namespace starling {
namespace {

constexpr uint64_t kSlotMax = uint64_t{1} << 62;  // a peer that says more says nothing
// Boundaries at once. Without this bound one lie brings all to kSlotMax, and beyond that nobody hears anybody.
constexpr uint64_t kJumpMax = uint64_t{1} << 40;

}  // namespace

uint64_t TurnSchedule::slots_to_mix(size_t agents) {
  uint64_t slots = 1;
  while ((size_t{1} << slots) < agents) ++slots;
  return slots;
}

void TurnSchedule::begin(uint64_t boundaries, uint64_t slots, std::vector<PeerId> others) {
  ids_ = std::move(others);
  const auto place = ids_.insert(std::lower_bound(ids_.begin(), ids_.end(), self_), self_);
  own_ = static_cast<size_t>(place - ids_.begin());
  slots_ = std::min(slots, kSlotsMax);
  if (boundary_ + boundaries < ahead_) asked_ = late_ = bad_windows_ = 0;
  boundary_ = std::max(boundary_ + boundaries, ahead_);
  std::erase_if(settled_, [this](uint64_t slot) { return slot / kSlots < boundary_; });
  on_ = !pauses() && !most_pause();
  next_ = on_ ? 0 : slots_;
  rested_ = 0;
  skip_closed();
}

std::optional<PeerId> TurnSchedule::partner_in(uint64_t slot) const {
  const uint64_t agents = ids_.size(), cycle = slots_to_mix(agents);
  const uint64_t turn = slot / kSlots * slots_ + slot % kSlots;
  const uint64_t sum = (uint64_t{2} << turn % cycle) - 1 + turn / cycle * 2;
  const uint64_t other = (sum % agents + agents - own_) % agents;
  return other == own_ ? std::nullopt : std::optional(ids_[other]);
}

// Who is behind would be told BUSY, since its partners are in later slots, and fall further behind.
std::optional<PeerId> TurnSchedule::meets_in(uint64_t slot) const {
  if (boundary_ < ahead_) return std::nullopt;
  const std::optional<PeerId> partner = partner_in(slot);
  return partner && barred(not_asked_, *partner) ? std::nullopt : partner;
}

bool TurnSchedule::barred(const std::map<PeerId, Barred>& rows, const PeerId& peer) const {
  const auto it = rows.find(peer);
  return it != rows.end() && boundary_ < it->second.until;
}

uint64_t TurnSchedule::slot() const { return boundary_ * kSlots + (pauses() ? kPauses : std::min(next_, slots_ - 1)); }

uint64_t TurnSchedule::open() const {
  uint64_t open = 0;
  for (uint64_t which = next_; which < slots_; ++which) {
    const uint64_t slot = boundary_ * kSlots + which;
    open += !settled_.contains(slot) && meets_in(slot);
  }
  return open;
}

uint64_t TurnSchedule::rests() const {
  uint64_t rests = rested_;
  for (uint64_t which = 0; on_ && which < slots_; ++which) rests += !meets_in(boundary_ * kSlots + which);
  return rests;
}

std::optional<PeerId> TurnSchedule::partner() const { return open() == 0 ? std::nullopt : partner_in(slot()); }

void TurnSchedule::tried() {
  ++next_;
  skip_closed();
}

void TurnSchedule::rest() {
  ++rested_;
  tried();
}

void TurnSchedule::skip_closed() {
  while (next_ < slots_ && (settled_.contains(slot()) || !meets_in(slot()))) ++next_;
}

uint64_t TurnSchedule::ahead() const {
  return static_cast<uint64_t>(
      std::count_if(settled_.begin(), settled_.end(), [this](uint64_t slot) { return slot / kSlots > boundary_; }));
}

bool TurnSchedule::expects(const PeerId& peer, uint64_t slot) const {
  const uint64_t boundary = slot / kSlots;
  const bool near = boundary == boundary_ || boundary == std::max(boundary_ + 1, ahead_);
  return near && !settled_.contains(slot) && reckons_alike(peer, slot) && !barred(not_expected_, peer);
}

bool TurnSchedule::reckons_alike(const PeerId& peer, uint64_t slot) const {
  return ids_.size() > 1 && slot % kSlots < slots_ && partner_in(slot) == peer;
}

void TurnSchedule::mixed(const PeerId& peer, uint64_t slot) {
  if (!expects(peer, slot)) return;
  settled_.insert(slot);
  skip_closed();
}

// ---- counting alike ----

// Who is one boundary ahead waits for this agent, which is late.
void TurnSchedule::heard(const PeerId& peer, uint64_t slot) {
  const uint64_t boundary = slot / kSlots;
  if (pausing_.size() >= kMembersMax) pausing_.clear();
  if (slot % kSlots == kPauses)
    pausing_[peer] = (boundary / kHeldTrue + 1) * kHeldTrue;
  else
    pausing_.erase(peer);
  const uint64_t here = std::max(boundary_ + 1, ahead_);
  if (boundary <= here || slot >= kSlotMax || !may_move(peer)) return;
  if (moved_.size() >= kMembersMax) moved_.clear();
  ++moved_[peer];
  ahead_ = std::min(boundary, here + kJumpMax);
  skip_closed();
}

// Not more than kMovesFree times oftener than the lower median of the other peers did.
bool TurnSchedule::may_move(const PeerId& peer) const {
  std::vector<uint64_t> others;
  uint64_t its = 0;
  for (const PeerId& id : ids_) {
    const auto it = moved_.find(id);
    const uint64_t times = it == moved_.end() ? 0 : it->second;
    if (id == peer) its = times;
    if (id != peer && id != self_) others.push_back(times);
  }
  if (others.empty()) return its < kMovesFree;
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>((others.size() - 1) / 2);
  std::nth_element(others.begin(), middle, others.end());
  return its < kMovesFree + *middle;
}

// ---- where it does not pay ----

void TurnSchedule::answered(bool in_time) {
  late_ += !in_time;
  if (++asked_ < kWindow) return;
  const bool bad = late_ > kLateFree;
  bad_windows_ = bad ? bad_windows_ + 1 : 0;
  if (!bad) doublings_ = 0;
  asked_ = late_ = 0;
  if (bad_windows_ == kBadWindows) pause();
}

bool TurnSchedule::most_pause() const {
  const auto says_so = [this](const PeerId& peer) {
    const auto it = pausing_.find(peer);
    return it != pausing_.end() && boundary_ < it->second;
  };
  return 2 * static_cast<size_t>(std::count_if(ids_.begin(), ids_.end(), says_so)) >= ids_.size();
}

void TurnSchedule::came_to_nothing() { ++rested_; }

// For as many boundaries as there are agents, then eight times as many, and so on. Its exchanges and ours apart: one
// that never votes would clear itself by what it proposes. Who does it again and again explains why others were late:
// they waited for whoever waited for it, which is over now. Lost frames hardly ever do it to one peer three times in a
// row.
void TurnSchedule::ended(const PeerId& peer, bool initiated, bool decided, bool untried) {
  std::map<PeerId, Barred>& rows = initiated ? not_asked_ : not_expected_;
  if (decided) {
    rows.erase(peer);
    return;
  }
  if (rows.size() >= kMembersMax) rows.clear();
  Barred& one = rows[peer];
  if (untried) one.times = std::max(one.times, kExplains);
  one.until = boundary_ + (ids_.size() << 3 * one.times);
  if (one.times >= kExplains) asked_ = late_ = bad_windows_ = 0;
  one.times = std::min(one.times + 1, kBarredMax);
}

// All that count alike begin again at the same boundary.
void TurnSchedule::pause() {
  const uint64_t boundaries = kPause << doublings_;
  paused_until_ = (boundary_ / boundaries + 1) * boundaries;
  doublings_ = std::min(doublings_ + 1, kDoublingsMax);
  bad_windows_ = 0;
}

}  // namespace starling
