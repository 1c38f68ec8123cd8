#include "gossip/membership/membership.h"

#include <algorithm>
#include <utility>

#include "gossip/limits.h"
#include "gossip/membership/membership_impl.h"
#include "kernels/check.h"

namespace starling {

Membership::Impl::Impl(const MembershipOptions& options_in, PeerRecord self_in, const Clock& clock_in,
                       Outbox& outbox_in, uint64_t rng_seed)
    : options(options_in), clock(clock_in), outbox(outbox_in), rng(rng_seed), self(std::move(self_in)) {
  STARLING_CHECK(!self.id.is_zero());
  STARLING_CHECK(options.probe_timeout < options.probe_interval && options.probe_timeout > Duration::zero());
  const TimePoint now = clock.now();
  announced = now;
  next_gossip = now;
  heal_pause = options.heal_interval / 10;
  next_probe = now + from_seconds(seconds(options.probe_interval) * rng.uniform());
  next_heal = now + from_seconds(seconds(heal_pause) * rng.uniform());
  next_sequence = rng.next_u64() >> 16;  // answers to a process before this one must not fit
  queue.put_alive(self, true);
}

Membership::Membership(const MembershipOptions& options, PeerRecord self, const Clock& clock, Outbox& outbox,
                       uint64_t rng_seed)
    : impl_(std::make_unique<Impl>(options, std::move(self), clock, outbox, rng_seed)) {}

Membership::~Membership() = default;

void Membership::tick() {
  impl_->forgive_stall();
  impl_->advance_meta();
  impl_->expire_relays();
  impl_->advance_probe();
  impl_->expire_suspicions();  // after the probe: our own confirmation may be the last one wanted
  impl_->heal();
  impl_->gossip();
}

TimePoint Membership::next_deadline() const { return impl_->next_deadline(); }

void Membership::handle(const PeerId& from, const MembershipMessage& message) { impl_->handle(from, message); }

void Membership::heard_from(const PeerId& peer, uint64_t generation) { impl_->heard_from(peer, generation); }

void Membership::add(const PeerRecord& record) {
  impl_->answers = {};
  impl_->on_alive(record, Impl::Source::kJoin);
  // Who joins again with a version that we believe dead must hear that, or it stays dead here.
  impl_->answer_with_self = false;
  if (impl_->find(record.id)) impl_->flush_answers(record.id);
}

void Membership::set_options(const MembershipOptions& options) { impl_->options = options; }

void Membership::set_seeds(std::vector<Endpoint> seeds) {
  std::erase(seeds, impl_->self.endpoint);
  impl_->seeds = std::move(seeds);
}

void Membership::update_self(const MemberMeta& meta) {
  if (meta == impl_->self.meta) {
    impl_->pending_meta.reset();
    return;
  }
  impl_->pending_meta = meta;
  impl_->advance_meta();
}

void Membership::announce_leave() {
  if (std::exchange(impl_->leaving, true)) return;
  impl_->probe.reset();
  impl_->queue.put_left(impl_->self);
  for (const auto& [peer, entry] : impl_->table) {
    if (entry.member.state > MemberState::kSuspect) continue;
    impl_->outbox.send(peer, Gossip{Updates{.left = {impl_->self}}});
  }
}

const PeerRecord& Membership::self() const { return impl_->self; }

const Member* Membership::find(const PeerId& peer) const {
  const MemberEntry* entry = impl_->find(peer);
  return entry ? &entry->member : nullptr;
}

const std::vector<const Member*>& Membership::Impl::alive_members() {
  if (alive_changed) {
    alive.clear();
    for (const auto& [peer, entry] : table) {
      if (entry.member.state == MemberState::kAlive) alive.push_back(&entry.member);
    }
    alive_changed = false;
  }
  return alive;
}

std::vector<Member> Membership::alive() const {
  std::vector<Member> members;
  visit_alive([&](const Member& member) { members.push_back(member); });
  return members;
}

void Membership::visit_alive(const std::function<void(const Member&)>& visit) const {
  for (const Member* member : impl_->alive_members()) visit(*member);
}

std::vector<Member> Membership::all() const {
  std::vector<Member> members;
  for (const auto& [peer, entry] : impl_->table) members.push_back(entry.member);
  return members;
}

std::vector<PeerRecord> Membership::sample_records(size_t count_max) {
  std::vector<PeerRecord> records;
  if (count_max == 0) return records;
  records.push_back(impl_->self);
  for (const PeerId& peer : impl_->random_members(count_max - 1, impl_->self.id, false)) {
    records.push_back(impl_->find(peer)->member.record);
  }
  return records;
}

std::vector<MemberEvent> Membership::take_events() { return std::exchange(impl_->events, {}); }

const MembershipCounters& Membership::counters() const { return impl_->counters; }

}  // namespace starling
