#include "agent/run/status_report.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "agent/observe/member_report.h"
#include "agent/report/version.h"
#include "agent/run/pair_drift.h"
#include "agent/run/swarm_clock.h"

namespace starling {
namespace {

std::optional<double> measured(double value) {
  return std::isfinite(value) && value >= 0 ? std::optional(value) : std::nullopt;
}

float finite(double value, float otherwise) { return std::isfinite(value) ? static_cast<float>(value) : otherwise; }

uint32_t count(uint64_t number) { return static_cast<uint32_t>(std::min<uint64_t>(number, UINT32_MAX)); }

void report_rounds(const Rounds& rounds, AgentStatus& status) {
  status.steps = rounds.progress().steps;
  status.steps_taken = rounds.steps().taken();
  status.round = rounds.progress().round;
  status.samples = rounds.progress().samples;
  status.swarm_steps = rounds.steps().swarm_steps();
  status.first_steps = rounds.in_first_steps();
  if (const auto loss = rounds.steps().loss(); loss && std::isfinite(*loss)) status.loss = loss;
  status.first_loss = rounds.steps().first_loss();
  status.rounds_diverging = rounds.steps().rounds_diverging();
  status.accuracy = measured(rounds.accuracy());
  status.distance = measured(rounds.relative_distance());
  if (const auto agreement = rounds.agreement()) {
    status.swarm_distance = agreement->to_mean;
    status.spread = agreement->farthest;
  }
  status.learning_rate = rounds.steps().learning_rate();
  status.steps_per_s = rounds.steps().pace().steps_per_s();
  status.threads = rounds.steps().threads();
  status.step = rounds.steps().pace().times().mean();
  status.exchanges = rounds.tally();
  status.left_out_last = rounds.left_out_last();
}

void report_rooms(const RoomStatus& rooms, const Membership& membership, AgentStatus& status) {
  status.pairs = rooms.pairs.counters;
  status.doubts_parked = rooms.pairs.doubts_parked;
  status.group = rooms.group;
  status.updates = rooms.updates.counters;
  status.log_heads = rooms.updates.log_heads;
  if (!status.log_heads.empty()) status.held_back = measured(rooms.updates.held_back);
  if (!rooms.updates.refused_last) return;
  const Member* member = membership.find(*rooms.updates.refused_last);
  status.refused_last = member ? print_name(member->record) : rooms.updates.refused_last->short_name();
}

}  // namespace

AgentStatus agent_status(Phase phase, const SwarmConfig* swarm, const Rounds* rounds, const ExchangeMachine* exchange,
                         const RoomStatus& rooms, const Router& router, const TransportCounters& traffic) {
  AgentStatus status = member_status(router, traffic);
  status.phase = phase_name(phase);
  if (rounds) report_rounds(*rounds, status);
  if (exchange) status.blocks = exchange->status().block_tally;
  report_rooms(rooms, router.membership(), status);
  if (swarm) status.drift = pair_drift(*swarm, {"", rooms.pairs_in_training, status.steps_taken}, status.peers + 1);
  return status;
}

MemberMeta agent_meta(const std::string& name, Phase phase, const Rounds* rounds) {
  MemberMeta meta;
  meta.name = name;
  meta.phase = phase;
  meta.program = kProgram;
  if (!rounds) return meta;
  meta.round = rounds->progress().round;
  meta.steps = rounds->progress().steps;
  meta.samples = rounds->progress().samples;
  meta.mass = rounds->mass();
  meta.steps_per_s = static_cast<float>(rounds->steps().pace().steps_per_s());
  meta.loss = finite(rounds->steps().loss().value_or(0), 0);
  meta.accuracy = finite(rounds->accuracy(), -1);
  meta.test_loss = finite(rounds->test_loss(), -1);
  meta.pause = rounds->pause();
  meta.unsaved = !rounds->save_error().empty();
  meta.done = count(rounds->tally().completed());
  meta.failed = count(rounds->tally().failed);
  meta.distance = finite(rounds->relative_distance(), -1);
  if (const auto& projection = rounds->projection()) meta.projection.assign(projection->begin(), projection->end());
  return meta;
}

}  // namespace starling
