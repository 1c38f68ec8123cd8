#include "gossip/exchange/topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "gossip/rng.h"

namespace starling {
namespace {

constexpr TopologyKind kAllKinds[] = {
    TopologyKind::kMatching,    TopologyKind::kRing,    TopologyKind::kTorus,
    TopologyKind::kExponential, TopologyKind::kRegular, TopologyKind::kStar,
    TopologyKind::kFull,        TopologyKind::kFile,    TopologyKind::kOnePeer,
};

std::vector<std::string> names_of(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back("agent-" + std::to_string(i));
  return names;
}

// For kFile a path through all agents, and edges that are to be left out.
TopologySpec spec_of(TopologyKind kind, size_t count = 0) {
  TopologySpec spec{.kind = kind};
  const std::vector<std::string> names = names_of(count + 1);  // the last one is away
  for (size_t i = 0; i < count; ++i) spec.edges.push_back({names[i], names[i + 1]});
  if (count > 1) spec.edges.push_back({names[1], names[0]});
  if (count > 0) spec.edges.push_back({names[0], names[0]});
  return spec;
}

Graph graph_of(TopologyKind kind, size_t count, uint64_t round = 0) {
  return make_graph(spec_of(kind, count), count, round, names_of(count));
}

size_t edge_count(const Graph& graph) {
  size_t ends = 0;
  for (const auto& row : graph.neighbors) ends += row.size();
  return ends / 2;
}

double contraction_of(TopologyKind kind, size_t count, uint64_t rounds = 1000) {
  return contraction(spec_of(kind, count), count, rounds, names_of(count));
}

void expect_simple(const Graph& graph, const std::string& what) {
  for (uint32_t i = 0; i < graph.count(); ++i) {
    const auto& row = graph.neighbors[i];
    EXPECT_EQ(std::adjacent_find(row.begin(), row.end(), std::greater_equal<>()), row.end()) << what << " row " << i;
    for (uint32_t j : row) {
      ASSERT_LT(j, graph.count()) << what;
      EXPECT_NE(i, j) << what;
      const auto& back = graph.neighbors[j];
      EXPECT_TRUE(std::binary_search(back.begin(), back.end(), i)) << what << " " << i << " " << j;
    }
  }
}

TEST(Topology, EveryKindIsSimpleUndirectedAndTheSameAgain) {
  for (const TopologyKind kind : kAllKinds) {
    for (size_t count = 1; count <= 40; ++count) {
      for (const uint64_t round : {0u, 1u, 7u}) {
        const std::string what = std::string(topology_name(kind)) + " of " + std::to_string(count);
        const Graph graph = graph_of(kind, count, round);
        ASSERT_EQ(graph.count(), count) << what;
        expect_simple(graph, what);
        EXPECT_EQ(graph.neighbors, graph_of(kind, count, round).neighbors) << what;
        if (!changes_by_round(kind)) {
          EXPECT_TRUE(is_connected(graph)) << what;
          EXPECT_EQ(graph.neighbors, graph_of(kind, count, 0).neighbors) << what;
        }
      }
    }
  }
  EXPECT_EQ(graph_of(TopologyKind::kRing, 0).count(), 0u);
}

TEST(Topology, NamesReadBack) {
  for (const TopologyKind kind : kAllKinds) EXPECT_EQ(parse_topology(topology_name(kind)), kind);
  EXPECT_EQ(topology_names().size(), std::size(kAllKinds));
  EXPECT_EQ(parse_topology("rign"), std::nullopt);
}

TEST(Topology, DegreesAndDiametersAreTheKnownOnes) {
  struct Known {
    TopologyKind kind;
    size_t count, degree, edges, hops;
  };
  for (const Known& known : std::vector<Known>{
           {TopologyKind::kRing, 16, 2, 16, 8},
           {TopologyKind::kRing, 2, 1, 1, 1},
           {TopologyKind::kTorus, 16, 4, 32, 4},
           {TopologyKind::kTorus, 4, 2, 4, 2},
           {TopologyKind::kTorus, 17, 2, 17, 8},
           {TopologyKind::kTorus, 6, 3, 9, 2},
           {TopologyKind::kExponential, 16, 7, 56, 2},
           {TopologyKind::kExponential, 4, 3, 6, 1},
           {TopologyKind::kFull, 9, 8, 36, 1},
           {TopologyKind::kFull, 2, 1, 1, 1},
           {TopologyKind::kStar, 9, 8, 8, 2},
           {TopologyKind::kFile, 5, 2, 4, 4},
       }) {
    const Graph graph = graph_of(known.kind, known.count);
    const std::string what = std::string(topology_name(known.kind)) + " of " + std::to_string(known.count);
    EXPECT_EQ(graph.degree(known.kind == TopologyKind::kFile ? 1 : 0), known.degree) << what;
    EXPECT_EQ(edge_count(graph), known.edges) << what;
    EXPECT_EQ(diameter(graph), known.hops) << what;
  }
  EXPECT_EQ(torus_shape(12), (std::pair<size_t, size_t>{3, 4}));
  EXPECT_EQ(torus_shape(13), (std::pair<size_t, size_t>{1, 13}));
}

TEST(Topology, RegularGraphsHaveTheirDegreeAndDependOnTheSeed) {
  for (size_t count = 3; count <= 40; ++count) {
    for (uint32_t degree = 2; degree < count + 2; ++degree) {
      TopologySpec spec{.kind = TopologyKind::kRegular, .degree = degree};
      const Graph graph = make_graph(spec, count, 0);
      const size_t expected = std::min<size_t>(degree, count - 1);
      size_t lower = 0;
      for (size_t i = 0; i < count; ++i) lower += expected - graph.degree(i);
      EXPECT_EQ(lower, count * expected % 2) << count << " " << degree;
      EXPECT_TRUE(is_connected(graph)) << count << " " << degree;
      expect_simple(graph, "regular");
    }
  }
  for (const uint32_t degree : {2u, 4u, 7u}) {
    TopologySpec one{.kind = TopologyKind::kRegular, .degree = degree, .rng_seed = 1}, two = one;
    two.rng_seed = 2;
    EXPECT_NE(make_graph(one, 24, 0).neighbors, make_graph(two, 24, 0).neighbors) << degree;
  }
}

TEST(Topology, MatchingsPairAllButTheOddOneAndChange) {
  for (size_t count = 2; count <= 40; ++count) {
    for (const TopologyKind kind : {TopologyKind::kMatching, TopologyKind::kOnePeer}) {
      for (uint64_t round = 0; round < 20; ++round) {
        const Graph graph = graph_of(kind, count, round);
        EXPECT_EQ(edge_count(graph), count / 2);
        for (size_t i = 0; i < count; ++i) EXPECT_LE(graph.degree(i), 1u);
      }
    }
  }
  const TopologySpec one{.kind = TopologyKind::kMatching, .rng_seed = 1};
  const TopologySpec two{.kind = TopologyKind::kMatching, .rng_seed = 2};
  std::vector<size_t> met(16);  // over many rounds node 0 meets all others about equally often
  for (uint64_t round = 0; round < 1500; ++round) {
    const Graph graph = make_graph(one, 16, round);
    EXPECT_NE(graph.neighbors, make_graph(one, 16, round + 1).neighbors) << round;
    EXPECT_NE(graph.neighbors, make_graph(two, 16, round).neighbors) << round;
    ++met[graph.neighbors[0].at(0)];
  }
  for (size_t i = 1; i < 16; ++i) EXPECT_NEAR(static_cast<double>(met[i]), 100, 50) << i;
}

TEST(Topology, OnePeerMeetsTheXorPartner) {
  for (uint64_t round = 0; round < 9; ++round) {
    const Graph graph = graph_of(TopologyKind::kOnePeer, 16, round);
    for (uint32_t i = 0; i < 16; ++i) {
      EXPECT_EQ(graph.neighbors[i], (std::vector<uint32_t>{i ^ (1u << (round % 4))}));
    }
  }
  EXPECT_EQ(graph_of(TopologyKind::kOnePeer, 12, 3).neighbors, graph_of(TopologyKind::kMatching, 12, 3).neighbors);
}

TEST(Topology, AFileJoinsWhoIsThere) {
  TopologySpec spec{.kind = TopologyKind::kFile};
  spec.edges = {{"a", "b"}, {"b", "a"}, {"b", "c"}, {"c", "away"}, {"d", "d"}};
  const Graph graph = make_graph(spec, 4, 0, {"a", "b", "c", "d"});
  EXPECT_EQ(graph.neighbors, (std::vector<std::vector<uint32_t>>{{1}, {0, 2}, {1}, {}}));
  EXPECT_FALSE(is_connected(graph));
  EXPECT_EQ(diameter(graph), std::nullopt);
  EXPECT_EQ(contraction(spec, 4, 10, {"a", "b", "c", "d"}), 1);
  EXPECT_EQ(rounds_per_tenfold(1), std::numeric_limits<double>::infinity());
}

// Kept to the mean of the masses whatever they are: rows of at most 1, and detailed balance.
TEST(EdgeWeight, ConservesTheMeanUnderRandomMasses) {
  Rng rng(3);
  for (const TopologyKind kind : kAllKinds) {
    for (const size_t count : {2, 5, 16, 33}) {
      const Graph graph = graph_of(kind, count, 2);
      std::vector<double> masses(count), columns(count, 0.0);
      for (double& mass : masses) mass = std::exp2(6 * rng.uniform() - 3);
      for (uint32_t i = 0; i < count; ++i) {
        double row = 0;
        for (uint32_t j : graph.neighbors[i]) {
          const double weight = edge_weight(graph.degree(i), masses[i], graph.degree(j), masses[j]);
          const double back = edge_weight(graph.degree(j), masses[j], graph.degree(i), masses[i]);
          EXPECT_GT(weight, 0);
          EXPECT_NEAR(masses[i] * weight, masses[j] * back, 1e-12);
          row += weight;
          columns[j] += masses[i] * weight;
        }
        EXPECT_LT(row, 1);
        columns[i] += masses[i] * (1 - row);
      }
      for (size_t j = 0; j < count; ++j) EXPECT_NEAR(columns[j], masses[j], 1e-12);
    }
  }
}

TEST(Topology, MixingMatricesAreSymmetricAndDoublyStochastic) {
  for (const TopologyKind kind : kAllKinds) {
    const auto matrix = mixing_matrix(graph_of(kind, 13));
    for (size_t i = 0; i < 13; ++i) {
      EXPECT_NEAR(std::accumulate(matrix[i].begin(), matrix[i].end(), 0.0), 1, 1e-12);
      for (size_t j = 0; j < 13; ++j) EXPECT_EQ(matrix[i][j], matrix[j][i]);
    }
  }
  const auto ring = mixing_matrix(graph_of(TopologyKind::kRing, 5));
  EXPECT_DOUBLE_EQ(ring[0][0], 1.0 / 3);
  EXPECT_DOUBLE_EQ(ring[0][1], 1.0 / 3);
  EXPECT_EQ(ring[0][2], 0);
}

// Closed forms: circulants by cosines, star 1 - 1/n, path (1 + 2 cos(pi/n)) / 3.
TEST(Contraction, IsTheKnownEigenvalue) {
  const auto cosine = [](double turns) { return std::cos(2 * std::acos(-1.0) * turns); };
  for (const size_t n : {4, 5, 16, 17, 64, 100, 1024}) {
    const auto size = static_cast<double>(n);
    EXPECT_NEAR(contraction_of(TopologyKind::kRing, n), (1 + 2 * cosine(1 / size)) / 3, 1e-9) << n;
    EXPECT_NEAR(contraction_of(TopologyKind::kStar, n), 1 - 1 / size, 1e-9) << n;
    EXPECT_NEAR(contraction_of(TopologyKind::kFile, n), (1 + 2 * cosine(0.5 / size)) / 3, 1e-9) << n;
    EXPECT_EQ(contraction_of(TopologyKind::kFull, n), 0) << n;
    double largest = 0;
    for (size_t mode = 1; mode < n; ++mode) {
      double value = 1, degree = 0;
      for (size_t stride = 1; stride < n; stride *= 2) {
        const double ends = 2 * stride == n ? 1 : 2;  // the opposite node is one, not two
        if (stride > 1 && stride + 1 == n) continue;  // the neighbor on the other side, counted by stride 1
        value += ends * cosine(static_cast<double>(mode * stride) / size);
        degree += ends;
      }
      largest = std::max(largest, std::abs(value) / (1 + degree));
    }
    EXPECT_NEAR(contraction_of(TopologyKind::kExponential, n), largest, 1e-9) << n;
  }
  EXPECT_NEAR(1 - contraction_of(TopologyKind::kRing, 16), 0.051, 0.0005);
  EXPECT_NEAR(1 - contraction_of(TopologyKind::kTorus, 16), 0.40, 1e-9);
  EXPECT_NEAR(1 - contraction_of(TopologyKind::kTorus, 64), 0.117, 0.0005);
  EXPECT_NEAR(1 - contraction_of(TopologyKind::kTorus, 100), 0.076, 0.0005);
  EXPECT_NEAR(1 - contraction_of(TopologyKind::kRing, 100), 0.0013, 0.00005);
  for (const TopologyKind kind : kAllKinds) {
    EXPECT_EQ(contraction_of(kind, 1), 0);
    EXPECT_EQ(contraction_of(kind, 2), 0) << topology_name(kind);
  }
}

// Of a complete bipartite graph the eigenvalue that counts is the negative one: (1 - n/2) / (1 + n/2).
TEST(Contraction, SeesEigenvaluesNearMinusOne) {
  for (const size_t half : {4, 10, 50}) {
    TopologySpec spec{.kind = TopologyKind::kFile};
    const auto names = names_of(2 * half);
    for (size_t i = 0; i < half; ++i) {
      for (size_t j = half; j < 2 * half; ++j) spec.edges.push_back({names[i], names[j]});
    }
    const auto size = static_cast<double>(half);
    EXPECT_NEAR(contraction(spec, 2 * half, 0, names), (size - 1) / (size + 1), 1e-9) << half;
  }
}

// An independent judge: powers of the dense matrix, its constant part taken out, on a random regular graph.
TEST(Contraction, AgreesWithThePowerIteration) {
  constexpr size_t kCount = 40;
  auto matrix = mixing_matrix(graph_of(TopologyKind::kRegular, kCount));
  for (auto& row : matrix) {
    for (double& value : row) value -= 1.0 / kCount;
  }
  Rng rng(5);
  std::vector<double> x(kCount);
  for (double& value : x) value = rng.uniform();
  double norm = 1;
  for (int round = 0; round < 3000; ++round) {
    std::vector<double> next(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      next[i] = std::inner_product(x.begin(), x.end(), matrix[i].begin(), 0.0) / norm;
    }
    norm = std::sqrt(std::inner_product(next.begin(), next.end(), next.begin(), 0.0));
    x = next;
  }
  EXPECT_NEAR(contraction_of(TopologyKind::kRegular, kCount), norm, 1e-6);
}

TEST(Contraction, OfChangingGraphsIsMeasured) {
  EXPECT_NEAR(contraction_of(TopologyKind::kMatching, 16), std::sqrt(0.43), 0.02);
  EXPECT_NEAR(contraction_of(TopologyKind::kMatching, 100), std::sqrt(0.49), 0.02);
  EXPECT_NEAR(rounds_per_tenfold(contraction_of(TopologyKind::kMatching, 100)), 6.4, 0.3);
  EXPECT_EQ(contraction_of(TopologyKind::kOnePeer, 16, 4), 0);
  EXPECT_GT(contraction_of(TopologyKind::kOnePeer, 16, 3), 0.1);
  EXPECT_EQ(contraction_of(TopologyKind::kOnePeer, 64, 6), 0);
  EXPECT_NEAR(contraction_of(TopologyKind::kOnePeer, 100), std::sqrt(0.49), 0.02);
  EXPECT_EQ(contraction_of(TopologyKind::kMatching, 16, 0), 1);
}

TEST(Contraction, TellsTheRoundsToATenth) {
  EXPECT_EQ(rounds_per_tenfold(0), 0);
  EXPECT_DOUBLE_EQ(rounds_per_tenfold(0.1), 1);
  EXPECT_NEAR(rounds_per_tenfold(contraction_of(TopologyKind::kRing, 16)), 44, 0.5);
  EXPECT_NEAR(rounds_per_tenfold(contraction_of(TopologyKind::kTorus, 64)), 18.5, 0.1);
}

}  // namespace
}  // namespace starling
