#include "gossip/membership/prober.h"

#include <algorithm>

#include "gossip/net/hash.h"

namespace starling {
namespace {

constexpr size_t kRelaysMax = 256;      // probes in progress on behalf of others
constexpr uint32_t kUnansweredMin = 2;  // of another member each, where there are several

}  // namespace

Prober::Prober(MembershipContext& context, MemberTable& table, const OwnRecord& own, Dissemination& dissemination,
               ProbeOrder& order, HealthScore& health, MemberRules& rules)
    : context_(context),
      table_(table),
      own_(own),
      dissemination_(dissemination),
      order_(order),
      health_(health),
      rules_(rules) {
  next_probe_ = context_.clock.now() + from_seconds(seconds(context_.options.probe_interval) * context_.rng.uniform());
}

void Prober::tick() {
  expire_relays();
  const TimePoint now = context_.clock.now();
  if (probe_ && !probe_->acked && !probe_->indirect_sent && now >= probe_->indirect_at) probe_through_helpers();
  if (now < next_probe_) return;
  if (probe_ && !probe_->acked) finish_probe();
  if (probe_ && !probe_->measured) ++unanswered_;
  if (MemberEntry* silent = probe_ && !probe_->measured ? table_.find(probe_->target) : nullptr) table_.miss(*silent);
  start_probe();
}

void Prober::stop() { probe_.reset(); }

TimePoint Prober::next_verdict() const {
  TimePoint next = next_probe_;
  if (probe_ && !probe_->acked && !probe_->indirect_sent) next = std::min(next, probe_->indirect_at);
  for (const Relay& relay : relays_) next = std::min(next, relay.ends);
  return next;
}

void Prober::postpone(Duration by) {
  next_probe_ += by;
  if (probe_) probe_->indirect_at += by;
  for (Relay& relay : relays_) relay.ends += by;
}

void Prober::start_probe() {
  const TimePoint now = context_.clock.now();
  next_probe_ = now + context_.options.probe_interval * (health_.value() + 1);
  probe_.reset();
  if (own_.leaving()) return;
  const std::optional<PeerId> target = order_.next();
  if (!target) {
    if (table_.dead_count() == 0) unanswered_ = 0;  // this agent is alone, and no way is dead
    return;
  }
  MemberEntry& entry = *table_.find(*target);
  probe_ = Probe{.target = *target, .version = entry.member.record.version, .sent = now};
  probe_->sequence = ping_number();
  pinged_[pinged_next_++ % pinged_.size()] = {probe_->sequence, *target, probe_->version.generation};
  probe_->indirect_at = now + entry.round_trip.patience(context_.options.probe_timeout);
  ++context_.counters.probes;
  send_ping(entry, probe_->sequence);
}

// An answer that repeats the number proves that the ping arrived. A generator's own numbers would not: from a few pings
// whoever was probed could reckon the next ones, and answer for members that never did.
uint64_t Prober::ping_number() { return secret_number(context_.secret, context_.rng.next_u64()); }

// One lost frame proves nothing: sends another ping, and asks helpers to ping too.
void Prober::probe_through_helpers() {
  probe_->indirect_sent = true;
  if (MemberEntry* entry = table_.find(probe_->target)) send_ping(*entry, probe_->sequence);
  probe_->helpers = table_.random_members(context_.rng, context_.options.indirect_probes, probe_->target, false);
  for (const PeerId& helper : probe_->helpers) {
    context_.outbox.send(helper, PingRequest{probe_->sequence, probe_->target, dissemination_.piggyback(helper, true)});
  }
}

// There was no answer, neither directly nor through helpers. A nack shows that this agent's own frames get through, so
// only silent helpers worsen its health score.
void Prober::finish_probe() {
  ++context_.counters.probes_failed;
  const int silent_helpers = static_cast<int>(probe_->helpers.size()) - static_cast<int>(probe_->nacks);
  if (!probe_->replaced) health_.change(probe_->helpers.empty() ? 1 : std::max(0, silent_helpers));
  MemberEntry* entry = table_.find(probe_->target);
  // A version newer than the one pinged shows that the member lives.
  if (!entry || entry->member.record.version != probe_->version) return;
  if (entry->member.state >= MemberState::kDead) return;
  rules_.accuse(*entry, own_.id());
}

void Prober::probe_acked() {
  probe_->acked = true;
  health_.change(-1);
}

void Prober::send_ping(MemberEntry& target, uint64_t sequence) {
  const PeerRecord& record = target.member.record;
  Ping ping{sequence, record.id, dissemination_.piggyback(record.id, true)};
  if (target.member.state == MemberState::kSuspect) {  // so that it can refute in its very answer
    if (ping.updates.suspect.empty() || ping.updates.suspect.front().subject != record.id) {
      ping.updates.suspect.insert(ping.updates.suspect.begin(), {record.id, record.version, own_.id()});
    }
  }
  context_.outbox.send(record.id, ping);
}

PingAck Prober::ack_of(uint64_t sequence, const PeerId& asker) {
  return {sequence, dissemination_.piggyback(asker, false), {}, context_.told_clock()};
}

void Prober::on_ping(const PeerId& from, const Ping& ping) {
  if (!ping.target.is_zero() && ping.target != own_.id()) return;  // meant for an earlier agent at this address
  context_.outbox.send(from, ack_of(ping.sequence, from));
}

void Prober::on_ping_ack(const PeerId& from, const PingAck& ack) {
  if (probe_ && ack.sequence == probe_->sequence) {
    const bool direct = from == probe_->target;
    MemberEntry* answered = direct ? table_.find(from) : nullptr;
    if (answered && answered->member.record.version.generation == probe_->version.generation) {
      table_.prove(*answered);
    }
    // The round trip is measured only if the answer belongs to the first ping: after the second ping it is unknown
    // which of the two was answered.
    MemberEntry* entry = direct && !probe_->indirect_sent && !probe_->measured ? table_.find(from) : nullptr;
    if (entry) {
      entry->round_trip.add(context_.clock.now() - probe_->sent);
      entry->member.round_trip = entry->round_trip.mean();
    }
    probe_->measured = probe_->measured || direct;
    const bool helped = std::find(probe_->helpers.begin(), probe_->helpers.end(), from) != probe_->helpers.end();
    if (!probe_->acked && (direct || (helped && !probe_->replaced))) probe_acked();
    if (direct || helped) return note_answer();
  }
  note_late_ack(from, ack.sequence);
  const auto relay = std::find_if(relays_.begin(), relays_.end(),
                                  [&](const Relay& r) { return r.sequence == ack.sequence && r.target == from; });
  if (relay == relays_.end()) return;
  MemberEntry* target = table_.find(from);
  if (target && target->member.record.version.generation == relay->generation) table_.prove(*target);
  context_.outbox.send(relay->requester, ack_of(relay->requester_sequence, relay->requester));
  relays_.erase(relay);
}

// Helpers are asked no more: they may hold the other process, and say that it answers.
void Prober::on_ack_of_another_process(const PeerId& from, const PingAck& ack) {
  if (!probe_ || probe_->acked || probe_->target != from || ack.sequence != probe_->sequence) return;
  probe_->replaced = probe_->indirect_sent = true;
}

void Prober::on_ping_request(const PeerId& from, const PingRequest& request) {
  if (request.target == own_.id()) {
    context_.outbox.send(from, ack_of(request.sequence, from));
    return;
  }
  MemberEntry* target = table_.find(request.target);
  if (!target || target->member.state >= MemberState::kDead || relays_.size() >= kRelaysMax) {
    context_.outbox.send(from, PingNack{request.sequence});
    return;
  }
  // The nack must reach the requester before its own period ends.
  const Duration timeout = context_.options.probe_timeout;
  const Duration spare = (context_.options.probe_interval - timeout) * 4 / 5;
  const Duration patience = std::min(target->round_trip.patience(timeout), std::max(spare, timeout / 2));
  relays_.push_back({ping_number(), from, request.sequence, request.target, target->member.record.version.generation,
                     context_.clock.now() + patience});
  send_ping(*target, relays_.back().sequence);
}

void Prober::on_ping_nack(const PeerId& from, const PingNack& nack) {
  if (!probe_ || probe_->acked || nack.sequence != probe_->sequence) return;
  const auto helper = std::find(probe_->helpers.begin(), probe_->helpers.end(), from);
  // A duplicate frame must not count twice: helpers that have sent a nack are moved to the end of the list.
  const auto silent_end = probe_->helpers.end() - static_cast<std::ptrdiff_t>(probe_->nacks);
  if (helper >= silent_end) return;
  std::iter_swap(helper, silent_end - 1);
  ++probe_->nacks;
  note_answer();
}

// The member was accused meanwhile; the way to it is there.
void Prober::note_late_ack(const PeerId& from, uint64_t sequence) {
  const auto pinged = std::find_if(pinged_.begin(), pinged_.end(),
                                   [&](const Pinged& p) { return p.sequence == sequence && p.target == from; });
  if (pinged == pinged_.end()) return;
  MemberEntry* target = table_.find(from);
  if (target && target->member.record.version.generation == pinged->generation) table_.prove(*target);
  note_answer();
}

void Prober::note_answer() {
  unanswered_ = 0;
  answered_ = context_.clock.now();
}

bool Prober::nobody_answers(Duration for_long) const {
  return unanswered_ >= kUnansweredMin && answered_ != TimePoint{} && context_.clock.now() - answered_ > for_long;
}

void Prober::expire_relays() {
  const TimePoint now = context_.clock.now();
  std::erase_if(relays_, [&](const Relay& relay) {
    if (relay.ends > now) return false;
    context_.outbox.send(relay.requester, PingNack{relay.requester_sequence});
    return true;
  });
}

void Prober::heard_from(const PeerId& peer) {
  // A frame that was read at the same instant as the ping was sent is older than the ping.
  if (probe_ && !probe_->acked && probe_->target == peer && context_.clock.now() > probe_->sent) probe_acked();
}

}  // namespace starling
