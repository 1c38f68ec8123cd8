#include "agent/observe/member_report.h"

#include <algorithm>
#include <vector>

namespace starling {
namespace {

void count_cause(DecodeStatus cause, uint64_t count, FramesRefused& refused) {
  switch (cause) {
    case DecodeStatus::kOk: break;
    case DecodeStatus::kTooShort: refused.too_short = count; break;
    case DecodeStatus::kTooLong: refused.too_long = count; break;
    case DecodeStatus::kBadMagic: refused.bad_magic = count; break;
    case DecodeStatus::kWrongVersion: refused.wrong_version = count; break;
    case DecodeStatus::kBadChecksum: refused.bad_checksum = count; break;
    case DecodeStatus::kMalformed: refused.malformed = count; break;
    case DecodeStatus::kUnknownMessage: refused.unknown_message = count; break;
    case DecodeStatus::kOutOfRange: refused.out_of_range = count; break;
    case DecodeStatus::kWrongChannel: refused.wrong_channel = count; break;
    case DecodeStatus::kPayloadMismatch: refused.payload_mismatch = count; break;
  }
}

FramesRefused count_refused(const RouterCounters& router, const TransportCounters& transport) {
  FramesRefused refused;
  refused.wrong_parts = transport.frames_refused;
  refused.wrong_sender = router.wrong_sender;
  refused.other_swarm = router.other_swarm;
  for (size_t i = 0; i < router.undecoded.size(); ++i) {
    count_cause(static_cast<DecodeStatus>(i), router.undecoded[i], refused);
  }
  return refused;
}

const char* change_name(MemberEventKind kind) {
  switch (kind) {
    case MemberEventKind::kJoined: return "joined";
    case MemberEventKind::kSuspected: return "suspected";
    case MemberEventKind::kAliveAgain: return "alive";
    case MemberEventKind::kDied: return "died";
    case MemberEventKind::kLeft: return "left";
    case MemberEventKind::kRestarted: return "restarted";
    case MemberEventKind::kReaped: break;
  }
  return "";
}

}  // namespace

const char* phase_name(Phase phase) {
  switch (phase) {
    case Phase::kJoining: return "joining";
    case Phase::kTraining: return "training";
    case Phase::kSettling: return "settling";
    case Phase::kFinished: return "finished";
    case Phase::kSick: return "sick";
  }
  return "?";
}

uint64_t peer_count(const Membership& membership) {
  const std::vector<Member> members = membership.alive();
  return static_cast<uint64_t>(std::count_if(
      members.begin(), members.end(), [](const Member& member) { return member.record.meta.role == Role::kAgent; }));
}

AgentStatus traffic_status(const RouterCounters& counters, const TransportCounters& traffic) {
  AgentStatus status;
  status.bytes_sent = traffic.bytes_sent;
  status.bytes_received = traffic.bytes_received;
  status.links = traffic.links;
  status.frames = {traffic.frames_sent, traffic.frames_received, traffic.frames_dropped, counters.sends_failed};
  status.frames_refused = count_refused(counters, traffic);
  status.joins = {counters.joins, counters.joins_refused, counters.joins_dropped, counters.joins_older};
  status.proposals_refused = counters.proposals_refused;
  return status;
}

AgentStatus member_status(const Router& router, const TransportCounters& traffic) {
  AgentStatus status = traffic_status(router.counters(), traffic);
  status.peers = peer_count(router.membership());
  status.given = {router.donor().counters().blocks_sent, router.donor().counters().bytes_sent};
  status.membership = router.membership().counters();
  return status;
}

std::optional<MemberChanged> member_changed(const Membership& membership, const MemberEvent& event) {
  if (event.kind == MemberEventKind::kReaped) return std::nullopt;
  const Member* member = membership.find(event.peer);
  if (!member) return MemberChanged{event.peer.hex(), "", change_name(event.kind), ""};
  const PeerRecord& record = member->record;
  return MemberChanged{event.peer.hex(), record.meta.name, change_name(event.kind), record.endpoint.to_string()};
}

}  // namespace starling
