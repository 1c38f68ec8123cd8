#include "agent/report/log_report.h"

#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>

namespace starling {

namespace {

nlohmann::ordered_json number(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

nlohmann::ordered_json print_log(const LogReport& log) {
  const StepBreakdown& step = log.step;
  const uint64_t rounds = std::max<uint64_t>(1, log.rounds);
  return {{"head", log.head},
          {"entries", log.counters.entries},
          {"behind", log.counters.behind},
          {"splits", log.counters.short_splits + log.counters.long_splits},
          {"states", log.counters.states_adopted},
          {"residual_norm", log.held_back},
          {"buckets", log.counters.buckets},
          {"plan_since", log.counters.plan_since},
          {"sent_a_round", log.bytes_sent / rounds},
          {"received_a_round", log.bytes_received / rounds},
          {"step_ms",
           {number(step.forward_ms), number(step.backward_ms), number(step.other_ms), number(step.encode_ms),
            number(step.exposed_ms), number(step.select_ms)}},
          {"refused", log.counters.refused()},
          {"refused_last", log.refused_last}};
}

}  // namespace starling
