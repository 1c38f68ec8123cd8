// How news travels: on every membership frame, in gossip of its own while there is some, and by comparing
// whole views with a few members, the dead and the seeds, for ever. That last part is what joins a swarm that
// was cut in two.
#include <algorithm>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "gossip/limits.h"
#include "gossip/membership/membership_impl.h"
#include "gossip/membership/suspicion.h"

namespace starling {
namespace {

constexpr size_t kDigestMax = kMembersMax;

size_t count_of(const Updates& updates) {
  return updates.alive.size() + updates.suspect.size() + updates.left.size();
}

const Updates* updates_of(const MembershipMessage& message) {
  if (const auto* ping = std::get_if<Ping>(&message)) return &ping->updates;
  if (const auto* ack = std::get_if<PingAck>(&message)) return &ack->updates;
  if (const auto* request = std::get_if<PingRequest>(&message)) return &request->updates;
  if (const auto* gossip = std::get_if<Gossip>(&message)) return &gossip->updates;
  return nullptr;
}

DigestEntry digest_of(const Member& member) {
  return {member.record.id, member.record.version, static_cast<uint8_t>(member.state)};
}

}  // namespace

void Membership::Impl::handle(const PeerId& from, const MembershipMessage& message) {
  if (from == self.id) return;
  answers = {};
  answer_with_self = false;
  wants.clear();
  const Updates* updates = updates_of(message);
  const auto* sync = std::get_if<Sync>(&message);
  if (!find(from)) {  // a stranger may introduce itself, and is heard from then on
    const std::vector<PeerRecord>* records = updates ? &updates->alive : sync ? &sync->records : nullptr;
    if (!records) return;
    for (const PeerRecord& record : *records) {
      if (record.id == from) on_alive(record, Source::kGossip);
    }
    if (!find(from)) return;
  }
  if (updates) on_updates(from, *updates);
  if (sync) {
    on_sync(from, *sync);
  } else if (const auto* ping = std::get_if<Ping>(&message)) {
    on_ping(from, *ping);
  } else if (const auto* ack = std::get_if<PingAck>(&message)) {
    on_ping_ack(from, *ack);
  } else if (const auto* request = std::get_if<PingRequest>(&message)) {
    on_ping_request(from, *request);
  } else if (const auto* nack = std::get_if<PingNack>(&message)) {
    on_ping_nack(from, *nack);
  }
  flush_answers(from);
}

void Membership::Impl::on_updates(const PeerId& from, const Updates& updates) {
  for (const PeerRecord& record : updates.alive) on_alive(record, Source::kGossip);
  for (const Suspicion& suspicion : updates.suspect) on_suspect(suspicion);
  for (const PeerRecord& record : updates.left) on_left(record, from);
}

void Membership::Impl::flush_answers(const PeerId& to) {
  if (std::exchange(answer_with_self, false) && !leaving) answers.alive.push_back(self);
  while (count_of(answers) > 0) {
    Gossip message;
    const auto move_some = [&message](auto& source, auto& target) {
      while (!source.empty() && count_of(message.updates) < kGossipUpdatesPerFrameMax) {
        target.push_back(std::move(source.back()));
        source.pop_back();
      }
    };
    move_some(answers.alive, message.updates.alive);
    move_some(answers.suspect, message.updates.suspect);
    move_some(answers.left, message.updates.left);
    outbox.send(to, message);
  }
  if (!wants.empty()) outbox.send(to, Sync{.digest = std::exchange(wants, {}), .reply_wanted = false});
}

Updates Membership::Impl::piggyback(const PeerId& to, bool with_self) {
  Updates updates;
  if (with_self && !leaving) updates.alive.push_back(self);
  // A suspect hears of itself first: one place stays free for that.
  const size_t room = kGossipUpdatesPerFrameMax - 1 - updates.alive.size();
  queue.fill(updates, room, retransmit_count(member_count()), with_self ? self.id : PeerId{});
  std::erase_if(updates.alive, [&](const PeerRecord& record) { return record.id == to; });
  return updates;
}

void Membership::Impl::gossip() {
  const TimePoint now = clock.now();
  if (now < next_gossip) return;
  next_gossip = now + options.probe_interval / 5;
  if (queue.empty()) return;
  for (const PeerId& peer : random_members(kGossipFanOut, self.id, true)) {
    Gossip message{piggyback(peer, false)};
    if (count_of(message.updates) > 0) outbox.send(peer, message);
  }
}

// Every subset, in every order, is equally likely. (Floyd 1987: no walk over all of them.)
std::vector<PeerId> Membership::Impl::random_members(size_t count_max, const PeerId& except, bool with_suspects) {
  const std::vector<const Member*>& first = alive_members();
  const size_t pool = first.size() + (with_suspects ? suspects.size() : 0);
  const size_t wanted = std::min(count_max + 1, pool);   // one of them may be `except`
  std::vector<size_t> places;
  for (size_t last = pool - wanted; last < pool; ++last) {
    const size_t place = rng.below(static_cast<uint32_t>(last + 1));
    const bool taken = std::find(places.begin(), places.end(), place) != places.end();
    places.push_back(taken ? last : place);
  }
  rng.shuffle(places);
  std::vector<PeerId> chosen;
  for (const size_t place : places) {
    const PeerId& peer = place < first.size()
                             ? first[place]->record.id
                             : *std::next(suspects.begin(), static_cast<std::ptrdiff_t>(place - first.size()));
    if (peer != except && chosen.size() < count_max) chosen.push_back(peer);
  }
  return chosen;
}

// Everything live, and the tombstones that are young enough not to come back as zombies.
Sync Membership::Impl::full_sync() const {
  Sync sync{.records = {self}, .reply_wanted = true};
  sync.digest.push_back({self.id, self.version, static_cast<uint8_t>(MemberState::kAlive)});
  const TimePoint now = clock.now();
  for (const bool live : {true, false}) {
    for (const auto& [peer, entry] : table) {
      if ((entry.member.state <= MemberState::kSuspect) != live || sync.digest.size() >= kDigestMax) continue;
      if (!live && now - entry.member.since > options.tombstone_life / 2) continue;
      sync.digest.push_back(digest_of(entry.member));
    }
  }
  return sync;
}

void Membership::Impl::on_sync(const PeerId& from, const Sync& sync) {
  for (const PeerRecord& record : sync.records)
    on_alive(record, record.id == from ? Source::kGossip : Source::kSync);
  Sync reply;
  for (const DigestEntry& entry : sync.digest) on_digest_entry(from, entry, sync.reply_wanted, reply);
  std::vector<PeerRecord> records;
  std::unordered_set<PeerId> listed;
  for (const DigestEntry& entry : sync.digest) {
    listed.insert(entry.id);
    const bool ours = entry.id == self.id;
    const MemberEntry* held = ours ? nullptr : find(entry.id);
    // Whoever left is no news as a living record, and hearsay counts for the same version only.
    if (!ours && (!held || held->member.state == MemberState::kLeft)) continue;
    const PeerRecord& record = ours ? self : held->member.record;
    if (record.version > entry.version) records.push_back(record);
  }
  if (sync.reply_wanted) {
    if (!listed.contains(self.id)) records.push_back(self);
    for (const auto& [peer, entry] : table) {
      if (entry.member.state > MemberState::kSuspect || listed.contains(peer) || peer == from) continue;
      records.push_back(entry.member.record);
      if (entry.member.state == MemberState::kSuspect) reply.digest.push_back(digest_of(entry.member));
    }
  }
  send_sync_reply(from, std::move(reply), std::move(records), sync.reply_wanted);
}

// What `from` believes of one member, against what we do. Dead counts as suspect: each member reaches its own
// verdict.
void Membership::Impl::on_digest_entry(const PeerId& from, const DigestEntry& entry, bool reply_wanted,
                                       Sync& reply) {
  const auto state = static_cast<MemberState>(entry.state);
  if (entry.id == self.id) {
    if (entry.version == self.version && state != MemberState::kAlive) refute();
    return;  // newer: not ours to follow; older: the reply brings our record
  }
  MemberEntry* held = find(entry.id);
  if (!held) {
    if (state <= MemberState::kSuspect) reply.digest.push_back({entry.id, Version{}, 0});
    return;
  }
  Member& member = held->member;
  if (entry.version > member.record.version) {
    if (state != MemberState::kLeft) reply.digest.push_back(digest_of(member));
    return;
  }
  if (entry.version < member.record.version) {
    if (reply_wanted && (member.state == MemberState::kSuspect || member.state == MemberState::kDead)) {
      reply.digest.push_back(digest_of(member));
    }
    return;
  }
  if (state == MemberState::kLeft) {
    if (member.state != MemberState::kLeft) mark_left(*held);
  } else if (state != MemberState::kAlive) {
    if (member.state <= MemberState::kSuspect && entry.id != from && is_live(from)) accuse(*held, from);
  }
  if (reply_wanted && member.state > state) reply.digest.push_back(digest_of(member));
}

void Membership::Impl::send_sync_reply(const PeerId& to, Sync reply, std::vector<PeerRecord> records,
                                       bool always) {
  rng.shuffle(records);
  if (!always && reply.digest.empty() && records.empty()) return;
  if (reply.digest.size() > kDigestMax) reply.digest.resize(kDigestMax);
  // First the records, so that what the digest says about them finds its version; a large digest goes by
  // itself, for the sake of the frame's size.
  constexpr size_t kDigestBesideRecordsMax = 256;
  Sync frame;
  do {
    const size_t count = std::min(records.size(), kSyncRecordsMax);
    frame.records.assign(records.end() - static_cast<std::ptrdiff_t>(count), records.end());
    records.resize(records.size() - count);
    if (records.empty() && reply.digest.size() <= kDigestBesideRecordsMax)
      frame.digest = std::move(reply.digest);
    outbox.send(to, frame);
  } while (!records.empty());
  if (reply.digest.size() > kDigestBesideRecordsMax) outbox.send(to, reply);
}

// Contacts one random living member always, a dead one and a seed by chance: the more of ours are dead, the
// likelier. Alone, it asks all seeds. Newcomers and the lonely compare more often at first.
void Membership::Impl::heal() {
  const TimePoint now = clock.now();
  if (now < next_heal) return;
  reap_tombstones();
  const double known = std::max<double>(1, static_cast<double>(live_count + dead_count));
  const bool alone = live_count == 0;
  next_heal = now + from_seconds(seconds(heal_pause) * (0.5 + rng.uniform()));
  heal_pause = std::min(2 * heal_pause, options.heal_interval);
  if (leaving) return;
  const Sync sync = full_sync();
  for (const PeerId& peer : random_members(1, self.id, true)) outbox.send(peer, sync);
  if (dead_count > 0 && rng.chance(std::max(0.2, static_cast<double>(dead_count) / known))) {
    auto skip = rng.below(static_cast<uint32_t>(dead_count));
    for (const auto& [peer, entry] : table) {
      if (entry.member.state != MemberState::kDead || skip-- > 0) continue;
      outbox.send(peer, sync);
      break;
    }
  }
  if (seeds.empty()) return;
  const auto others = static_cast<uint32_t>(seeds.size());
  if (alone) {
    for (const Endpoint& seed : seeds) outbox.send(seed, sync);
  } else if (rng.chance(std::max(0.2, static_cast<double>(others) / known))) {
    outbox.send(seeds[rng.below(others)], sync);
  }
}

// A member came back from the dead, or we have just met the first: the views differ in more than that.
void Membership::Impl::heal_soon() {
  heal_pause = options.heal_interval / 10;
  next_heal = std::min(next_heal, clock.now() + from_seconds(seconds(heal_pause) * (0.5 + rng.uniform())));
}

void Membership::Impl::advance_meta() {
  if (!pending_meta || leaving || self.version.incarnation >= kIncarnationMax) return;
  // Who begins to train, or ends, is somebody's partner or nobody's: that cannot wait for a probe to ride on.
  const bool new_phase = pending_meta->phase != self.meta.phase;
  if (!new_phase && clock.now() < announced + options.meta_interval) return;
  announce_self(false);
  if (!new_phase) return;
  for (const PeerId& peer : random_members(kToldAtOnceMax, self.id, true)) {
    outbox.send(peer, Gossip{Updates{.alive = {self}}});
  }
}

}  // namespace starling
