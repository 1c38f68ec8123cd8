#include "gossip/membership/membership.h"

#include <algorithm>
#include <utility>

#include "gossip/membership/anti_entropy.h"
#include "gossip/membership/context.h"
#include "gossip/membership/dissemination.h"
#include "gossip/membership/heal_schedule.h"
#include "gossip/membership/health_score.h"
#include "gossip/membership/member_rules.h"
#include "gossip/membership/member_table.h"
#include "gossip/membership/own_news.h"
#include "gossip/membership/own_record.h"
#include "gossip/membership/probe_order.h"
#include "gossip/membership/prober.h"
#include "gossip/membership/questions.h"
#include "gossip/membership/update_queue.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr size_t kToldOfRevocations = 8;  // members, by each that hears

}  // namespace

// The parts, each after those that it uses.
struct Membership::Impl {
  Impl(const MembershipOptions& options, PeerRecord record, const Clock& clock, Outbox& outbox, uint64_t rng_seed,
       uint64_t secret, Revocations* revocations, const MemberKeys* keys)
      : context{options, clock, outbox, Rng(rng_seed), secret, revocations, keys},
        own(context, table, queue, health, std::move(record)) {
    STARLING_CHECK(options.probe_timeout < options.probe_interval && options.probe_timeout > Duration::zero());
  }
  void receive(const PeerId& from, const Ping& ping) { prober.on_ping(from, ping); }
  void receive(const PeerId& from, const PingAck& ack) {
    if (!questions.on_ping_ack(from, ack)) prober.on_ping_ack(from, ack);
  }
  void receive(const PeerId& from, const PingRequest& request) { prober.on_ping_request(from, request); }
  void receive(const PeerId& from, const PingNack& nack) { prober.on_ping_nack(from, nack); }
  void receive(const PeerId& from, const Sync& sync) { anti_entropy.on_sync(from, sync); }
  void receive(const PeerId&, const Gossip&) {}   // is all news
  void receive(const PeerId&, const Revoked&) {}  // is revoke()'s, of any sender
  void revoke(std::string_view entries);
  TimePoint next_verdict() const { return std::min(prober.next_verdict(), table.next_suspicion_end()); }
  void forgive_stall();
  void announce_meta() {
    if (own.announce_meta()) dissemination.tell_own_record();
  }

  MembershipContext context;
  MemberTable table{context.clock};
  UpdateQueue queue;
  HealthScore health;
  OwnRecord own;
  ProbeOrder probe_order{context, table};
  HealSchedule heal_schedule{context};
  Dissemination dissemination{context, table, own, queue};
  OwnNews own_news{context, own, dissemination};
  Questions questions{context, table, own};
  MemberRules rules{context, table, own, own_news, queue, dissemination, probe_order, questions, heal_schedule};
  Prober prober{context, table, own, dissemination, probe_order, health, rules};
  AntiEntropy anti_entropy{context, table, own, own_news, rules, heal_schedule};
};

Membership::Membership(const MembershipOptions& options, PeerRecord self, const Clock& clock, Outbox& outbox,
                       uint64_t rng_seed, uint64_t secret, Revocations* revocations, const MemberKeys* keys)
    : impl_(std::make_unique<Impl>(options, std::move(self), clock, outbox, rng_seed, secret, revocations, keys)) {}

Membership::~Membership() = default;

// If this agent itself was not run for a while, all its timers have expired and the answers are still unread. That says
// nothing about other members, so the timers are postponed.
void Membership::Impl::forgive_stall() {
  const Duration late = context.clock.now() - next_verdict();
  if (late <= context.options.probe_interval / 2) return;
  ++context.counters.stalls;
  health.change(+1);
  prober.postpone(late);
  table.postpone_suspicions(late);
}

