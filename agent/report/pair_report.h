// How the pair exchanges of one agent went, for tables and pages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "gossip/exchange/counters.h"

namespace starling {

struct PairReport {
  std::string name;                    // of the agent
  PairwiseCounters counters;
  uint64_t steps = 0;                  // that it took while the counters counted
  std::optional<double> drift = {};    // in own steps (agent/run/pair_drift.h); nullopt: not known

  bool any() const { return counters.initiated + counters.accepted > 0; }
  std::optional<double> exchanges_a_step() const;   // decided ones, whoever began them; nullopt: no step
  std::optional<double> gain() const;               // their mean weight; nullopt: there are none
  std::optional<double> ms_a_step(uint64_t us) const;
};

// {"a_step","gain","drift","ms_a_step":{"asking","own","serving"},"waited_here":{"steps","turn","asking","in_vain"},
// "refused":{"there","here","rings","over_share"},"unanswered","undecided","crossed","taken_back"}; null = not known.
nlohmann::ordered_json print_pairs(const PairReport& pairs);

// One line for an agent that took part in pair exchanges; empty if none did.
std::string print_pairs_table(const std::vector<PairReport>& agents);

// "1.0 a step at gain 1.00, drift 0.71, ms a step 30 asking 8 own 3 serving; 12 waited here, ...": a part of a line of
// the log.
// Rates are of `lately`, counts of `all`.
std::string print_pairs_line(const PairReport& lately, const PairwiseCounters& all);

}  // namespace starling
