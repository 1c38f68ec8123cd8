// A running swarm as one of its members sees it, for `starling status`: a table of its agents, worst first, or JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/swarm_reader.h"

namespace starling {

// Of the settings.
struct SwarmGoal {
  std::string name;
  uint64_t stop_after = 0;  // 0: none
  uint64_t wait_for = 1;    // agents there before the first step
  bool is_text = false;     // sites are compared by loss
};

// One agent. What it has not measured, or its program does not tell, is nullopt.
struct SwarmSite {
  std::string name, peer;  // the name is the beginning of the id where it has none; the id is in hex
  Endpoint endpoint;
  bool asked = false;             // it told all this
  std::string state;              // its phase; starting: no step yet; silent: no answer, and may yet; gone: given up
  uint64_t step = 0, behind = 0;  // behind the foremost living agent
  std::optional<double> steps_per_s, loss, accuracy, distance;
  std::optional<double> test_loss;       // of the samples that the accuracy is of
  bool held_out = false;                 // it holds them out of its own data
  std::optional<uint64_t> done, failed;  // exchanges
  std::string version;                   // of its program; empty: an older one
  std::string trouble;                   // for people; empty: none is seen
};

// Its agents, without registries: those in trouble first, then those that are far behind.
std::vector<SwarmSite> look_at_sites(const SwarmView& view);

// A line about the swarm, one about its sites where two or more have judged the model, a line of headings and one for
// each agent. `columns` is the width to keep to, 0 = any: those
// of less weight are left out.
std::vector<std::string> render_swarm(const SwarmView& view, const SwarmGoal& goal, size_t columns);

// One line.
std::string swarm_json(const SwarmView& view, const SwarmGoal& goal);

}  // namespace starling
