// Is it there? One probe at a time, round-robin over a shuffled list: directly, then through helpers, and
// only when both stay without an answer do we suspect. How well we ourselves run decides how patient we are
// (Lifeguard).
#include <algorithm>
#include <cmath>

#include "gossip/membership/membership_impl.h"

namespace starling {

Duration Membership::Impl::timeout_of(const MemberEntry& entry) const {
  if (entry.round_trip_s <= 0) return options.probe_timeout;
  const Duration patience = from_seconds(entry.round_trip_s + 4 * entry.round_trip_deviation_s);
  return std::clamp(patience, options.probe_timeout * 3 / 5, options.probe_timeout);
}

void Membership::Impl::measure(MemberEntry& entry, Duration round_trip) {
  const double sample_s = std::max(1e-9, seconds(round_trip));
  if (entry.round_trip_s <= 0) {
    entry.round_trip_s = sample_s;
    entry.round_trip_deviation_s = sample_s / 2;
  } else {
    const double error_s = sample_s - entry.round_trip_s;
    entry.round_trip_s += error_s / 8;
    entry.round_trip_deviation_s += (std::abs(error_s) - entry.round_trip_deviation_s) / 4;
  }
  entry.member.round_trip = from_seconds(entry.round_trip_s);
}

void Membership::Impl::change_health(int delta) {
  health_score = static_cast<uint32_t>(
      std::clamp(static_cast<int>(health_score) + delta, 0, static_cast<int>(kHealthScoreMax)));
}

void Membership::Impl::insert_into_probe_order(const PeerId& peer) {
  if (std::find(probe_order.begin(), probe_order.end(), peer) != probe_order.end()) return;
  const size_t place = rng.below(static_cast<uint32_t>(probe_order.size() + 1));
  probe_order.insert(probe_order.begin() + static_cast<std::ptrdiff_t>(place), peer);
  if (place < probe_position) ++probe_position;
}

// Somebody suspects it: a few of us look at once, to confirm or to let it hear of the suspicion. Not all of a
// large swarm, or a thousand pings would hit it in the same second.
void Membership::Impl::probe_soon(const PeerId& peer) {
  constexpr double kProbersMean = 8;
  if (!rng.chance(kProbersMean / static_cast<double>(member_count()))) return;
  const auto place =
      probe_order.begin() + static_cast<std::ptrdiff_t>(std::min(probe_position, probe_order.size()));
  probe_order.insert(place, peer);
}

std::optional<PeerId> Membership::Impl::next_target() {
  for (int pass = 0; pass < 2; ++pass) {
    while (probe_position < probe_order.size()) {
      const PeerId peer = probe_order[probe_position++];
      if (is_live(peer)) return peer;
    }
    probe_order.clear();
    for (const auto& [peer, entry] : table) {
      if (entry.member.state <= MemberState::kSuspect) probe_order.push_back(peer);
    }
    rng.shuffle(probe_order);
    probe_position = 0;
  }
  return std::nullopt;
}

void Membership::Impl::send_ping(MemberEntry& target, uint64_t sequence) {
  const PeerRecord& record = target.member.record;
  Ping ping{sequence, record.id, piggyback(record.id, true)};
  if (target.member.state == MemberState::kSuspect) {  // so that it can refute in its very answer
    if (ping.updates.suspect.empty() || ping.updates.suspect.front().subject != record.id) {
      ping.updates.suspect.insert(ping.updates.suspect.begin(), {record.id, record.version, self.id});
    }
  }
  outbox.send(record.id, ping);
}

void Membership::Impl::start_probe() {
  const TimePoint now = clock.now();
  const Duration period = options.probe_interval * (health_score + 1);
  next_probe = now + period;
  probe.reset();
  if (leaving) return;
  const std::optional<PeerId> target = next_target();
  if (!target) return;
  MemberEntry& entry = *find(*target);
  probe = Probe{.target = *target, .version = entry.member.record.version, .sent = now};
  probe->sequence = next_sequence++;
  probe->indirect_at = now + timeout_of(entry);
  probe->ends = next_probe;
  ++counters.probes;
  send_ping(entry, probe->sequence);
}

void Membership::Impl::advance_probe() {
  const TimePoint now = clock.now();
  if (probe && !probe->acked && !probe->indirect_sent && now >= probe->indirect_at) {
    probe->indirect_sent = true;
    // A lost frame is no death.
    if (MemberEntry* entry = find(probe->target)) send_ping(*entry, probe->sequence);
    probe->helpers = random_members(options.indirect_probes, probe->target, false);
    for (const PeerId& helper : probe->helpers) {
      outbox.send(helper, PingRequest{probe->sequence, probe->target, piggyback(helper, true)});
    }
  }
  if (now < next_probe) return;
  if (probe && !probe->acked) finish_probe();
  start_probe();
}

// No answer, not even through helpers. Helpers that said nack have shown that our own frames get through.
void Membership::Impl::finish_probe() {
  ++counters.probes_failed;
  const int silent_helpers = static_cast<int>(probe->helpers.size()) - static_cast<int>(probe->nacks);
  change_health(probe->helpers.empty() ? 1 : std::max(0, silent_helpers));
  MemberEntry* entry = find(probe->target);
  // A newer version was made after our ping was: it lives.
  if (!entry || entry->member.record.version != probe->version) return;
  if (entry->member.state >= MemberState::kDead) return;
  accuse(*entry, self.id);
}

void Membership::Impl::probe_acked() {
  probe->acked = true;
  change_health(-1);
}

void Membership::Impl::on_ping(const PeerId& from, const Ping& ping) {
  if (!ping.target.is_zero() && ping.target != self.id) return;  // meant for who was at this address before
  outbox.send(from, PingAck{ping.sequence, piggyback(from, false)});
}

void Membership::Impl::on_ping_ack(const PeerId& from, const PingAck& ack) {
  const TimePoint now = clock.now();
  if (probe && ack.sequence == probe->sequence) {
    const bool direct = from == probe->target;
    // After the second ping nobody knows which of the two was answered. Whatever came from it before proved that it
    // lives, not how far it is.
    MemberEntry* entry = direct && !probe->indirect_sent && !probe->measured ? find(from) : nullptr;
    if (entry) measure(*entry, now - probe->sent);
    probe->measured = probe->measured || direct;
    const bool helped = std::find(probe->helpers.begin(), probe->helpers.end(), from) != probe->helpers.end();
    if (!probe->acked && (direct || helped)) probe_acked();
    if (direct || helped) return;
  }
  const auto relay = std::find_if(relays.begin(), relays.end(), [&](const Relay& r) {
    return r.sequence == ack.sequence && r.target == from;
  });
  if (relay == relays.end()) return;
  outbox.send(relay->requester, PingAck{relay->requester_sequence, piggyback(relay->requester, false)});
  relays.erase(relay);
}

void Membership::Impl::on_ping_request(const PeerId& from, const PingRequest& request) {
  if (request.target == self.id) {
    outbox.send(from, PingAck{request.sequence, piggyback(from, false)});
    return;
  }
  MemberEntry* target = find(request.target);
  if (!target || target->member.state >= MemberState::kDead || relays.size() >= kRelaysMax) {
    outbox.send(from, PingNack{request.sequence});
    return;
  }
  // The nack must reach the requester before its own period ends.
  const Duration spare = (options.probe_interval - options.probe_timeout) * 4 / 5;
  const Duration patience = std::min(timeout_of(*target), std::max(spare, options.probe_timeout / 2));
  relays.push_back({next_sequence++, from, request.sequence, request.target, clock.now() + patience});
  send_ping(*target, relays.back().sequence);
}

void Membership::Impl::on_ping_nack(const PeerId& from, const PingNack& nack) {
  if (!probe || probe->acked || nack.sequence != probe->sequence) return;
  const auto helper = std::find(probe->helpers.begin(), probe->helpers.end(), from);
  // A frame that came twice is one nack: those who said it stand behind the others.
  const auto silent_end = probe->helpers.end() - static_cast<std::ptrdiff_t>(probe->nacks);
  if (helper >= silent_end) return;
  std::iter_swap(helper, silent_end - 1);
  ++probe->nacks;
}

void Membership::Impl::expire_relays() {
  const TimePoint now = clock.now();
  std::erase_if(relays, [&](const Relay& relay) {
    if (relay.ends > now) return false;
    outbox.send(relay.requester, PingNack{relay.requester_sequence});
    return true;
  });
}

void Membership::Impl::heard_from(const PeerId& peer, uint64_t generation) {
  MemberEntry* entry = find(peer);
  if (!entry || entry->member.record.version.generation != generation) return;
  entry->heard = clock.now();
  // A frame taken from the network in the instant of our ping is older than it.
  if (probe && !probe->acked && probe->target == peer && entry->heard > probe->sent) probe_acked();
  if (entry->member.state == MemberState::kAlive || entry->member.state == MemberState::kLeft) return;
  answer_about(*entry);  // it lives and may not know what is said about it
  flush_answers(peer);
}

// When we ourselves were not run, every timer ran out and every answer lies unread: that says nothing about
// others.
void Membership::Impl::forgive_stall() {
  const TimePoint now = clock.now();
  const Duration late = now - next_verdict();
  if (late <= options.probe_interval / 2) return;
  ++counters.stalls;
  change_health(+1);
  next_probe += late;
  if (probe) {
    probe->indirect_at += late;
    probe->ends += late;
  }
  for (const PeerId& peer : suspects) {
    MemberEntry& entry = *find(peer);
    entry.suspicion_began += late;
    entry.suspicion_ends += late;
  }
  for (Relay& relay : relays) relay.ends += late;
}

// When the next timer ends that says something about another member.
TimePoint Membership::Impl::next_verdict() const {
  TimePoint next = next_probe;
  if (probe && !probe->acked && !probe->indirect_sent) next = std::min(next, probe->indirect_at);
  for (const Relay& relay : relays) next = std::min(next, relay.ends);
  for (const PeerId& peer : suspects) next = std::min(next, table.at(peer).suspicion_ends);
  return next;
}

TimePoint Membership::Impl::next_deadline() const {
  TimePoint next = std::min(next_verdict(), next_heal);
  if (!queue.empty()) next = std::min(next, next_gossip);
  if (pending_meta && !leaving) next = std::min(next, announced + options.meta_interval);
  return next;
}

}  // namespace starling
