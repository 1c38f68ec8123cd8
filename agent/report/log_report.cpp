#include "agent/report/log_report.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace starling {

nlohmann::ordered_json print_log(const LogReport& log) {
  const uint64_t rounds = std::max<uint64_t>(1, log.rounds);
  return {{"head", log.head},
          {"entries", log.counters.entries},
          {"behind", log.counters.behind},
          {"splits", log.counters.short_splits + log.counters.long_splits},
          {"states", log.counters.states_adopted},
          {"held_back", log.held_back},
          {"sent_a_round", log.bytes_sent / rounds},
          {"received_a_round", log.bytes_received / rounds}};
}

}  // namespace starling
