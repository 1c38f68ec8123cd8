#include "agent/local/swarm_report.h"

#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include "agent/local/distance.h"

namespace starling {
namespace {

std::string local_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[64];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

AgentReport make_agent_report(const SwarmMember& member, bool newcomer, double origin) {
  const AgentTrack& track = member.track();
  const auto shift = [&](const std::vector<MetricsPoint>& points) {
    std::vector<ReportPoint> shifted;
    for (const MetricsPoint& point : points) shifted.push_back({point.wall_s - origin, point.steps, point.value});
    return shifted;
  };
  AgentReport agent;
  agent.name = member.name();
  agent.peer = track.peer;
  agent.classes = track.labels;
  agent.state = to_string(member.state());
  agent.shard = member.shard();
  agent.newcomer = newcomer;
  if (track.joined_wall_s) agent.joined_at_s = std::max(0.0, *track.joined_wall_s - origin);
  if (member.killed_wall_s()) agent.killed_at_s = *member.killed_wall_s() - origin;
  agent.accuracy = track.accuracy;
  agent.swarm_distance = track.swarm_distance;
  agent.spread = track.spread;
  agent.steps = track.steps;
  agent.exchanges = track.exchanges;
  agent.left_out_last = track.status.left_out_last;
  agent.settled = track.settled;
  agent.proposals_refused = track.status.proposals_refused;
  agent.bytes_sent = track.bytes_sent;
  agent.bytes_received = track.bytes_received;
  agent.sent_a_round = track.status.sent_a_round;
  agent.sent_last_round = track.status.sent_last_round;
  agent.failure = member.failure();
  agent.accuracies = shift(track.accuracies);
  agent.losses = shift(track.losses);
  agent.distances = shift(track.distances);
  agent.swarm_distances = shift(track.swarm_distances);
  agent.spreads = shift(track.spreads);
  agent.sent = shift(track.sent);
  agent.partners = track.partners;
  if (!track.status.log_heads.empty()) {
    agent.log = {track.status.log_heads,    track.status.updates,     track.status.held_back.value_or(0),
                 track.status.group.rounds, track.bytes_sent,         track.bytes_received,
                 track.status.step,         track.status.refused_last};
  }
  if (track.pairs.any()) agent.pairs = track.pairs;
  if (agent.pairs) agent.pairs->name = agent.name;
  return agent;
}

}  // namespace

SwarmReport make_swarm_report(const SwarmMembers& members, size_t founders, const SwarmTimes& times) {
  SwarmReport report;
  report.made_at = local_date();
  report.seconds = times.seconds;
  std::vector<std::string> living;
  for (size_t i = 0; i < members.size(); ++i) {
    report.agents.push_back(make_agent_report(*members[i], i >= founders, times.origin_wall_s));
    if (members[i]->state() == ProcessState::kFinished) living.push_back(members[i]->state_dir());
  }
  report.distance = params_distance(living);
  return report;
}

}  // namespace starling
