#include "gossip/membership/member_table.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "gossip/limits.h"

namespace starling {
namespace {

// Every subset, in every order, is equally likely. Floyd's algorithm (1987) does not walk over the whole pool.
void choose(Rng& rng, const std::vector<const Member*>& pool, const PeerId& except, size_t count_max,
            std::vector<PeerId>& chosen) {
  const size_t count = std::min(count_max - chosen.size() + 1, pool.size());  // one of them may be `except`
  std::vector<size_t> places;
  for (size_t last = pool.size() - count; last < pool.size(); ++last) {
    const size_t place = rng.below(static_cast<uint32_t>(last + 1));
    const bool taken = std::find(places.begin(), places.end(), place) != places.end();
    places.push_back(taken ? last : place);
  }
  rng.shuffle(places);
  for (const size_t place : places) {
    const PeerId& peer = pool[place]->record.id;
    if (peer != except && chosen.size() < count_max) chosen.push_back(peer);
  }
}

bool comes_before(const Member* member, const PeerId& id) { return member->record.id < id; }

void insert(std::vector<const Member*>& members, const Member& member) {
  members.insert(std::lower_bound(members.begin(), members.end(), member.record.id, comes_before), &member);
}

void erase(std::vector<const Member*>& members, const Member& member) {
  const auto place = std::lower_bound(members.begin(), members.end(), member.record.id, comes_before);
  if (place != members.end() && *place == &member) members.erase(place);
}

}  // namespace

void RoundTrip::add(Duration sample) {
  const double sample_s = std::max(1e-9, seconds(sample));
  if (mean_s_ <= 0) {
    mean_s_ = sample_s;
    deviation_s_ = sample_s / 2;
    return;
  }
  const double error_s = sample_s - mean_s_;
  mean_s_ += error_s / 8;
  deviation_s_ += (std::abs(error_s) - deviation_s_) / 4;
}

Duration RoundTrip::mean() const { return from_seconds(mean_s_); }

Duration RoundTrip::patience(Duration timeout) const {
  if (mean_s_ <= 0) return timeout;
  return std::clamp(from_seconds(mean_s_ + 4 * deviation_s_), timeout * 3 / 5, timeout);
}

MemberEntry* MemberTable::find(const PeerId& peer) {
  if (last_found_ && last_found_->member.record.id == peer) return last_found_;
  const auto row = rows_.find(peer);
  if (row == rows_.end()) return nullptr;
  return last_found_ = &row->second;
}

bool MemberTable::is_live(const PeerId& peer) const {
  const auto row = rows_.find(peer);
  return row != rows_.end() && row->second.member.state <= MemberState::kSuspect;
}

const std::vector<const Member*>& MemberTable::alive() {
  if (std::exchange(alive_changed_, false)) {
    alive_.clear();
    proven_.clear();
    unproven_.clear();
    for (const auto& [peer, entry] : rows_) {
      if (entry.member.state != MemberState::kAlive) continue;
      alive_.push_back(&entry.member);
      (entry.member.proven ? proven_ : unproven_).push_back(&entry.member);
    }
  }
  return alive_;
}

const std::vector<const Member*>& MemberTable::proven() {
  alive();
  return proven_;
}

const std::vector<const Member*>& MemberTable::unproven() {
  alive();
  return unproven_;
}

void MemberTable::prove(MemberEntry& entry) {
  if (!entry.member.proven && !alive_changed_ && entry.member.state == MemberState::kAlive) {
    erase(unproven_, entry.member);
    insert(proven_, entry.member);
  }
  entry.member.proven = entry.member.ever_answered = true;
  entry.member.unanswered = entry.asked = 0;
}

void MemberTable::miss(MemberEntry& entry) {
  if (entry.member.unanswered++ == 0) entry.member.unanswered_since = clock_.now();
}

void MemberTable::doubt(MemberEntry& entry) {
  alive_changed_ |= entry.member.proven;
  entry.member.proven = false;
  entry.member.unanswered = 0;
}

MemberEntry* MemberTable::unheard() {
  const auto row = std::find_if(rows_.begin(), rows_.end(), [](const auto& row) {
    const Member& member = row.second.member;
    return member.state <= MemberState::kSuspect && !member.ever_answered && row.second.heard == TimePoint{};
  });
  return row == rows_.end() ? nullptr : &row->second;
}

std::vector<PeerId> MemberTable::random_members(Rng& rng, size_t count_max, const PeerId& except, bool with_suspects) {
  alive();
  std::vector<const Member*> suspects[2];  // proven or not
  for (const PeerId& peer : suspects_) {
    const Member& member = find(peer)->member;
    if (with_suspects) suspects[member.proven].push_back(&member);
  }
  std::vector<PeerId> chosen;
  for (const bool proven : {true, false}) {
    if (chosen.size() == count_max) break;
    const std::vector<const Member*>& some = proven ? proven_ : unproven_;
    std::vector<const Member*>& all = suspects[proven];
    if (all.empty()) {
      choose(rng, some, except, count_max, chosen);
    } else {
      all.insert(all.begin(), some.begin(), some.end());
      choose(rng, all, except, count_max, chosen);
    }
  }
  return chosen;
}

size_t& MemberTable::count_of(MemberState state) {
  if (state <= MemberState::kSuspect) return live_count_;
  return state == MemberState::kDead ? dead_count_ : left_count_;
}

MemberEntry& MemberTable::add(const PeerRecord& record) {
  MemberEntry& added = rows_[record.id];
  added.member.record = record;
  added.member.since = added.grows_since = clock_.now();
  added.grows_from = record.version.incarnation;
  ++live_count_;
  if (alive_changed_) return added;
  insert(alive_, added.member);
  insert(unproven_, added.member);
  return added;
}

void MemberTable::change_state(MemberEntry& entry, MemberState state) {
  const PeerId& id = entry.member.record.id;
  --count_of(entry.member.state);
  ++count_of(state);
  if (state == MemberState::kSuspect) {
    suspects_.insert(id);
  } else {
    suspects_.erase(id);
    entry.accusers.clear();
  }
  entry.member.state = state;
  entry.member.since = clock_.now();
  alive_changed_ = true;
}

TimePoint MemberTable::next_suspicion_end() const {
  TimePoint next = TimePoint::max();
  for (const PeerId& peer : suspects_) next = std::min(next, rows_.at(peer).suspicion_ends);
  return next;
}

void MemberTable::postpone_suspicions(Duration by) {
  for (const PeerId& peer : suspects_) {
    MemberEntry& entry = rows_.at(peer);
    entry.suspicion_began += by;
    entry.suspicion_ends += by;
  }
}

MemberTable::Reaped MemberTable::reap_tombstones(Duration life) {
  const TimePoint now = clock_.now();
  Reaped reaped;
  last_found_ = nullptr;
  std::vector<std::pair<TimePoint, PeerId>> kept;
  std::erase_if(rows_, [&](const auto& row) {
    const Member& member = row.second.member;
    if (member.state <= MemberState::kSuspect) return false;
    const bool expired = now - member.since > life;
    if (!expired) {
      kept.emplace_back(member.since, row.first);
      return false;
    }
    --count_of(member.state);
    reaped.peers.push_back(row.first);
    return true;
  });
  if (kept.size() <= kTombstonesMax) return reaped;
  std::sort(kept.begin(), kept.end());
  reaped.excess = kept.size() - kTombstonesMax;
  for (size_t i = 0; i < reaped.excess; ++i) {
    const auto row = rows_.find(kept[i].second);
    --count_of(row->second.member.state);
    rows_.erase(row);
    reaped.peers.push_back(kept[i].second);
  }
  return reaped;
}

}  // namespace starling
