#include "agent/run/router_log.h"

#include <string>

#include <spdlog/spdlog.h>

namespace starling {
namespace {

constexpr Duration kRefusalEvery = std::chrono::seconds(5);

std::string display_name(const Membership& membership, const PeerId& id) {
  const Member* member = membership.find(id);
  if (!member || member->record.meta.name.empty()) return id.short_name();
  return member->record.meta.name + " (" + id.short_name() + ")";
}

}  // namespace

void RouterLog::member(const Membership& membership, const MemberEvent& event) const {
  const std::string name = display_name(membership, event.peer);
  switch (event.kind) {
    case MemberEventKind::kJoined: spdlog::info("{} joined", name); break;
    case MemberEventKind::kSuspected: spdlog::info("{} does not answer; suspected", name); break;
    case MemberEventKind::kAliveAgain: spdlog::info("{} answers again", name); break;
    case MemberEventKind::kDied: spdlog::warn("{} is gone", name); break;
    case MemberEventKind::kLeft: spdlog::info("{} left", name); break;
    case MemberEventKind::kRestarted: spdlog::info("{} restarted", name); break;
    case MemberEventKind::kReaped: break;
  }
}

void RouterLog::refused(const ReceivedFrame& frame, const char* cause, const RouterCounters& counters) {
  if (clock_.now() < next_refusal_) return;
  next_refusal_ = clock_.now() + kRefusalEvery;
  spdlog::warn("refused a frame of {} + {} bytes: {} ({} so far)", frame.header.size, frame.payload.size, cause,
               counters.frames_refused() - counters.other_swarm);
}

}  // namespace starling