// Those that hear tell as many others, and anti-entropy tells the rest. A revoked member hears why it is left alone.
void Membership::Impl::revoke(std::string_view entries) {
  const std::vector<PeerId> added = context.revocations->take(entries);
  if (added.empty()) return;
  const Revoked news{context.revocations->bytes_of(added)};
  for (const PeerId& id : added) {
    const MemberEntry* held = table.find(id);
    if (held && held->member.state != MemberState::kLeft) context.outbox.send(id, news);
  }
  for (const PeerId& peer : table.random_members(context.rng, kToldOfRevocations, own.id(), true)) {
    if (!context.is_revoked(peer)) context.outbox.send(peer, news);
  }
  rules.drop_revoked();
}

void Membership::revoke(std::string_view entries) { impl_->revoke(entries); }

void Membership::tick() {
  impl_->forgive_stall();
  impl_->announce_meta();
  impl_->prober.tick();
  impl_->rules.expire_suspicions();  // after the probe, because its accusation may be the last confirmation
  impl_->anti_entropy.tick();
  impl_->questions.tick();
  impl_->dissemination.tick();
}

TimePoint Membership::next_deadline() const {
  return std::min({impl_->next_verdict(), impl_->questions.next_deadline(), impl_->anti_entropy.next_deadline(),
                   impl_->dissemination.next_deadline(), impl_->own.next_deadline()});
}

// An ack proves its own process only. Where a later one is not taken yet, or an earlier one still runs, it would keep
// the one that the table holds alive for ever.
void Membership::handle(const PeerId& from, const MembershipMessage& message, std::optional<uint64_t> generation) {
  if (from == impl_->own.id()) return;
  impl_->context.begin_message(from);
  impl_->dissemination.clear_answers();
  if (!impl_->rules.introduced(from, message)) return;
  impl_->rules.on_updates(from, message);
  const MemberEntry* held = impl_->table.find(from);
  const bool of_another = generation && held && held->member.record.version.generation != *generation;
  if (const auto* ack = std::get_if<PingAck>(&message); ack && of_another) {
    impl_->prober.on_ack_of_another_process(from, *ack);
  } else {
    std::visit([&](const auto& kind) { impl_->receive(from, kind); }, message);
  }
  impl_->dissemination.flush_answers(from);
}

void Membership::heard_from(const PeerId& peer, uint64_t generation) {
  MemberEntry* entry = impl_->table.find(peer);
  if (!entry || entry->member.record.version.generation != generation) return;
  entry->heard = impl_->context.clock.now();
  impl_->prober.heard_from(peer);
  if (entry->member.state == MemberState::kAlive || entry->member.state == MemberState::kLeft) return;
  impl_->dissemination.answer_about(*entry);  // it lives, and may not know that it is suspected or believed dead
  impl_->dissemination.flush_answers(peer);
}

void Membership::prove(const PeerId& peer, uint64_t generation) {
  MemberEntry* entry = impl_->table.find(peer);
  if (entry && entry->member.record.version.generation == generation) impl_->table.prove(*entry);
}

void Membership::add(const std::vector<PeerRecord>& records, const PeerId& from) {
  impl_->context.begin_message(from);
  for (const PeerRecord& record : records) {
    impl_->dissemination.clear_answers();
    impl_->rules.on_alive(record, MemberRules::Source::kJoin);
    // A member that joins again with a version believed dead must be told, so that it refutes; otherwise it stays dead.
    if (impl_->table.find(record.id)) impl_->dissemination.flush_answers(record.id);
  }
  impl_->dissemination.clear_answers();
}

void Membership::set_options(const MembershipOptions& options) { impl_->context.options = options; }

void Membership::set_seeds(std::vector<Endpoint> seeds) { impl_->anti_entropy.set_seeds(std::move(seeds)); }

void Membership::update_self(const MemberMeta& meta, uint64_t last_step) {
  impl_->own.set_meta(meta, last_step);
  impl_->announce_meta();
}

