#include "agent/run/status_report.h"

#include <cmath>
#include <optional>

#include "agent/observe/member_report.h"
#include "agent/run/pair_drift.h"
#include "agent/run/swarm_clock.h"

namespace starling {
namespace {

std::optional<double> measured(double value) {
  return std::isfinite(value) && value >= 0 ? std::optional(value) : std::nullopt;
}

float finite(double value, float otherwise) { return std::isfinite(value) ? static_cast<float>(value) : otherwise; }

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

void report_rounds(const Rounds& rounds, AgentStatus& status) {
  status.steps = rounds.progress().steps;
  status.steps_taken = rounds.steps().taken();
  status.round = rounds.progress().round;
  status.samples = rounds.progress().samples;
  status.loss = measured(rounds.steps().loss());
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

void report_exchange(const ExchangeStatus& exchange, const Membership& membership, AgentStatus& status) {
  status.blocks = exchange.block_tally;
  status.pairs = exchange.pairs;
  status.doubts_parked = exchange.doubts_parked;
  status.group = exchange.group;
  status.updates = exchange.updates;
  status.log_heads = exchange.log_heads;
  if (!exchange.log_heads.empty()) status.held_back = measured(exchange.held_back);
  if (!exchange.refused_last) return;
  const Member* member = membership.find(*exchange.refused_last);
  status.refused_last = member ? print_name(member->record) : exchange.refused_last->short_name();
}

}  // namespace

AgentStatus agent_status(Phase phase, const SwarmConfig* swarm, const Rounds* rounds, const ExchangeMachine* exchange,
                         const Router& router, const TransportCounters& traffic) {
  AgentStatus status = member_status(router, traffic);
  status.phase = phase_name(phase);
  if (rounds) report_rounds(*rounds, status);
  if (exchange) report_exchange(exchange->status(), router.membership(), status);
  if (swarm) status.drift = pair_drift(*swarm, {"", status.pairs, status.steps_taken}, status.peers + 1);
  return status;
}

MemberMeta agent_meta(const std::string& name, Phase phase, const Rounds* rounds) {
  MemberMeta meta;
  meta.name = name;
  meta.phase = phase;
  if (!rounds) return meta;
  meta.round = rounds->progress().round;
  meta.steps = rounds->progress().steps;
  meta.samples = rounds->progress().samples;
  meta.mass = rounds->mass();
  meta.steps_per_s = static_cast<float>(rounds->steps().pace().steps_per_s());
  meta.loss = finite(rounds->steps().loss(), 0);
  meta.accuracy = finite(rounds->accuracy(), -1);
  meta.distance = finite(rounds->relative_distance(), -1);
  if (const auto& projection = rounds->projection()) meta.projection.assign(projection->begin(), projection->end());
  return meta;
}

}  // namespace starling
