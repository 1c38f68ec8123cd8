// What each piece of news does to the table. A member's state at one version only ever worsens (alive,
// suspect, dead, left); only a newer version, made by its owner, betters it. Therefore the order of arrival
// does not matter.
#include <algorithm>
#include <cmath>

#include "gossip/limits.h"
#include "gossip/membership/membership_impl.h"
#include "gossip/membership/suspicion.h"

namespace starling {

MemberEntry* Membership::Impl::find(const PeerId& peer) {
  const auto it = table.find(peer);
  return it == table.end() ? nullptr : &it->second;
}

bool Membership::Impl::is_live(const PeerId& peer) const {
  const auto it = table.find(peer);
  return it != table.end() && it->second.member.state <= MemberState::kSuspect;
}

// The one place where a record is judged before it is believed: here its signature will be checked. Until
// then a record proves nothing about who made it; the bounds only keep a single one from shutting its subject
// out for ever.
bool Membership::Impl::verify_record(const PeerRecord& record, const MemberEntry* held) {
  const Version& version = record.version;
  bool ok = !record.id.is_zero() && record.endpoint.port != 0 &&
            Endpoint::is_valid_host(record.endpoint.host) && record.meta.name.size() <= kNameBytesMax &&
            std::isfinite(record.meta.mass) && record.meta.mass > 0;
  ok = ok && version.incarnation <= kIncarnationMax;
  uint64_t known_generation = self.version.generation;
  if (held) {
    const Version& known = held->member.record.version;
    known_generation = std::max(known_generation, known.generation);
    ok = ok && (version.generation != known.generation || version.incarnation <= known.incarnation ||
                version.incarnation - known.incarnation <= kIncarnationJumpMax);
  }
  ok = ok && (version.generation <= known_generation ||
              version.generation - known_generation <= kGenerationJumpMax);
  if (!ok) ++counters.updates_refused;
  return ok;
}

void Membership::Impl::change_state(MemberEntry& entry, MemberState state) {
  const auto count_of = [this](MemberState s) -> size_t& {
    return s <= MemberState::kSuspect ? live_count : s == MemberState::kDead ? dead_count : left_count;
  };
  const PeerId& id = entry.member.record.id;
  const bool was_live = entry.member.state <= MemberState::kSuspect;
  --count_of(entry.member.state);
  ++count_of(state);
  if (state == MemberState::kSuspect) {
    suspects.insert(id);
  } else {
    suspects.erase(id);
    entry.accusers.clear();
  }
  entry.member.state = state;
  alive_changed = true;
  entry.member.since = clock.now();
  if (state <= MemberState::kSuspect && !was_live) insert_into_probe_order(id);
}

void Membership::Impl::on_alive(const PeerRecord& record, Source source) {
  if (record.id == self.id) return on_own_record(record);
  MemberEntry* entry = find(record.id);
  if (!verify_record(record, entry)) return;
  const bool urgent = source != Source::kSync;
  const bool was_live = entry && entry->member.state <= MemberState::kSuspect;
  if (!was_live && member_count() >= kMembersMax &&
      (!entry || record.version > entry->member.record.version)) {
    ++counters.table_full;
    return;
  }
  if (!entry) {
    if (live_count == 0) {  // whom else does it know?
      heal_soon();
      next_heal = std::min(next_heal, clock.now());
    }
    MemberEntry& added = table[record.id];
    added.member.record = record;
    added.member.since = clock.now();
    ++live_count;
    alive_changed = true;
    insert_into_probe_order(record.id);
    queue.put_alive(record, urgent);
    events.push_back({MemberEventKind::kJoined, record.id});
    return;
  }
  const Version held = entry->member.record.version;
  if (record.version <= held) {
    if (entry->member.state != MemberState::kAlive || record.version < held) answer_about(*entry);
    return;
  }
  const MemberState before = entry->member.state;
  const bool restarted = record.version.generation > held.generation;
  entry->member.record = record;
  if (restarted) {
    entry->round_trip_s = entry->round_trip_deviation_s = 0;
    entry->member.round_trip = Duration{};
    entry->heard = TimePoint{};
  }
  if (before == MemberState::kSuspect && !restarted) ++counters.false_suspicions;
  if (before != MemberState::kAlive) change_state(*entry, MemberState::kAlive);
  if (restarted) {
    entry->member.since = clock.now();
    events.push_back({MemberEventKind::kRestarted, record.id});
  } else if (before != MemberState::kAlive) {
    events.push_back({MemberEventKind::kAliveAgain, record.id});
  }
  if (before == MemberState::kDead) heal_soon();
  queue.put_alive(record, restarted || before != MemberState::kAlive);
}

// Somebody passes on a record of ours.
void Membership::Impl::on_own_record(const PeerRecord& record) {
  if (record.version.generation > self.version.generation) {
    ++counters.identity_clashes;  // ours is not the only process with this key, or somebody lies
    return;
  }
  if (record.version.generation < self.version.generation || record.version < self.version) {
    answer_with_self = true;
    return;
  }
  if (record.version == self.version) return;
  // Not ours, though of our generation: forged. Overtake it, as long as that leaves room for further
  // refutations.
  ++counters.updates_refused;
  const uint32_t jump = record.version.incarnation - self.version.incarnation;
  if (leaving || record.version.incarnation > kIncarnationMax || jump > kIncarnationJumpMax) return;
  self.version.incarnation = record.version.incarnation;
  refute();
}

// Tells the sender of the message being handled what we hold; its news are older than that. With many members
// passing on the same old news this is needed only now and then.
void Membership::Impl::answer_about(MemberEntry& entry) {
  const TimePoint now = clock.now();
  if (entry.told != TimePoint{} && now - entry.told < options.probe_interval) return;
  entry.told = now;
  const PeerRecord& record = entry.member.record;
  switch (entry.member.state) {
    case MemberState::kAlive: answers.alive.push_back(record); break;
    case MemberState::kSuspect:
      answers.alive.push_back(record);
      answers.suspect.push_back({record.id, record.version, entry.accusers.front()});
      break;
    case MemberState::kDead:  // our own verdict: we answer for it ourselves
      answers.alive.push_back(record);
      answers.suspect.push_back({record.id, record.version, self.id});
      break;
    case MemberState::kLeft: answers.left.push_back(record); break;
  }
}

void Membership::Impl::on_suspect(const Suspicion& suspicion) {
  if (suspicion.subject == self.id) {
    if (suspicion.version > self.version) {
      ++counters.updates_refused;  // nobody can have seen what we never announced
    } else if (suspicion.version < self.version) {
      answer_with_self = true;
    } else if (suspicion.accuser == self.id) {
      ++counters.updates_refused;
    } else {
      refute();
    }
    return;
  }
  if (suspicion.accuser == suspicion.subject || suspicion.accuser == self.id) {
    ++counters.updates_refused;
    return;
  }
  MemberEntry* entry = find(suspicion.subject);
  // An accusation cannot reach beyond what the owner announced: without the record it waits until we have
  // that.
  if (!entry || suspicion.version > entry->member.record.version) {
    wants.push_back({suspicion.subject, entry ? entry->member.record.version : Version{},
                     static_cast<uint8_t>(entry ? entry->member.state : MemberState::kAlive)});
    return;
  }
  if (suspicion.version < entry->member.record.version) return answer_about(*entry);
  if (entry->member.state >= MemberState::kDead) return;
  if (!is_live(suspicion.accuser)) {
    ++counters.updates_refused;  // the dead accuse nobody, and neither do strangers
    return;
  }
  accuse(*entry, suspicion.accuser);
}

// REQUIRES: the entry is alive or suspect.
void Membership::Impl::accuse(MemberEntry& entry, const PeerId& accuser) {
  const PeerRecord& record = entry.member.record;
  const bool is_new = entry.member.state == MemberState::kAlive;
  if (is_new) {
    change_state(entry, MemberState::kSuspect);
    entry.suspicion_members = member_count();
    entry.suspicion_began = clock.now();
    events.push_back({MemberEventKind::kSuspected, record.id});
    probe_soon(record.id);
  }
  const uint32_t wanted = confirmations_wanted(options.suspicion, entry.suspicion_members);
  if (entry.accusers.size() > wanted) return;
  if (std::find(entry.accusers.begin(), entry.accusers.end(), accuser) != entry.accusers.end()) return;
  entry.accusers.push_back(accuser);
  const auto confirmations = static_cast<uint32_t>(entry.accusers.size() - 1);
  const Duration lasts = suspicion_timeout(options.suspicion, options.probe_interval,
                                           entry.suspicion_members, confirmations);
  entry.suspicion_ends = std::max(clock.now(), entry.suspicion_began + lasts);
  queue.put_suspect({record.id, record.version, accuser});
}

// Without signatures anybody could say that a third member left; so hearsay counts only for the very version
// that we hold, and the subject, if it is still there, takes it back with its next version.
void Membership::Impl::on_left(const PeerRecord& record, const PeerId& from) {
  if (record.id == self.id) {
    if (!leaving && record.version == self.version) refute();
    if (!leaving && record.version < self.version) answer_with_self = true;
    return;
  }
  MemberEntry* entry = find(record.id);
  if (!entry) return;
  const bool acceptable = record.id == from ? record.version >= entry->member.record.version
                                            : record.version == entry->member.record.version;
  if (!acceptable || !verify_record(record, entry)) {
    if (record.version < entry->member.record.version) answer_about(*entry);
    return;
  }
  if (record.version > entry->member.record.version) entry->member.record = record;
  if (entry->member.state != MemberState::kLeft) mark_left(*entry);
}

void Membership::Impl::mark_left(MemberEntry& entry) {
  change_state(entry, MemberState::kLeft);
  queue.put_left(entry.member.record);
  events.push_back({MemberEventKind::kLeft, entry.member.record.id});
}

void Membership::Impl::refute() {
  if (leaving || self.version.incarnation >= kIncarnationMax) return;
  ++counters.refutations;
  change_health(+1);
  announce_self(true);
  answer_with_self = true;
}

void Membership::Impl::announce_self(bool urgent) {
  ++self.version.incarnation;
  if (pending_meta) self.meta = *std::exchange(pending_meta, std::nullopt);
  announced = clock.now();
  queue.put_alive(self, urgent);
}

void Membership::Impl::expire_suspicions() {
  const TimePoint now = clock.now();
  const std::vector<PeerId> due(suspects.begin(), suspects.end());
  for (const PeerId& peer : due) {
    MemberEntry& entry = *find(peer);
    if (entry.suspicion_ends > now) continue;
    if (entry.heard != TimePoint{} && now - entry.heard < 2 * options.probe_interval) {
      // It talks to us all the time: the accusation has not reached it. Say it ourselves, and wait once more.
      entry.suspicion_ends = now + suspicion_timeout(options.suspicion, options.probe_interval, 1, 0);
      answer_about(entry);
      flush_answers(peer);
      continue;
    }
    change_state(entry, MemberState::kDead);
    queue.erase(peer);
    events.push_back({MemberEventKind::kDied, peer});
  }
}

void Membership::Impl::reap_tombstones() {
  const TimePoint now = clock.now();
  std::vector<std::pair<TimePoint, PeerId>> kept;
  std::erase_if(table, [&](const auto& row) {
    const Member& member = row.second.member;
    if (member.state <= MemberState::kSuspect) return false;
    const bool expired = now - member.since > options.tombstone_life;
    if (expired) --(member.state == MemberState::kDead ? dead_count : left_count);
    if (!expired) kept.emplace_back(member.since, row.first);
    return expired;
  });
  if (kept.size() <= kTombstonesMax) return;
  std::sort(kept.begin(), kept.end());
  for (size_t i = 0; i + kTombstonesMax < kept.size(); ++i) {
    --(find(kept[i].second)->member.state == MemberState::kDead ? dead_count : left_count);
    table.erase(kept[i].second);
    ++counters.table_full;
  }
}

}  // namespace starling
