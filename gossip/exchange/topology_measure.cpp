// What a graph is worth: whether it holds together, how far apart its ends are, how fast it averages.
#include <algorithm>
#include <cmath>
#include <limits>

#include "gossip/exchange/topology.h"
#include "gossip/rng.h"

namespace starling {
namespace {

using Vector = std::vector<double>;

constexpr uint64_t kStartSeed = 0x70b0;
constexpr double kExact = 1e-9;   // one round that shrinks the spread to this has averaged exactly, but for rounding

struct Reach {
  size_t count = 0;   // nodes found, the source too
  size_t hops = 0;    // to the farthest of them
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

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void subtract(Vector& a, double factor, const Vector& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= factor * b[i];
}

void centre(Vector& x) {
  double mean = 0;
  for (double value : x) mean += value;
  mean /= static_cast<double>(x.size());
  for (double& value : x) value -= mean;
}

// Divides by the norm and returns it.
double normalize(Vector& x) {
  const double norm = std::sqrt(dot(x, x));
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

// A symmetric matrix with nothing beside its diagonal and the two next to it.
struct Tridiagonal {
  Vector diagonal, beside;

  // How many eigenvalues lie below `value` (Sturm's sequence).
  size_t count_below(double value) const {
    size_t count = 0;
    double pivot = 1;
    for (size_t i = 0; i < diagonal.size(); ++i) {
      const double squared = i == 0 ? 0 : beside[i - 1] * beside[i - 1];
      pivot = diagonal[i] - value - squared / pivot;
      if (pivot == 0) pivot = -std::numeric_limits<double>::min();
      count += pivot < 0;
    }
    return count;
  }

  // The eigenvalue that has `below` smaller ones. REQUIRES: all lie in [-2, 2].
  double eigenvalue(size_t below) const {
    double low = -2, high = 2;
    for (int i = 0; i < 54; ++i) {
      const double middle = (low + high) / 2;
      (count_below(middle) > below ? high : low) = middle;
    }
    return (low + high) / 2;
  }

  double largest_magnitude() const {
    return std::max(std::abs(eigenvalue(0)), std::abs(eigenvalue(diagonal.size() - 1)));
  }
};

// Lanczos' iteration on W, beside the constant vectors, with full reorthogonalization. It finds both ends of the
// spectrum at once, so an eigenvalue near -1 cannot hide, and within at most count - 1 steps; the power iteration would
// need a hundred thousand on a ring of a thousand, whose first eigenvalues nearly coincide.
double second_magnitude(const Graph& graph) {
  constexpr size_t kStepsBetweenLooks = 16;
  constexpr double kConverged = 1e-11;   // in proportion to the gap
  constexpr double kSpent = 1e-10;       // nothing new in this direction: all eigenvalues have been met
  std::vector<Vector> basis = {random_start(graph.count())};
  Tridiagonal projected;
  double estimate = -1;
  for (size_t step = 0; step + 1 < graph.count(); ++step) {
    Vector next = mixed(graph, basis[step]);
    projected.diagonal.push_back(dot(next, basis[step]));
    for (const Vector& earlier : basis) subtract(next, dot(next, earlier), earlier);
    centre(next);
    const double norm = normalize(next);
    if (norm < kSpent) break;
    if (step % kStepsBetweenLooks == kStepsBetweenLooks - 1) {
      const double latest = projected.largest_magnitude();
      if (std::abs(latest - estimate) <= kConverged * (1 - latest)) return latest;
      estimate = latest;
    }
    projected.beside.push_back(norm);
    basis.push_back(std::move(next));
  }
  return projected.largest_magnitude();
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

bool is_connected(const Graph& graph) {
  return graph.count() == 0 || reach_from(graph, 0).count == graph.count();
}

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
