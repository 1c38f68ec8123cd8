// How one agent's logs of updates stood at the end, for the pages of a swarm that shares updates.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "agent/report/step_breakdown.h"
#include "gossip/updates/status.h"

namespace starling {

struct LogReport {
  std::string head;  // hex; equal at agents with equal logs, and so equal models
  UpdateCounters counters;
  double held_back = 0;  // norm of what the agent learned and no entry counts
  uint64_t rounds = 0;
  uint64_t bytes_sent = 0, bytes_received = 0;  // all traffic of the agent, joining included
  StepBreakdown step{};                         // of its last seconds
  std::string refused_last{};                   // the sender of what it refused last, a name or id; empty: not known
};

// {"head","entries","behind","splits","states","residual_norm","buckets","plan_since","sent_a_round",
// "received_a_round","step_ms","refused","refused_last"}. step_ms: of forward, backward, other, encode, exposed,
// select; null where it was not measured.
nlohmann::ordered_json print_log(const LogReport& log);

}  // namespace starling
