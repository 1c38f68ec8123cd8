// What a graph is worth: whether it holds together, how far apart its ends are, how fast it averages.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <Eigen/Eigenvalues>

#include "gossip/exchange/topology.h"
#include "gossip/rng.h"
#include "kernels/check.h"

namespace starling {
namespace {

using Vector = std::vector<double>;

constexpr uint64_t kStartSeed = 0x70b0;
constexpr double kExact = 1e-9;  // one round that shrinks the spread to this has averaged exactly, but for rounding

struct Reach {
  size_t count = 0;  // nodes found, the source too
  size_t hops = 0;   // to the farthest of them
};

Reach reach_from(const Graph& graph, uint32_t source) {
  std::vector<size_t> hops(graph.count(), SIZE_MAX);
  std::vector<uint32_t> found = {source};
  hops[source] = 0;
  // A dense graph is found whole within a few rows; the others need not be read.
  for (size_t i = 0; i < found.size() && found.size() < graph.count(); ++i) {
    for (uint32_t next : graph.neighbors[found[i]]) {
      if (hops[next] != SIZE_MAX) continue;
      hops[next] = hops[found[i]] + 1;
      found.push_back(next);
    }
  }
  return {found.size(), hops[found.back()]};
}

void centre(Vector& x) {
  double mean = 0;
  for (double value : x) mean += value;
  mean /= static_cast<double>(x.size());
  for (double& value : x) value -= mean;
}

// Divides by the norm and returns it.
double normalize(Vector& x) {
  const double norm = std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
  if (norm > 0) {
    for (double& value : x) value /= norm;
  }
  return norm;
}

Vector random_start(size_t count) {
  Rng rng(kStartSeed);
  Vector x(count);
  for (double& value : x) value = rng.uniform() - 0.5;
  centre(x);
  normalize(x);
  return x;
}

// W x, W the mixing matrix.
Vector mixed(const Graph& graph, const Vector& x) {
  Vector y = x;
  for (size_t i = 0; i < graph.count(); ++i) {
    for (uint32_t j : graph.neighbors[i]) {
      y[i] += edge_weight(graph.degree(i), 1, graph.degree(j), 1) * (x[j] - x[i]);
    }
  }
  return y;
}

// The second largest |eigenvalue| of W. All eigenvalues are computed, since one near -1 counts as much as one near 1;
// a thousand agents take a third of a second. The largest is 1 (the constant vector's), and is left out.
// REQUIRES: a connected graph of two nodes or more.
double second_magnitude(const Graph& graph) {
  const auto count = static_cast<Eigen::Index>(graph.count());
  Eigen::MatrixXd matrix(count, count);
  const std::vector<Vector> rows = mixing_matrix(graph);
  for (Eigen::Index i = 0; i < count; ++i) {
    for (Eigen::Index j = 0; j < count; ++j) matrix(i, j) = rows[static_cast<size_t>(i)][static_cast<size_t>(j)];
  }
  // SelfAdjointEigenSolver(matrix) does the same, and takes three times as long to compile.
  const Eigen::Tridiagonalization<Eigen::MatrixXd> reduced(matrix);
  Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver;
  solver.computeFromTridiagonal(reduced.diagonal(), reduced.subDiagonal(), Eigen::EigenvaluesOnly);
  STARLING_CHECK(solver.info() == Eigen::Success);
  const Eigen::VectorXd& ascending = solver.eigenvalues();
  return std::max(std::abs(ascending(0)), std::abs(ascending(count - 2)));
}

// The norm is taken out after every round: a product of hundreds would vanish.
double measured_contraction(const TopologySpec& spec, size_t count, uint64_t rounds,
                            const std::vector<std::string>& names) {
  Vector x = random_start(count);
  double log_sum = 0;
  for (uint64_t round = 0; round < rounds; ++round) {
    x = mixed(make_graph(spec, count, round, names), x);
    centre(x);
    const double factor = normalize(x);
    if (factor < kExact) return 0;
    log_sum += std::log(factor);
  }
  return rounds == 0 ? 1 : std::exp(log_sum / static_cast<double>(rounds));
}

}  // namespace

bool is_connected(const Graph& graph) { return graph.count() == 0 || reach_from(graph, 0).count == graph.count(); }

std::optional<size_t> diameter(const Graph& graph) {
  size_t farthest = 0;
  for (uint32_t source = 0; source < graph.count(); ++source) {
    const Reach reach = reach_from(graph, source);
    if (reach.count < graph.count()) return std::nullopt;
    farthest = std::max(farthest, reach.hops);
  }
  return farthest;
}

std::vector<std::vector<double>> mixing_matrix(const Graph& graph) {
  std::vector<Vector> matrix(graph.count(), Vector(graph.count(), 0.0));
  for (size_t i = 0; i < graph.count(); ++i) {
    double own = 1;
    for (uint32_t j : graph.neighbors[i]) {
      matrix[i][j] = edge_weight(graph.degree(i), 1, graph.degree(j), 1);
      own -= matrix[i][j];
    }
    matrix[i][i] = own;
  }
  return matrix;
}

double contraction(const TopologySpec& spec, size_t count, uint64_t rounds, const std::vector<std::string>& names) {
  if (count < 2) return 0;
  if (changes_by_round(spec.kind)) return measured_contraction(spec, count, rounds, names);
  const Graph graph = make_graph(spec, count, 0, names);
  if (!is_connected(graph)) return 1;
  const double factor = second_magnitude(graph);
  return factor < kExact ? 0 : factor;
}

double rounds_per_tenfold(double contraction) {
  if (contraction <= 0) return 0;
  if (contraction >= 1) return std::numeric_limits<double>::infinity();
  return std::log(10.0) / -std::log(contraction);
}

}  // namespace starling
