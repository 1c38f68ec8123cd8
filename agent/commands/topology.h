// The input and the figures of `starling topology`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gossip/exchange/topology.h"

namespace starling {

// A file of edges: two names a line, "#" begins a comment. Throws std::runtime_error with file and line.
std::vector<std::pair<std::string, std::string>> read_edges(const std::string& path);

// Throws std::runtime_error: no model has so many params.
void check_params(uint64_t params);

// What one graph costs and how well it averages. If the graph changes with the round, the figures are those of round 0,
// but `factor` is the mean over kMeasuredRounds.
struct TopologyFigures {
  size_t degree_min = 0, degree_max = 0, edges = 0;
  std::optional<size_t> diameter;
  double factor = 1;             // contraction()
  uint64_t rounds_to_exact = 0;  // this many rounds average exactly; 0: none do
};

inline constexpr uint64_t kMeasuredRounds = 1000;

TopologyFigures measure_topology(const TopologySpec& spec, const Graph& graph, const std::vector<std::string>& names);

}  // namespace starling
