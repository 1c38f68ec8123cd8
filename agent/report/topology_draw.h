// A graph for the eye: as an SVG file of its own, or as a small table in a terminal.
#pragma once

#include <string>
#include <vector>

#include "gossip/exchange/topology.h"

namespace starling {

// Dark on white, nothing from elsewhere. A torus lies on its grid, a star has its middle, all others stand in a circle.
// `names` by rank; empty: the ranks themselves. Where there is no room for names they are tooltips only.
std::string draw_svg(TopologyKind kind, const Graph& graph, const std::vector<std::string>& names,
                     const std::string& title);

inline constexpr size_t kMatrixAgentsMax = 24;

// The adjacency matrix, "#" for an edge. REQUIRES: at most kMatrixAgentsMax agents, for it is to fit a terminal.
std::string draw_matrix(const Graph& graph, const std::vector<std::string>& names);

}  // namespace starling
