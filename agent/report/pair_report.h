// How the pair exchanges of one agent went, for the details of tables and pages, and for the log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "agent/report/facts.h"
#include "gossip/pairs/status.h"

namespace starling {

struct PairReport {
  std::string name;  // of the agent
  PairwiseCounters counters;
  uint64_t steps = 0;                // that it took while the counters counted
  std::optional<double> drift = {};  // in own steps (agent/run/pair_drift.h); nullopt: not known

  bool any() const { return counters.initiated + counters.accepted > 0; }
  std::optional<double> exchanges_a_step() const;  // decided ones, proposed by either side; nullopt: no step
  std::optional<double> gain() const;              // their mean weight; nullopt: there are none
  std::optional<double> ms_a_step(uint64_t us) const;
};

// {"a_step","gain","drift","ms_a_step":{"asking","own","serving"},"waited_here":{"steps","turn","asking","in_vain"},
// "refused":{"there","here","deadlocks_avoided","over_share"},"unanswered","undecided","crossed","rollbacks"};
// null = not known.
nlohmann::ordered_json print_pairs(const PairReport& pairs);

// Of the agents that took part in pair exchanges, in words that need no legend.
FactTable pair_facts(const std::vector<PairReport>& agents);

// A part of a line of the log. Rates are of `lately`, counts of `all`. For example:
// "1.0 per step, mixing weight 1.00, drift 0.71; 12 proposals waited here, 3 found a peer busy, 1 unanswered, ..."
std::string print_pairs_line(const PairReport& lately, const PairwiseCounters& all);

}  // namespace starling
