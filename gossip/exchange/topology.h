// Communication graphs over ranks 0..n-1 (the live agents sorted by id), and the mixing weights on their edges.
// Pure functions: the same spec, count and round give the same graph on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace starling {

enum class TopologyKind : uint8_t {
  kMatching,  // random pairs, new every round: at most one edge per node
  kRing,
  kTorus,        // the most square r x c = n, both wrapped; a ring where n is prime
  kExponential,  // i and i + 2^k mod n for every k, undirected
  kRegular,      // random, every node of the same degree (one less for one node where n * degree is odd)
  kStar,         // rank 0 in the middle
  kFull,
  kFile,     // the edges that were given, by name
  kOnePeer,  // one-peer exponential: in round t, i and i xor 2^(t mod log2 n); n a power of two, else matching
};

// "matching", "ring", "torus", "exponential", "regular", "star", "full", "file", "one-peer".
std::optional<TopologyKind> parse_topology(std::string_view name);
std::string_view topology_name(TopologyKind kind);
std::vector<std::string> topology_names();

struct TopologySpec {
  TopologyKind kind = TopologyKind::kMatching;
  uint32_t degree = 4;                                     // regular
  uint64_t rng_seed = 1;                                   // matching, regular
  std::vector<std::pair<std::string, std::string>> edges;  // file: agents by name
};

// Does the graph change with the round?
bool changes_by_round(TopologyKind kind);

// Rows and columns of the torus, rows <= columns; row by row, rank = row * columns + column.
std::pair<size_t, size_t> torus_shape(size_t count);

// Undirected, without loops or duplicate edges.
struct Graph {
  std::vector<std::vector<uint32_t>> neighbors;  // by rank, each sorted
  size_t count() const { return neighbors.size(); }
  size_t degree(size_t rank) const { return neighbors[rank].size(); }
};

// `names` (by rank) is read by kFile only. Edges with unknown names are left out, because an agent may be away.
Graph make_graph(const TopologySpec& spec, size_t count, uint64_t round, const std::vector<std::string>& names = {});

// The weight of neighbor j in row i, Metropolis-Hastings for the distribution in proportion to `mass`:
//   w_ij = min(q_i, q_j * m_j / m_i), q = 1 / (1 + degree); the rest of row i is the self weight.
// Equal masses: 1 / (1 + max degree), symmetric, doubly stochastic. sum_i m_i * w_ij = m_j always.
// REQUIRES: both masses > 0.
double edge_weight(size_t degree_i, double mass_i, size_t degree_j, double mass_j);

bool is_connected(const Graph& graph);
std::optional<size_t> diameter(const Graph& graph);                  // hops; nullopt: not connected
std::vector<std::vector<double>> mixing_matrix(const Graph& graph);  // n x n, equal masses

// The factor per round by which the distance from the mean shrinks (0: one round averages exactly). For a fixed graph
// it is the second largest |eigenvalue| of the mixing matrix. For a changing graph it is the geometric mean over
// `rounds` from a random start; it is 0 if these rounds together average exactly, as one-peer does after log2 n rounds.
double contraction(const TopologySpec& spec, size_t count, uint64_t rounds, const std::vector<std::string>& names = {});

// Rounds until the distance is a tenth: ln(10) / -ln(contraction). Infinity: it never shrinks; 0: exact in one round.
double rounds_per_tenfold(double contraction);

}  // namespace starling
