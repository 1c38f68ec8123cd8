#include "gossip/membership/dissemination.h"

#include <utility>

#include "gossip/limits.h"
#include "gossip/membership/suspicion.h"

namespace starling {
namespace {

constexpr size_t kGossipFanOut = 3;
constexpr size_t kToldAtOnceMax = 64;  // members that hear of a new phase directly

size_t count_of(const Updates& updates) { return updates.alive.size() + updates.suspect.size() + updates.left.size(); }

}  // namespace

Dissemination::Dissemination(MembershipContext& context, MemberTable& table, const OwnRecord& own, UpdateQueue& queue)
    : context_(context), table_(table), own_(own), queue_(queue), next_gossip_(context.clock.now()) {}

void Dissemination::tick() {
  const TimePoint now = context_.clock.now();
  if (now < next_gossip_) return;
  next_gossip_ = now + context_.options.probe_interval / 5;
  if (queue_.empty()) return;
  for (const PeerId& peer : table_.random_members(context_.rng, kGossipFanOut, own_.id(), true)) {
    Gossip message{piggyback(peer, false)};
    if (count_of(message.updates) > 0) context_.outbox.send(peer, message);
  }
}

TimePoint Dissemination::next_deadline() const { return queue_.empty() ? TimePoint::max() : next_gossip_; }

Updates Dissemination::piggyback(const PeerId& to, bool with_self) {
  Updates updates;
  if (with_self && !own_.leaving()) updates.alive.push_back(own_.record());
  // A suspect hears of itself first: one place stays free for that.
  const size_t room = kGossipUpdatesPerFrameMax - 1 - updates.alive.size();
  queue_.fill(updates, room, retransmit_count(table_.member_count()), with_self ? own_.id() : PeerId{});
  std::erase_if(updates.alive, [&](const PeerRecord& record) { return record.id == to; });
  return updates;
}

void Dissemination::tell_own_record() {
  for (const PeerId& peer : table_.random_members(context_.rng, kToldAtOnceMax, own_.id(), true)) {
    context_.outbox.send(peer, Gossip{Updates{.alive = {own_.record()}}});
  }
}

void Dissemination::clear_answers() {
  answers_ = {};
  answer_with_self_ = false;
  wants_.clear();
}

void Dissemination::answer_about(MemberEntry& entry) {
  const TimePoint now = context_.clock.now();
  if (entry.told != TimePoint{} && now - entry.told < context_.options.probe_interval) return;
  entry.told = now;
  const PeerRecord& record = entry.member.record;
  switch (entry.member.state) {
    case MemberState::kAlive: answers_.alive.push_back(record); break;
    case MemberState::kSuspect:
      answers_.alive.push_back(record);
      answers_.suspect.push_back({record.id, record.version, entry.accusers.front()});
      break;
    case MemberState::kDead:  // our own verdict: we answer for it ourselves
      answers_.alive.push_back(record);
      answers_.suspect.push_back({record.id, record.version, own_.id()});
      break;
    case MemberState::kLeft:
      if (!context_.is_revoked(record.id)) answers_.left.push_back(record);
      break;
  }
}

void Dissemination::flush_answers(const PeerId& to) {
  if (std::exchange(answer_with_self_, false) && !own_.leaving()) answers_.alive.push_back(own_.record());
  while (count_of(answers_) > 0) {
    Gossip message;
    const auto move_some = [&message](auto& source, auto& target) {
      while (!source.empty() && count_of(message.updates) < kGossipUpdatesPerFrameMax) {
        target.push_back(std::move(source.back()));
        source.pop_back();
      }
    };
    move_some(answers_.alive, message.updates.alive);
    move_some(answers_.suspect, message.updates.suspect);
    move_some(answers_.left, message.updates.left);
    context_.outbox.send(to, message);
  }
  if (!wants_.empty())
    context_.outbox.send(
        to, Sync{.digest = std::exchange(wants_, {}), .reply_wanted = false, .revoked = context_.revoked_sum()});
}

}  // namespace starling
