#include "tools/attack/stranger.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "bootstrap/router.h"
#include "gossip/net/wire.h"

namespace starling {
namespace {

constexpr size_t kAskedMax = 100'000;
constexpr uint32_t kPatienceMs = 2000;  // that its proposals announce

template <typename Kind>
const Updates* updates_in(const Kind& kind) {
  if constexpr (requires { kind.updates; }) return &kind.updates;
  return nullptr;
}

}  // namespace

Stranger::Stranger(Transport& transport, const Clock& clock, uint64_t generation, uint64_t rng_seed,
                   const MemberKeys* keys)
    : transport_(transport), clock_(clock), generation_(generation), rng_(rng_seed), keys_(keys) {}

PeerId Stranger::new_id() {
  PeerId id = keys_ ? keys_->self() : PeerId{};
  for (size_t i = 0; !keys_ && i < id.bytes.size(); i += sizeof(uint64_t)) {
    const uint64_t word = rng_.next_u64();
    std::memcpy(id.bytes.data() + i, &word, sizeof word);
  }
  own_.try_emplace(id);
  return id;
}

std::vector<PeerId> Stranger::new_ids(size_t count) {
  std::vector<PeerId> ids(count);
  std::generate(ids.begin(), ids.end(), [this] { return new_id(); });
  return ids;
}

void Stranger::tick() {
  while (const std::optional<ReceivedFrame> frame = transport_.poll()) {
    FrameHeader header;
    Message message;
    const DecodeStatus status =
        decode_frame(frame->channel, frame->header.span(), frame->payload.span(), &header, &message);
    if (status != DecodeStatus::kOk) continue;
    receive(header, message);
    on_frame(header, message);
  }
}

void Stranger::receive(const FrameHeader& header, const Message& message) {
  if (const auto* cookie = message_as<JoinCookie>(message)) {
    const auto asked = asked_.find(cookie->nonce);
    if (asked == asked_.end()) return;
    asked->second.join.cookie = cookie->cookie;
    send(asked->second.to, asked->second.join.record.id, asked->second.join);
  } else if (const auto* reply = message_as<JoinReply>(message)) {
    asked_.erase(reply->nonce);
    if (reply->settings.empty()) return;
    settings_ = reply->settings;
    swarm_id_ = swarm_id_of(settings_);
    for (const PeerRecord& one : reply->members) learn(one);
  } else if (const auto* ping = message_as<Ping>(message)) {
    if (own_.contains(ping->target)) send(header.reply_to, ping->target, PingAck{ping->sequence, {}});
  }
  visit_kind(
      [this](const auto& kind) {
        const Updates* updates = updates_in(kind);
        if (updates == nullptr) return;
        for (const PeerRecord& one : updates->alive) learn(one);
      },
      message);
}

void Stranger::learn(const PeerRecord& record) {
  if (own_.contains(record.id) || record.meta.role != Role::kAgent) return;
  PeerRecord& known = members_.try_emplace(record.id, record).first->second;
  if (record.version > known.version) known = record;
}

PeerRecord Stranger::record(const PeerId& id, uint64_t steps, Phase phase) const {
  PeerRecord record{id, {generation_, 0}, address(), {}};
  record.meta.phase = phase;
  record.meta.steps = steps;
  record.meta.steps_per_s = 1;
  record.meta.name = "stranger";
  return record;
}

PeerRecord Stranger::signed_as(PeerRecord record, bool farewell) const {
  if (keys_ == nullptr) return record;
  record.farewell = farewell;
  if (record.id == keys_->self()) {
    keys_->seal(record);
  } else {
    record.sealed.resize(kProofBytes);
    record.sealed += pack_record(record);
  }
  return record;
}

void Stranger::join(const PeerId& id, const Endpoint& to, uint64_t steps, Phase phase) {
  own_[id] = steps;
  if (asked_.size() >= kAskedMax) asked_.clear();
  const uint64_t nonce = rng_.next_u64();
  Asked& asked = asked_[nonce];
  asked.to = to;
  asked.join = Join{.record = signed_as(record(id, steps, phase)), .settings = {}, .nonce = nonce};
  send(to, id, asked.join);
}

void Stranger::send(const Endpoint& to, const PeerId& as, const Message& message, const SharedBytes& payload) {
  const uint64_t swarm = message_is<Join>(message) ? 0 : swarm_id_;
  send(to, FrameHeader{swarm, as, generation_, address()}, message, payload);
}

void Stranger::send(const Endpoint& to, const FrameHeader& header, const Message& message, const SharedBytes& payload) {
  send(to, channel_of(message), Frame{encode_frame_header(header, message, payload.span(), payload.checksum), payload});
}

void Stranger::send(const Endpoint& to, Channel channel, Frame frame) {
  if (transport_.send(sink_.value_or(to), channel, std::move(frame)) == SendStatus::kQueued) ++frames_sent_;
}

ExchangeId Stranger::propose(const PeerRecord& to, const PeerId& as, const std::vector<SharedBytes>& blocks,
                             double mass) {
  const ExchangeId xid{as, generation_, ++exchanges_};
  send(to.endpoint, as,
       Propose{.xid = xid, .mass = mass, .deadline_ms = kPatienceMs, .credit = static_cast<uint32_t>(blocks.size())});
  for (uint32_t i = 0; i < blocks.size(); ++i) send(to.endpoint, as, BlockPayload{xid, i, 0}, blocks[i]);
  return xid;
}

}  // namespace starling
