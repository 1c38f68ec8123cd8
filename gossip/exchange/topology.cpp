#include "gossip/exchange/topology.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "gossip/rng.h"

namespace starling {
namespace {

using Edge = std::pair<uint32_t, uint32_t>;

constexpr std::pair<TopologyKind, std::string_view> kKinds[] = {
    {TopologyKind::kMatching, "matching"}, {TopologyKind::kRing, "ring"},
    {TopologyKind::kTorus, "torus"},       {TopologyKind::kExponential, "exponential"},
    {TopologyKind::kRegular, "regular"},   {TopologyKind::kStar, "star"},
    {TopologyKind::kFull, "full"},         {TopologyKind::kFile, "file"},
    {TopologyKind::kOnePeer, "one-peer"},
};

// Loops and doubled edges fall away here, so that the kinds below need not think of small counts.
Graph graph_of(size_t count, const std::vector<Edge>& edges) {
  Graph graph{std::vector<std::vector<uint32_t>>(count)};
  for (const auto& [a, b] : edges) {
    if (a == b) continue;
    graph.neighbors[a].push_back(b);
    graph.neighbors[b].push_back(a);
  }
  for (std::vector<uint32_t>& row : graph.neighbors) {
    std::sort(row.begin(), row.end());
    row.erase(std::unique(row.begin(), row.end()), row.end());
  }
  return graph;
}

// i and i + stride on a circle of `count`, for every i.
void add_circle(std::vector<Edge>& edges, uint32_t count, uint32_t stride) {
  for (uint32_t i = 0; i < count; ++i) edges.push_back({i, (i + stride) % count});
}

std::vector<uint32_t> shuffled_ranks(uint32_t count, Rng& rng) {
  std::vector<uint32_t> ranks(count);
  for (uint32_t i = 0; i < count; ++i) ranks[i] = i;
  rng.shuffle(ranks);
  return ranks;
}

std::vector<Edge> matching_edges(uint32_t count, uint64_t rng_seed, uint64_t round) {
  Rng rng(Rng(rng_seed).next_u64() ^ round);  // hashed first: seed 1 round 2 is not seed 2 round 1
  const std::vector<uint32_t> ranks = shuffled_ranks(count, rng);
  std::vector<Edge> edges;
  for (uint32_t i = 0; i + 1 < count; i += 2) edges.push_back({ranks[i], ranks[i + 1]});
  return edges;
}

std::vector<Edge> torus_edges(uint32_t count) {
  const auto [rows, columns] = torus_shape(count);
  std::vector<Edge> edges;
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t c = 0; c < columns; ++c) {
      const uint32_t rank = static_cast<uint32_t>(r * columns + c);
      edges.push_back({rank, static_cast<uint32_t>(r * columns + (c + 1) % columns)});
      edges.push_back({rank, static_cast<uint32_t>((r + 1) % rows * columns + c)});
    }
  }
  return edges;
}

std::vector<Edge> full_edges(uint32_t count) {
  std::vector<Edge> edges;
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t j = i + 1; j < count; ++j) edges.push_back({i, j});
  }
  return edges;
}

std::vector<Edge> named_edges(const TopologySpec& spec, size_t count, const std::vector<std::string>& names) {
  std::unordered_map<std::string_view, uint32_t> ranks;
  for (uint32_t i = 0; i < std::min(count, names.size()); ++i) ranks.emplace(names[i], i);
  std::vector<Edge> edges;
  for (const auto& [a, b] : spec.edges) {
    const auto rank_a = ranks.find(a), rank_b = ranks.find(b);
    if (rank_a != ranks.end() && rank_b != ranks.end()) edges.push_back({rank_a->second, rank_b->second});
  }
  return edges;
}

// Some regular graph, every edge once. REQUIRES: degree < count.
std::vector<Edge> circulant_edges(uint32_t count, uint32_t degree) {
  std::vector<Edge> edges;
  for (uint32_t stride = 1; stride <= degree / 2; ++stride) add_circle(edges, count, stride);
  if (degree % 2 == 0) return edges;
  // One more edge a node. An even count: to the node opposite. An odd one: every other edge of the circle with stride
  // count / 2, which no chord above has used; the node that it misses is the one of a lower degree.
  const uint32_t half = count / 2;
  for (uint32_t i = 0; i < half; ++i) {
    if (count % 2 == 0) {
      edges.push_back({i, i + half});
    } else {
      const uint64_t step = 2 * static_cast<uint64_t>(i);
      edges.push_back({static_cast<uint32_t>(step * half % count), static_cast<uint32_t>((step + 1) * half % count)});
    }
  }
  return edges;
}

