#include "agent/run/node.h"

#include <cstring>
#include <span>
#include <utility>
#include <variant>

#include <spdlog/spdlog.h>

#include "agent/config/config.h"
#include "gossip/net/hash.h"
#include "gossip/net/wire.h"

namespace starling {
namespace {

constexpr int kFramesPerTickMax = 256;   // then timers get their turn
constexpr Duration kRefusalLogEvery = std::chrono::seconds(5);

template <typename... Calls>
struct Overloaded : Calls... {
  using Calls::operator()...;
};

std::string display_name(const Membership& membership, const PeerId& id) {
  const Member* member = membership.find(id);
  if (!member || member->record.meta.name.empty()) return id.short_name();
  return member->record.meta.name + " (" + id.short_name() + ")";
}

}  // namespace

uint64_t swarm_id_of(const std::string& settings) {
  const auto hash = blake2b_256(std::as_bytes(std::span(settings)));
  uint64_t id;
  std::memcpy(&id, hash.data(), sizeof id);
  return id ? id : 1;
}

Node::Node(PeerRecord self, const MembershipOptions& options, std::vector<Endpoint> seeds, Transport& transport,
           const Clock& clock, uint64_t rng_seed)
    : transport_(transport), clock_(clock),
      membership_(options, std::move(self), clock, *this, rng_seed),
      donor_(membership_, *this, describe_difference) {
  membership_.set_seeds(std::move(seeds));
}

void Node::set_settings(const std::string& settings) {
  settings_ = settings;
  swarm_id_ = settings.empty() ? 0 : swarm_id_of(settings);
  donor_.set_settings(settings);
}

TimePoint Node::next_deadline() const { return membership_.next_deadline(); }

void Node::tick(Handler& handler) {
  for (int i = 0; i < kFramesPerTickMax; ++i) {
    const std::optional<ReceivedFrame> frame = transport_.poll();
    if (!frame) break;
    receive(handler, *frame);
  }
  if (donor_.settings() != settings_) {   // a registry met its first agent
    set_settings(donor_.settings());
    spdlog::info("adopted the settings of the first agent; this registry now serves its swarm");
  }
  membership_.tick();
  for (const MemberEvent& event : membership_.take_events()) {
    tell(event);
    if (event.kind == MemberEventKind::kDied || event.kind == MemberEventKind::kLeft) {
      if (const Member* member = membership_.find(event.peer)) transport_.forget(member->record.endpoint);
    }
    handler.on_member(event);
  }
}

void Node::receive(Handler& handler, const ReceivedFrame& frame) {
  FrameHeader header;
  Message message;
  const DecodeStatus status =
      decode_frame(frame.channel, frame.header.span(), frame.payload.span(), &header, &message);
  if (status != DecodeStatus::kOk) {
    ++counters_.frames_refused;
    if (clock_.now() >= next_refusal_log_) {
      next_refusal_log_ = clock_.now() + kRefusalLogEvery;
      spdlog::warn("refused a frame of {} + {} bytes: {} ({} so far)", frame.header.size, frame.payload.size,
                   describe(status), counters_.frames_refused);
    }
    return;
  }
  if (header.sender == membership_.self().id) return;   // our own address among the seeds
  const bool joining = message_is<Join, JoinReply, JoinRefused>(message);
  const bool ours = swarm_id_ != 0 && header.swarm == swarm_id_;
  if (!ours && !joining) {
    ++counters_.frames_foreign;
    return;
  }
  if (ours) membership_.heard_from(header.sender, header.generation);
  std::visit(Overloaded{
      [&](const MembershipMessage& m) { membership_.handle(header.sender, m); },
      [&](const BootstrapMessage& m) {
        donor_.handle(header, m);
        handler.on_bootstrap(header, m, frame.payload);
      },
      [&](const ExchangeMessage& m) { handler.on_exchange(header, m, frame.payload); },
  }, message);
}

void Node::send(const PeerId& to, const Message& message, SharedBytes payload) {
  const Member* member = membership_.find(to);
  if (!member) {
    ++counters_.sends_failed;
    return;
  }
  send(member->record.endpoint, message, std::move(payload));
}

void Node::send(const Endpoint& to, const Message& message, SharedBytes payload) {
  const PeerRecord& self = membership_.self();
  const FrameHeader header{swarm_id_, self.id, self.version.generation, self.endpoint};
  Frame frame{encode_frame_header(header, message, payload.span(), payload.checksum), std::move(payload)};
  if (transport_.send(to, channel_of(message), std::move(frame)) != SendStatus::kQueued) ++counters_.sends_failed;
}

void Node::tell(const MemberEvent& event) {
  const std::string name = display_name(membership_, event.peer);
  switch (event.kind) {
    case MemberEventKind::kJoined: spdlog::info("{} joined", name); break;
    case MemberEventKind::kSuspected: spdlog::info("{} does not answer; suspected", name); break;
    case MemberEventKind::kAliveAgain: spdlog::info("{} answers again", name); break;
    case MemberEventKind::kDied: spdlog::warn("{} is gone", name); break;
    case MemberEventKind::kLeft: spdlog::info("{} left", name); break;
    case MemberEventKind::kRestarted: spdlog::info("{} restarted", name); break;
  }
}

}  // namespace starling
