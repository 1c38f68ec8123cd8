#include "gossip/membership/member_rules.h"

#include <algorithm>
#include <utility>

#include "gossip/limits.h"
#include "gossip/membership/record_check.h"
#include "gossip/membership/suspicion.h"

namespace starling {
namespace {

constexpr size_t kRowsMax = kMembersMax + 2 * kTombstonesMax;  // then tombstones make room at once

// The updates that the message carries; null: its kind carries none.
const Updates* updates_of(const MembershipMessage& message) {
  return std::visit(
      [](const auto& kind) -> const Updates* {
        if constexpr (requires { kind.updates; }) return &kind.updates;
        return nullptr;
      },
      message);
}

}  // namespace

MemberRules::MemberRules(MembershipContext& context, MemberTable& table, const OwnRecord& own, OwnNews& own_news,
                         UpdateQueue& queue, Dissemination& dissemination, ProbeOrder& probe_order,
                         Questions& questions, HealSchedule& heal_schedule)
    : context_(context),
      table_(table),
      own_(own),
      own_news_(own_news),
      queue_(queue),
      dissemination_(dissemination),
      probe_order_(probe_order),
      questions_(questions),
      heal_schedule_(heal_schedule),
      began_(context.clock.now()) {}

std::vector<MemberEvent> MemberRules::take_events() { return std::exchange(events_, {}); }

// A generation is the wall clock of a process's start, which may be wrong by any number of years. Only a forger gains
// by one far ahead of a member that lives: the later of two clocks bounds those, the own one, which began at the own
// generation, and the median member's. A process that began again after its clock had jumped waits until the earlier
// one is found dead.
uint64_t MemberRules::newest_generation() const {
  const auto lasted = std::chrono::duration_cast<std::chrono::milliseconds>(context_.clock.now() - began_).count();
  std::vector<uint64_t> generations;
  for (const auto& [peer, entry] : table_.rows()) {
    if (entry.member.state <= MemberState::kSuspect) generations.push_back(entry.member.record.version.generation);
  }
  const uint64_t own = own_.version().generation + static_cast<uint64_t>(std::max<int64_t>(0, lasted));
  const auto middle = generations.begin() + static_cast<std::ptrdiff_t>((generations.size() - 1) / 2);
  std::nth_element(generations.begin(), middle, generations.end());
  return std::max(own, *middle);
}

// Forged records, one above the other, would take an incarnation out of its owner's reach.
bool MemberRules::grows_within_reach(const PeerRecord& record, MemberEntry& held) {
  const Version& version = held.member.record.version;
  if (record.version.generation != version.generation) return true;
  const TimePoint now = context_.clock.now();
  if (now - held.grows_since >= kGrowthWindow) {
    held.grows_since = now;
    held.grows_from = version.incarnation;
  }
  const uint32_t incarnation = record.version.incarnation;
  return incarnation <= held.grows_from || incarnation - held.grows_from <= kIncarnationJumpMax;
}

bool MemberRules::can_be(const PeerRecord& record, const MemberEntry* held) const {
  return acceptable(record, held ? &held->member.record.version : nullptr);
}

bool MemberRules::believable(const PeerRecord& record, MemberEntry* held) {
  const Version* version = held ? &held->member.record.version : nullptr;
  const bool lives = held && held->member.state <= MemberState::kSuspect;
  if (!can_be(record, held) || (held && !grows_within_reach(record, *held))) {
    ++context_.counters.updates_refused;
    return false;
  }
  if (!lives || record.version.generation <= version->generation || !is_far_ahead(record, newest_generation())) {
    return true;
  }
  ++context_.counters.updates_refused;
  record_ahead_ = record;
  return false;
}

bool MemberRules::introduced(const PeerId& from, const MembershipMessage& message) {
  if (table_.find(from)) return true;
  const Updates* updates = updates_of(message);
  const auto* sync = std::get_if<Sync>(&message);
  const std::vector<PeerRecord>* records = updates ? &updates->alive : sync ? &sync->records : nullptr;
  if (!records) return false;
  for (const PeerRecord& record : *records) {
    if (record.id == from) on_alive(record, Source::kGossip);
  }
  return table_.find(from) != nullptr;
}

void MemberRules::on_updates(const PeerId& from, const MembershipMessage& message) {
  if (const Updates* updates = updates_of(message)) on_updates(from, *updates);
}

void MemberRules::on_updates(const PeerId& from, const Updates& updates) {
  for (const PeerRecord& record : updates.alive) on_alive(record, Source::kGossip);
  for (const Suspicion& suspicion : updates.suspect) on_suspect(suspicion);
  for (const PeerRecord& record : updates.left) on_left(record, from);
}

void MemberRules::on_alive(const PeerRecord& record, Source source) {
  if (record.id == own_.id()) return own_news_.on_record(record);
  if (context_.is_revoked(record.id)) return;
  MemberEntry* entry = table_.find(record.id);
  const bool is_news = !entry || record.version > entry->member.record.version;
  const bool is_full = is_news && table_.member_count() >= kMembersMax && !table_.is_live(record.id);
  // With tickets, a member of which only others speak gives way to one that speaks for itself: a member may invent ids,
  // but only a member can speak.
  MemberEntry* const gives_way = is_full && context_.keys && record.id == context_.from ? table_.unheard() : nullptr;
  const bool has_room = !is_full || gives_way;
  // What is refused anyway costs no check of a signature: it stays news, and may come without end.
  if (is_news && has_room && can_be(record, entry) && !is_genuine(context_, record, false)) return;
  if (!believable(record, entry)) return;
  if (!has_room) {
    ++context_.counters.table_full;
    return;
  }
  if (gives_way) mark_dead(*gives_way);
  if (!entry) {
    if (table_.live_count() == 0) heal_schedule_.at_once();  // the first member met: ask for its whole view
    if (table_.rows().size() >= kRowsMax) reap_tombstones();
    table_.add(record);
    probe_order_.insert(record.id);
    questions_.add(record.id);
    queue_.put_alive(record, source != Source::kSync);
    events_.push_back({MemberEventKind::kJoined, record.id});
    return;
  }
  const Version held = entry->member.record.version;
  if (record.version > held) return on_newer(*entry, record);
  if (entry->member.state != MemberState::kAlive || record.version < held) dissemination_.answer_about(*entry);
}

void MemberRules::on_newer(MemberEntry& entry, const PeerRecord& record) {
  const MemberState before = entry.member.state;
  const bool restarted = record.version.generation > entry.member.record.version.generation;
  entry.member.record = record;
  if (restarted) {
    entry.round_trip = {};
    entry.member.round_trip = Duration{};
    table_.doubt(entry);
    entry.heard = TimePoint{};
    entry.grows_since = context_.clock.now();
    entry.grows_from = record.version.incarnation;
  }
  if (before == MemberState::kSuspect && !restarted) ++context_.counters.false_suspicions;
  if (before != MemberState::kAlive) table_.change_state(entry, MemberState::kAlive);
  if (before > MemberState::kSuspect) probe_order_.insert(record.id);
  if (restarted) {
    entry.member.since = context_.clock.now();
    questions_.add(record.id);
    events_.push_back({MemberEventKind::kRestarted, record.id});
  } else if (before != MemberState::kAlive) {
    events_.push_back({MemberEventKind::kAliveAgain, record.id});
  }
  if (before == MemberState::kDead) {
    entry.member.unanswered = 0;  // its silence is explained
    heal_schedule_.soon();        // the two views probably differ in more members
  }
  queue_.put_alive(record, restarted || before != MemberState::kAlive);
}

void MemberRules::on_suspect(const Suspicion& suspicion) {
  if (suspicion.subject == own_.id()) return own_news_.on_suspicion(suspicion);
  if (suspicion.accuser == suspicion.subject || suspicion.accuser == own_.id()) {
    ++context_.counters.updates_refused;
    return;
  }
  MemberEntry* entry = table_.find(suspicion.subject);
  // An accusation counts only for a version whose record is here. Otherwise the agent asks for the record first.
  if (!entry || suspicion.version > entry->member.record.version) {
    dissemination_.ask_for({suspicion.subject, entry ? entry->member.record.version : Version{},
                            static_cast<uint8_t>(entry ? entry->member.state : MemberState::kAlive)});
    return;
  }
  if (suspicion.version < entry->member.record.version) return dissemination_.answer_about(*entry);
  if (entry->member.state >= MemberState::kDead) return;
  if (!table_.is_live(suspicion.accuser)) {
    ++context_.counters.updates_refused;  // only live members may accuse
    return;
  }
  accuse(*entry, suspicion.accuser);
}

void MemberRules::accuse(MemberEntry& entry, const PeerId& accuser) {
  const PeerRecord& record = entry.member.record;
  const MembershipOptions& options = context_.options;
  if (entry.member.state == MemberState::kAlive) {
    table_.change_state(entry, MemberState::kSuspect);
    entry.suspicion_members = table_.member_count();
    entry.suspicion_began = context_.clock.now();
    events_.push_back({MemberEventKind::kSuspected, record.id});
    probe_order_.probe_soon(record.id);
  }
  const uint32_t wanted = confirmations_wanted(options.suspicion, entry.suspicion_members);
  if (entry.accusers.size() > wanted) return;
  if (std::find(entry.accusers.begin(), entry.accusers.end(), accuser) != entry.accusers.end()) return;
  entry.accusers.push_back(accuser);
  const auto confirmations = static_cast<uint32_t>(entry.accusers.size() - 1);
  const Duration lasts =
      suspicion_timeout(options.suspicion, options.probe_interval, entry.suspicion_members, confirmations);
  entry.suspicion_ends = std::max(context_.clock.now(), entry.suspicion_began + lasts);
  queue_.put_suspect({record.id, record.version, accuser});
}

// In an open swarm any member could claim that another one left. Such a claim by a third party counts there only for
// exactly the version held here. A subject that is still there refutes it with its next version.
void MemberRules::on_left(const PeerRecord& record, const PeerId& from) {
  if (record.id == own_.id()) return own_news_.on_left(record);
  MemberEntry* entry = table_.find(record.id);
  if (!entry) return;
  const Version& held = entry->member.record.version;
  const bool owners = context_.keys || record.id == from;  // a signed one is its owner's word, from any sender
  const bool counts = owners ? record.version >= held : record.version == held;
  const bool is_news = record.version > held || entry->member.state != MemberState::kLeft;
  if (counts && is_news && can_be(record, entry) && !is_genuine(context_, record, context_.keys != nullptr)) return;
  if (!counts || !believable(record, entry)) {
    if (record.version < held) dissemination_.answer_about(*entry);
    return;
  }
  if (is_news && (record.version > held || record.farewell)) entry->member.record = record;
  if (entry->member.state != MemberState::kLeft) mark_left(*entry);
}

void MemberRules::mark_left(MemberEntry& entry) {
  table_.change_state(entry, MemberState::kLeft);
  if (context_.keys && !entry.member.record.farewell) {
    queue_.erase(entry.member.record.id);  // it was revoked, and signed no farewell
  } else {
    queue_.put_left(entry.member.record);
  }
  events_.push_back({MemberEventKind::kLeft, entry.member.record.id});
}

void MemberRules::drop_revoked() {
  std::vector<PeerId> ids;
  for (const auto& [peer, entry] : table_.rows()) {
    if (entry.member.state != MemberState::kLeft && context_.is_revoked(peer)) ids.push_back(peer);
  }
  for (const PeerId& id : ids) mark_left(*table_.find(id));
}

void MemberRules::expire_suspicions() {
  const TimePoint now = context_.clock.now();
  const MembershipOptions& options = context_.options;
  const std::vector<PeerId> due(table_.suspects().begin(), table_.suspects().end());
  for (const PeerId& peer : due) {
    MemberEntry& entry = *table_.find(peer);
    if (entry.suspicion_ends > now) continue;
    if (entry.heard != TimePoint{} && now - entry.heard < 2 * options.probe_interval) {
      // Frames of the suspect still arrive, so the accusation has not reached it. Tell it, and wait once more.
      entry.suspicion_ends = now + suspicion_timeout(options.suspicion, options.probe_interval, 1, 0);
      dissemination_.answer_about(entry);
      dissemination_.flush_answers(peer);
      continue;
    }
    mark_dead(entry);
  }
}

void MemberRules::mark_dead(MemberEntry& entry) {
  const PeerId& peer = entry.member.record.id;
  table_.change_state(entry, MemberState::kDead);
  queue_.erase(peer);
  events_.push_back({MemberEventKind::kDied, peer});
}

void MemberRules::reap_tombstones() {
  const MemberTable::Reaped reaped = table_.reap_tombstones(context_.options.tombstone_life);
  context_.counters.table_full += reaped.excess;
  for (const PeerId& peer : reaped.peers) {
    queue_.erase(peer);
    events_.push_back({MemberEventKind::kReaped, peer});
  }
}

}  // namespace starling
