// Draws a graph, as an SVG file or as a small matrix in the terminal.
#pragma once

#include <string>
#include <vector>

#include "gossip/exchange/topology.h"

namespace starling {

// Dark on white, self-contained. A torus is drawn on a grid, a star around its center, every other graph on a circle.
// `names` are by rank; empty: the ranks themselves. Names that find no room become tooltips.
std::string draw_svg(TopologyKind kind, const Graph& graph, const std::vector<std::string>& names,
                     const std::string& title);

inline constexpr size_t kMatrixAgentsMax = 24;

// The adjacency matrix, "#" for an edge. REQUIRES: at most kMatrixAgentsMax agents, so that it fits a terminal.
std::string draw_matrix(const Graph& graph, const std::vector<std::string>& names);

}  // namespace starling
