#include "gossip/membership/anti_entropy.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "gossip/limits.h"

namespace starling {
namespace {

constexpr size_t kDigestMax = kMembersMax;
constexpr size_t kDigestBesideRecordsMax = 256;
constexpr Duration kToldDead = std::chrono::minutes(10);  // readers are told of members that died so recently

DigestEntry digest_of(const Member& member) {
  return {member.record.id, member.record.version, static_cast<uint8_t>(member.state)};
}

}  // namespace

AntiEntropy::AntiEntropy(MembershipContext& context, MemberTable& table, const OwnRecord& own, OwnNews& own_news,
                         MemberRules& rules, HealSchedule& schedule)
    : context_(context), table_(table), own_(own), own_news_(own_news), rules_(rules), schedule_(schedule) {}

void AntiEntropy::set_seeds(std::vector<Endpoint> seeds) {
  std::erase(seeds, own_.record().endpoint);
  seeds_ = std::move(seeds);
}

// Contacts one random live member, and by chance a dead member and a seed. The dead member is the likelier the more
// members are dead, the seed the likelier the fewer members are known. An agent alone contacts all seeds.
void AntiEntropy::tick() {
  if (context_.clock.now() < schedule_.next()) return;
  rules_.reap_tombstones();
  schedule_.advance();
  if (own_.leaving()) return;
  Rng& rng = context_.rng;
  const double known = std::max<double>(1, static_cast<double>(table_.live_count() + table_.dead_count()));
  const Sync sync = full_sync();
  for (const PeerId& peer : table_.random_members(rng, 1, own_.id(), true)) context_.outbox.send(peer, sync);
  const size_t dead = table_.dead_count();
  if (dead > 0 && rng.chance(std::max(0.2, static_cast<double>(dead) / known))) {
    auto skip = rng.below(static_cast<uint32_t>(dead));
    for (const auto& [peer, entry] : table_.rows()) {
      if (entry.member.state != MemberState::kDead || skip-- > 0) continue;
      context_.outbox.send(peer, sync);
      break;
    }
  }
  if (seeds_.empty()) return;
  const auto others = static_cast<uint32_t>(seeds_.size());
  if (table_.live_count() == 0) {
    for (const Endpoint& seed : seeds_) context_.outbox.send({seed}, sync);
  } else if (rng.chance(std::max(0.2, static_cast<double>(others) / known))) {
    context_.outbox.send({seeds_[rng.below(others)]}, sync);
  }
}

// All live members, and the tombstones in the first half of their life. Older ones are not sent: a receiver would keep
// them after this agent has dropped them.
Sync AntiEntropy::full_sync() const {
  Sync sync{.records = {own_.record()}, .reply_wanted = true, .revoked = context_.revoked_sum()};
  sync.digest.push_back({own_.id(), own_.version(), static_cast<uint8_t>(MemberState::kAlive)});
  const TimePoint now = context_.clock.now();
  for (const bool live : {true, false}) {
    for (const auto& [peer, entry] : table_.rows()) {
      if ((entry.member.state <= MemberState::kSuspect) != live || sync.digest.size() >= kDigestMax) continue;
      if (!live && now - entry.member.since > context_.options.tombstone_life / 2) continue;
      sync.digest.push_back(digest_of(entry.member));
    }
  }
  return sync;
}

std::vector<Sync> AntiEntropy::pages(uint64_t nonce) const {
  std::vector<Sync> pages(1, Sync{.records = {own_.record()}, .nonce = nonce});
  size_t bytes = own_.record().sealed.size();
  for (const auto& [peer, entry] : table_.rows()) {
    const Member& member = entry.member;
    if (member.state == MemberState::kLeft) continue;
    if (member.state == MemberState::kDead && context_.clock.now() - member.since > kToldDead) continue;
    if (pages.back().records.size() == kSyncRecordsMax || bytes > 2 * kSealedPerFrameMax) {  // no settings beside them
      pages.push_back(Sync{.nonce = nonce});
      bytes = 0;
    }
    pages.back().records.push_back(member.record);
    bytes += member.record.sealed.size();
    if (member.state != MemberState::kAlive) pages.back().digest.push_back(digest_of(member));
  }
  for (size_t i = 0; i < pages.size(); ++i) {
    pages[i].page = static_cast<uint16_t>(i);
    pages[i].pages = static_cast<uint16_t>(pages.size());
  }
  return pages;
}

void AntiEntropy::on_sync(const PeerId& from, const Sync& sync) {
  if (sync.revoked != context_.revoked_sum() && context_.revoked_sum() != 0) {
    context_.outbox.send(from, Revoked{context_.revocations->bytes()});
  }
  for (const PeerRecord& record : sync.records) {
    rules_.on_alive(record, record.id == from ? MemberRules::Source::kGossip : MemberRules::Source::kSync);
  }
  Sync reply;
  for (const DigestEntry& entry : sync.digest) on_digest_entry(from, entry, sync.reply_wanted, reply);
  std::vector<PeerRecord> records = newer_records(from, sync, reply);
  send_reply(from, std::move(reply), std::move(records), sync.reply_wanted);
}

// The records of which `from` has an older version; if it wants a reply, also those of members that it did not list.
std::vector<PeerRecord> AntiEntropy::newer_records(const PeerId& from, const Sync& sync, Sync& reply) {
  std::vector<PeerRecord> records;
  std::unordered_set<PeerId> listed;
  for (const DigestEntry& entry : sync.digest) {
    listed.insert(entry.id);
    const bool ours = entry.id == own_.id();
    const MemberEntry* held = ours ? nullptr : table_.find(entry.id);
    // The record of a member that left is not sent: it would look like a live member's, and a third party's word that
    // a member left counts only for the same version.
    if (!ours && (!held || held->member.state == MemberState::kLeft)) continue;
    const PeerRecord& record = ours ? own_.record() : held->member.record;
    if (record.version > entry.version) records.push_back(record);
  }
  if (!sync.reply_wanted) return records;
  if (!listed.contains(own_.id())) records.push_back(own_.record());
  for (const auto& [peer, entry] : table_.rows()) {
    if (entry.member.state > MemberState::kSuspect || listed.contains(peer) || peer == from) continue;
    records.push_back(entry.member.record);
    if (entry.member.state == MemberState::kSuspect) reply.digest.push_back(digest_of(entry.member));
  }
  return records;
}

// Compares what `from` believes of one member with this agent's view. A dead state counts as an accusation only, since
// each agent decides itself when a suspect is dead. Where farewells are signed, this agent asks for that of a
// member that left by its own view of it, and gives it in answer to such a view.
void AntiEntropy::on_digest_entry(const PeerId& from, const DigestEntry& entry, bool reply_wanted, Sync& reply) {
  const auto state = static_cast<MemberState>(entry.state);
  if (entry.id == own_.id()) {
    if (entry.version == own_.version() && state != MemberState::kAlive) own_news_.refute();
    return;  // a newer version of the own record is not believed; for an older one the reply carries the record
  }
  MemberEntry* held = table_.find(entry.id);
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
  const bool left = state == MemberState::kLeft, holds_left = member.state == MemberState::kLeft;
  if (context_.keys && left != holds_left) {
    if (left) reply.digest.push_back(digest_of(member));
    if (holds_left) rules_.answer_about(*held);
    return;
  }
  if (left) {
    if (!holds_left) rules_.mark_left(*held);
  } else if (state != MemberState::kAlive) {
    if (member.state <= MemberState::kSuspect && entry.id != from && table_.is_live(from)) rules_.accuse(*held, from);
  }
  if (reply_wanted && member.state > state) reply.digest.push_back(digest_of(member));
}

// Records go first, so that the digest's entries find the versions they refer to. A large digest goes in a frame of its
// own, so that no frame exceeds its limit.
void AntiEntropy::send_reply(const PeerId& to, Sync reply, std::vector<PeerRecord> records, bool always) {
  context_.rng.shuffle(records);
  if (!always && reply.digest.empty() && records.empty()) return;
  if (reply.digest.size() > kDigestMax) reply.digest.resize(kDigestMax);
  reply.revoked = context_.revoked_sum();
  Sync frame{.revoked = reply.revoked};
  do {
    auto first = records.end();
    for (size_t bytes = 0; first != records.begin() && bytes <= kSealedPerFrameMax;) {
      if (records.end() - first == static_cast<std::ptrdiff_t>(kSyncRecordsMax)) break;
      bytes += (--first)->sealed.size();
    }
    frame.records.assign(first, records.end());
    records.erase(first, records.end());
    if (records.empty() && reply.digest.size() <= kDigestBesideRecordsMax) frame.digest = std::move(reply.digest);
    context_.outbox.send(to, frame);
  } while (!records.empty());
  if (reply.digest.size() > kDigestBesideRecordsMax) context_.outbox.send(to, reply);
}

}  // namespace starling