void Membership::announce_leave() {
  if (!impl_->own.leave()) return;
  impl_->prober.stop();
  const Gossip farewell{Updates{.left = {impl_->own.farewell()}}};
  for (const auto& [peer, entry] : impl_->table.rows()) {
    if (entry.member.state > MemberState::kSuspect) continue;
    impl_->context.outbox.send(peer, farewell);
  }
}

void Membership::move_to(const Endpoint& endpoint) {
  if (!impl_->own.move_to(endpoint)) return;
  for (const auto& [peer, entry] : impl_->table.rows()) {
    if (entry.member.state == MemberState::kLeft) continue;
    impl_->context.outbox.send(peer, Gossip{Updates{.alive = {impl_->own.record()}}});
  }
  impl_->heal_schedule.at_once();
}

const PeerRecord& Membership::self() const { return impl_->own.record(); }

PeerRecord Membership::farewell() const { return impl_->own.farewell(); }

const Member* Membership::find(const PeerId& peer) const {
  const MemberEntry* entry = impl_->table.find(peer);
  return entry ? &entry->member : nullptr;
}

std::vector<Member> Membership::alive() const {
  std::vector<Member> members;
  visit_alive([&](const Member& member) { members.push_back(member); });
  return members;
}

size_t Membership::alive_count() const { return impl_->table.alive().size(); }

// Prefetches some members ahead: of many, most lie in no cache.
void Membership::visit_alive(const std::function<void(const Member&)>& visit) const {
  constexpr size_t kAhead = 4, kLine = 64;
  const std::vector<const Member*>& alive = impl_->table.alive();
  for (size_t i = 0; i < alive.size(); ++i) {
    const char* later = reinterpret_cast<const char*>(alive[std::min(i + kAhead, alive.size() - 1)]);
    for (size_t line = 0; line < kHotBytes; line += kLine) __builtin_prefetch(later + line);
    visit(*alive[i]);
  }
}

bool Membership::any_alive(const std::function<bool(const Member&)>& is_one) const {
  const std::vector<const Member*>& alive = impl_->table.alive();
  return std::any_of(alive.begin(), alive.end(), [&](const Member* member) { return is_one(*member); });
}

std::vector<Member> Membership::all() const {
  std::vector<Member> members;
  visit_all([&](const Member& member) { members.push_back(member); });
  return members;
}

void Membership::visit_all(const std::function<void(const Member&)>& visit) const {
  for (const auto& [peer, entry] : impl_->table.rows()) visit(entry.member);
}

std::vector<PeerRecord> Membership::sample_records(size_t count_max) {
  std::vector<PeerRecord> records;
  if (count_max == 0) return records;
  records.push_back(impl_->own.record());
  size_t bytes = records.back().sealed.size();
  for (const PeerId& peer : impl_->table.random_members(impl_->context.rng, count_max - 1, impl_->own.id(), false)) {
    records.push_back(impl_->table.find(peer)->member.record);
    bytes += records.back().sealed.size();
    if (bytes > kSealedPerFrameMax) break;
  }
  return records;
}

std::vector<Sync> Membership::pages(uint64_t nonce) const { return impl_->anti_entropy.pages(nonce); }

std::vector<MemberEvent> Membership::take_events() { return impl_->rules.take_events(); }

void Membership::hear_of_self(const PeerRecord& record, const PeerId& from) {
  if (record.id != impl_->own.id()) return;
  impl_->context.begin_message(from);
  impl_->own_news.on_record(record);
}

std::optional<PeerRecord> Membership::take_other_self() { return impl_->own_news.take_other_self(); }

std::optional<ForgedRecord> Membership::take_forged() { return std::exchange(impl_->context.forged, std::nullopt); }

std::optional<PeerRecord> Membership::take_record_ahead() { return impl_->rules.take_record_ahead(); }

bool Membership::nobody_answers(Duration for_long) const { return impl_->prober.nobody_answers(for_long); }

const MembershipCounters& Membership::counters() const { return impl_->context.counters; }

}  // namespace starling