// Exchanges the ends of random pairs of edges, a-b c-d to a-d c-b, wherever that leaves the graph simple: degrees stay.
// Pairing free ends and rejecting, the textbook's way, would practically never end for degrees above 6.
void swap_ends(std::vector<Edge>& edges, uint32_t count, Rng& rng) {
  constexpr size_t kSwapsPerEdge = 10;  // well past what random regular graphs need to forget their start
  std::vector<bool> joined(static_cast<size_t>(count) * count);
  const auto mark = [&](uint32_t a, uint32_t b, bool value) {
    joined[static_cast<size_t>(a) * count + b] = joined[static_cast<size_t>(b) * count + a] = value;
  };
  for (const auto& [a, b] : edges) mark(a, b, true);
  const uint32_t edge_count = static_cast<uint32_t>(edges.size());
  for (size_t i = 0; i < kSwapsPerEdge * edges.size(); ++i) {
    Edge& one = edges[rng.below(edge_count)];
    Edge& other = edges[rng.below(edge_count)];
    if (rng.chance(0.5)) std::swap(other.first, other.second);
    const auto [a, b] = one;
    const auto [c, d] = other;
    if (a == d || c == b || joined[static_cast<size_t>(a) * count + d] || joined[static_cast<size_t>(c) * count + b]) {
      continue;
    }
    mark(a, b, false);
    mark(c, d, false);
    mark(a, d, true);
    mark(c, b, true);
    one = {a, d};
    other = {c, b};
  }
}

Graph regular_graph(uint32_t count, uint32_t wanted, uint64_t rng_seed) {
  constexpr int kAttemptsMax = 64;  // a random graph of degree 3 or more is connected nearly always
  const uint32_t degree = std::min(wanted, count - 1);
  Rng rng(rng_seed);
  const std::vector<uint32_t> ranks = shuffled_ranks(count, rng);
  std::vector<Edge> start = circulant_edges(count, degree);
  for (auto& [a, b] : start) a = ranks[a], b = ranks[b];
  // Connected and of degree 2 is a ring in random order: there it is. Of degree 1 there is nothing to choose.
  for (int attempt = 0; degree > 2 && attempt < kAttemptsMax; ++attempt) {
    std::vector<Edge> edges = start;
    swap_ends(edges, count, rng);
    Graph graph = graph_of(count, edges);
    if (is_connected(graph)) return graph;
  }
  return graph_of(count, start);
}

}  // namespace

std::optional<TopologyKind> parse_topology(std::string_view name) {
  for (const auto& [kind, kind_name] : kKinds) {
    if (kind_name == name) return kind;
  }
  return std::nullopt;
}

std::string_view topology_name(TopologyKind kind) {
  for (const auto& [known, name] : kKinds) {
    if (known == kind) return name;
  }
  return "unknown";
}

std::vector<std::string> topology_names() {
  std::vector<std::string> names;
  for (const auto& [kind, name] : kKinds) names.emplace_back(name);
  return names;
}

bool changes_by_round(TopologyKind kind) { return kind == TopologyKind::kMatching || kind == TopologyKind::kOnePeer; }

std::pair<size_t, size_t> torus_shape(size_t count) {
  size_t rows = 1;
  for (size_t r = 2; r * r <= count; ++r) {
    if (count % r == 0) rows = r;
  }
  return {rows, count / rows};
}

Graph make_graph(const TopologySpec& spec, size_t count, uint64_t round, const std::vector<std::string>& names) {
  const uint32_t n = static_cast<uint32_t>(count);
  if (n < 2) return graph_of(count, {});
  std::vector<Edge> edges;
  switch (spec.kind) {
    case TopologyKind::kMatching: edges = matching_edges(n, spec.rng_seed, round); break;
    case TopologyKind::kRing: add_circle(edges, n, 1); break;
    case TopologyKind::kTorus: edges = torus_edges(n); break;
    case TopologyKind::kExponential:
      for (uint32_t stride = 1; stride < n; stride *= 2) add_circle(edges, n, stride);
      break;
    case TopologyKind::kRegular: return regular_graph(n, spec.degree, spec.rng_seed);
    case TopologyKind::kStar:
      for (uint32_t i = 1; i < n; ++i) edges.push_back({0, i});
      break;
    case TopologyKind::kFull: edges = full_edges(n); break;
    case TopologyKind::kFile: edges = named_edges(spec, count, names); break;
    case TopologyKind::kOnePeer: {
      if (!std::has_single_bit(n)) {
        edges = matching_edges(n, spec.rng_seed, round);
        break;
      }
      const uint32_t bit = 1u << (round % static_cast<uint64_t>(std::countr_zero(n)));
      for (uint32_t i = 0; i < n; ++i) edges.push_back({i, i ^ bit});
      break;
    }
  }
  return graph_of(count, edges);
}

double edge_weight(size_t degree_i, double mass_i, size_t degree_j, double mass_j) {
  const double share_i = 1 / (1 + static_cast<double>(degree_i));
  const double share_j = 1 / (1 + static_cast<double>(degree_j));
  return std::min(share_i, share_j * mass_j / mass_i);
}

}  // namespace starling
