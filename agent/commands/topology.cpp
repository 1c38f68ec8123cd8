#include "agent/commands/topology.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include "agent/commands/commands.h"
#include "agent/commands/flags.h"
#include "agent/commands/topology_updates.h"
#include "agent/config/values.h"
#include "agent/report/format.h"
#include "agent/report/svg.h"
#include "agent/report/topology_draw.h"
#include "compression/codec.h"
#include "compression/update_codec.h"
#include "gossip/exchange/options.h"
#include "gossip/limits.h"
#include "gossip/net/text.h"

namespace starling {
namespace {

constexpr uint64_t kAgentsDefault = 16;
constexpr uint64_t kParamsMax = 1'000'000'000'000;
constexpr const char* kPairsCounted =
    "matching: one exchange an agent and round; swarm.exchange.exchanges_per_step: 2 makes two, as auto does where\n"
    "  more than four agents share the momentum\n";

// A graph and what is printed about it.
struct Subject {
  TopologySpec spec;
  std::vector<std::string> names;  // of a file's agents; empty: ranks
  Graph graph;
};

// What a model weighs, in words too, and the part of it that an exchange sends.
struct Payload {
  uint64_t model_bytes = 0, bytes = 0;
  uint64_t fragments = 1;
  std::string words;
};

std::pair<std::string, std::string> read_edge(const std::string& line, const std::string& where) {
  std::istringstream words(line);
  std::string a, b, more;
  words >> a >> b;
  if (b.empty() || words >> more) {
    throw std::runtime_error(where + ": expected two names with a space between, found '" +
                             (is_plain_text(line) ? line : "something that is not text") + "'");
  }
  for (const std::string& name : {a, b}) {
    if (!is_one_line(name)) throw std::runtime_error(where + ": a name that is not plain UTF-8 text; write it anew");
    if (name.size() > kNameBytesMax) {
      throw std::runtime_error(where + ": a name of " + std::to_string(name.size()) + " bytes; no agent's name has " +
                               "more than " + std::to_string(kNameBytesMax));
    }
  }
  if (a == b) throw std::runtime_error(where + ": joins '" + a + "' to itself; name two agents, or take the line out");
  return {a, b};
}

std::vector<std::string> names_in(const std::vector<std::pair<std::string, std::string>>& edges) {
  std::set<std::string> names;
  for (const auto& [a, b] : edges) {
    names.insert(a);
    names.insert(b);
  }
  return {names.begin(), names.end()};
}

void check_count(uint64_t count, const std::string& whose) {
  if (count >= 2 && count <= kMembersMax) return;
  throw std::runtime_error(whose + std::to_string(count) + (count == 1 ? " agent" : " agents") +
                           "; a topology has 2 to " + std::to_string(kMembersMax));
}

void check_degree(uint64_t degree, uint64_t count) {
  const uint64_t least = std::min<uint64_t>(2, count - 1);
  if (degree >= least && degree < count) return;
  const std::string range =
      least == count - 1 ? std::to_string(least) : std::to_string(least) + " to " + std::to_string(count - 1);
  throw std::runtime_error("--degree " + std::to_string(degree) + " cannot join " + std::to_string(count) +
                           " agents; choose " + range);
}

// The error names one agent in each part, so that it is clear which edge to add.
void check_connected(const Subject& subject) {
  if (changes_by_round(subject.spec.kind) || is_connected(subject.graph)) return;
  std::vector<uint32_t> found = {0};
  std::vector<bool> seen(subject.graph.count());
  seen[0] = true;
  for (size_t i = 0; i < found.size(); ++i) {
    for (uint32_t next : subject.graph.neighbors[found[i]]) {
      if (!seen[next]) found.push_back(next);
      seen[next] = true;
    }
  }
  const auto apart = static_cast<size_t>(std::find(seen.begin(), seen.end(), false) - seen.begin());
  const auto name = [&](size_t rank) { return subject.names.empty() ? std::to_string(rank) : subject.names[rank]; };
  throw std::runtime_error("the graph is not connected: no path leads from '" + name(0) + "' to '" + name(apart) +
                           "', so they would never learn from each other; add an edge between the two parts");
}

Subject make_subject(TopologyKind kind, const TopologyOptions& options) {
  Subject subject;
  subject.spec.kind = kind;
  subject.spec.rng_seed = options.rng_seed;
  uint64_t count = options.agents.value_or(kAgentsDefault);
  if (kind == TopologyKind::kFile) {
    if (options.file.empty()) throw std::runtime_error("--kind file needs the file of edges: --file FILE");
    subject.spec.edges = read_edges(options.file);
    subject.names = names_in(subject.spec.edges);
    count = subject.names.size();
    check_count(count, options.file + " names ");
    if (options.agents && *options.agents != count) {
      throw std::runtime_error("--agents " + std::to_string(*options.agents) + ", but " + options.file + " names " +
                               std::to_string(count) + "; leave --agents out");
    }
  } else {
    check_count(count, "--agents asks for ");
  }
  if (kind == TopologyKind::kRegular && options.degree) {
    check_degree(*options.degree, count);
    subject.spec.degree = static_cast<uint32_t>(*options.degree);
  }
  subject.graph = make_graph(subject.spec, count, 0, subject.names);
  check_connected(subject);
  return subject;
}

Payload make_payload(const TopologyOptions& options) {
  const auto codec = parse_codec(options.codec);
  if (!codec) {
    std::vector<std::string> known;
    for (const CodecName& one : codec_names()) known.emplace_back(one.name);
    throw_unknown("codec", options.codec, known);
  }
  check_params(options.params);
  const uint64_t most = std::min<uint64_t>(options.params, kFragmentsMax);
  if (options.fragments == 0 || options.fragments > most) {
    throw std::runtime_error("--fragments " + std::to_string(options.fragments) + "; a model has 1 to " +
                             std::to_string(most));
  }
  const std::unique_ptr<Codec> host = make_codec(*codec, MemorySpace::kHost);
  const uint64_t bytes = host->payload_bytes_max(options.params);
  const uint64_t part = (bytes + options.fragments - 1) / options.fragments;
  Payload payload{
      bytes, part, options.fragments,
      std::to_string(options.params) + " params as " + options.codec + ", " + print_bytes(bytes) + " a model"};
  if (part < bytes) payload.words += ", of which an exchange sends " + print_bytes(payload.bytes);
  return payload;
}

// Of fragments, each is mixed in one round of as many.
std::string print_rounds(const TopologyFigures& figures, const Payload& payload) {
  if (figures.rounds_to_exact > 0) return "exact in " + std::to_string(figures.rounds_to_exact * payload.fragments);
  const double rounds = rounds_per_tenfold(figures.factor) * static_cast<double>(payload.fragments);
  return fmt::format("{:.{}f}", rounds, rounds < 100 ? 1 : 0);
}

// "-" if only several rounds together average exactly: then the gap of one round means nothing.
std::string print_gap(const TopologyFigures& figures) {
  return figures.rounds_to_exact > 1 ? "-" : fmt::format("{:.3g}", 1 - figures.factor);
}

std::string print_degrees(const TopologyFigures& figures) {
  const std::string most = std::to_string(figures.degree_max);
  return figures.degree_min == figures.degree_max ? most : std::to_string(figures.degree_min) + ".." + most;
}

// Sent and received by the busiest node of a round.
struct Load {
  std::string who;
  uint64_t messages, bytes;
};

// One model, or fragment, out and one in for each edge.
Load node_load(const std::string& who, size_t degree, const Payload& payload) {
  return {who, 2 * degree, 2 * degree * payload.bytes};
}

// Two well-known loads for comparison: a parameter server, to which each agent sends its model and gets one back, and a
// ring all-reduce, which sends 2 (n - 1) pieces of 1/n.
std::vector<Load> known_loads(size_t count, const Payload& payload) {
  return {{"parameter server", 2 * count, 2 * count * payload.model_bytes},
          {"ring all-reduce", 4 * (count - 1), 4 * (count - 1) * payload.model_bytes / count}};
}

std::string describe_change(const std::string& subject) {
  return subject + " new edges every round: gap and rounds per 10x are averages over " +
         std::to_string(kMeasuredRounds) + " rounds,\n  the rest and the drawing show round 0\n";
}

std::string print_one(const Subject& subject, const TopologyFigures& figures, const Payload& payload) {
  const std::string name(topology_name(subject.spec.kind));
  const size_t count = subject.graph.count();
  std::string text = fmt::format("{}, {} agents\n\n", name, count);
  const auto line = [&](const char* what, const std::string& value) {
    text += fmt::format("  {:<16}{}\n", what, value);
  };
  line("degree", print_degrees(figures));
  line("edges", std::to_string(figures.edges));
  line("diameter", figures.diameter ? std::to_string(*figures.diameter) : "- (not connected within one round)");
  line("spectral gap", print_gap(figures));
  line("rounds per 10x", print_rounds(figures, payload) +
                             (figures.rounds_to_exact > 0 ? "" : "  (until the spread between agents is a tenth)"));
  if (changes_by_round(subject.spec.kind)) text += "\n  " + describe_change(name + " has");
  if (subject.spec.kind == TopologyKind::kOnePeer && (count & (count - 1)) != 0) {
    text += fmt::format("\n  one-peer needs a power of two; with {} agents it is the random matching\n", count);
  }
  text += "\nBusiest node, sent and received in one round (" + payload.words + "):\n\n";
  text += fmt::format("  {:<20}{:>10}{:>12}\n", "", "messages", "bytes");
  std::vector<Load> loads = known_loads(count, payload);
  loads.insert(loads.begin(), node_load(name, figures.degree_max, payload));
  for (const Load& load : loads) {
    text += fmt::format("  {:<20}{:10}{:>12}\n", load.who, load.messages, print_bytes(load.bytes));
  }
  if (subject.spec.kind == TopologyKind::kMatching) text += std::string("\n  ") + kPairsCounted;
  return text;
}

std::string print_row(const std::string& name, const std::string& degree, const std::string& edges,
                      const std::string& diameter, const std::string& gap, const std::string& rounds,
                      const std::string& messages, const std::string& bytes) {
  return fmt::format("{:<17}{:>8}{:>8}{:>10}{:>10}{:>16}{:>10}{:>11}\n", name, degree, edges, diameter, gap, rounds,
                     messages, bytes);
}

std::string print_all(const TopologyOptions& options, const Payload& payload) {
  size_t count = 0;
  std::string text = print_row("", "degree", "edges", "diameter", "gap", "rounds per 10x", "messages", "bytes");
  for (const std::string& name : topology_names()) {
    const TopologyKind kind = *parse_topology(name);
    if (kind == TopologyKind::kFile) continue;
    const Subject subject = make_subject(kind, options);
    const TopologyFigures figures = measure_topology(subject.spec, subject.graph, {});
    const Load load = node_load(name, figures.degree_max, payload);
    text +=
        print_row(name + (changes_by_round(kind) ? " *" : ""), print_degrees(figures), std::to_string(figures.edges),
                  figures.diameter ? std::to_string(*figures.diameter) : "-", print_gap(figures),
                  print_rounds(figures, payload), std::to_string(load.messages), print_bytes(load.bytes));
    count = subject.graph.count();
  }
  for (const Load& load : known_loads(count, payload)) {
    text += print_row(load.who, "", "", "", "", "exact in 1", std::to_string(load.messages), print_bytes(load.bytes));
  }
  text = fmt::format("{} agents; messages and bytes: the busiest node's, sent and received in one round\n(", count) +
         payload.words + ")\n\n" + text;
  text +=
      "\nrounds per 10x: until the spread between agents is a tenth\n"
      "* new edges every round: gap and rounds per 10x are averages over " +
      std::to_string(kMeasuredRounds) + " rounds, the rest is round 0\n" + kPairsCounted;
  if ((count & (count - 1)) != 0) text += "  one-peer needs a power of two; here it is the random matching\n";
  return text;
}

void check_options(const TopologyOptions& options, const std::string& kind) {
  if (!options.file.empty() && kind != "file") {
    throw std::runtime_error("--file is for --kind file, not for " + kind + "; leave one of them out");
  }
  if (options.degree && kind != "regular" && kind != "all") {
    throw std::runtime_error("--degree is for --kind regular; the degree of " + kind + " follows from the agents");
  }
  if (!options.svg.empty() && kind == "all") {
    throw std::runtime_error("--svg draws one graph; choose which with --kind");
  }
}

}  // namespace

void check_params(uint64_t params) {
  if (params > 0 && params <= kParamsMax) return;
  throw std::runtime_error("--params " + std::to_string(params) + "; a model has 1 to " + std::to_string(kParamsMax));
}

std::vector<std::pair<std::string, std::string>> read_edges(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    throw std::runtime_error("cannot read " + path + ": " + std::strerror(errno) +
                             "; it is to hold two names of agents a line, an edge each");
  }
  std::vector<std::pair<std::string, std::string>> edges;
  std::string line;
  for (size_t number = 1; std::getline(file, line); ++number) {
    line.resize(std::min(line.find('#'), line.size()));
    while (!line.empty() && std::strchr(" \t\r", line.back()) != nullptr) line.pop_back();
    if (!line.empty()) edges.push_back(read_edge(line, path + ":" + std::to_string(number)));
  }
  if (file.bad()) throw std::runtime_error("cannot read " + path + ": " + std::strerror(errno));
  return edges;
}

TopologyFigures measure_topology(const TopologySpec& spec, const Graph& graph, const std::vector<std::string>& names) {
  TopologyFigures figures;
  figures.degree_min = graph.count();
  size_t ends = 0;
  for (const auto& neighbors : graph.neighbors) {
    figures.degree_min = std::min(figures.degree_min, neighbors.size());
    figures.degree_max = std::max(figures.degree_max, neighbors.size());
    ends += neighbors.size();
  }
  figures.edges = ends / 2;
  figures.diameter = diameter(graph);
  figures.factor = contraction(spec, graph.count(), kMeasuredRounds, names);
  if (figures.factor > 0) return figures;
  for (uint64_t rounds = 1; rounds <= kMeasuredRounds && figures.rounds_to_exact == 0; ++rounds) {
    if (contraction(spec, graph.count(), rounds, names) == 0) figures.rounds_to_exact = rounds;
  }
  return figures;
}

int run_topology_command(const TopologyOptions& options) {
  if (!options.update.empty()) {
    std::fputs(print_update_loads(options).c_str(), stdout);
    return 0;
  }
  if (options.density) throw std::runtime_error("--density is of update codecs: name one with --update, or all");
  const std::string word = !options.kind.empty() ? options.kind : options.file.empty() ? "all" : "file";
  std::vector<std::string> words = topology_names();
  words.push_back("all");
  const auto kind = parse_topology(word);
  if (!kind && word != "all") throw_unknown("topology", word, words);
  check_options(options, word);
  const Payload payload = make_payload(options);
  if (!kind) {
    std::fputs(print_all(options, payload).c_str(), stdout);
    return 0;
  }
  const Subject subject = make_subject(*kind, options);
  const TopologyFigures figures = measure_topology(subject.spec, subject.graph, subject.names);
  std::string text = print_one(subject, figures, payload);
  if (!options.svg.empty()) {
    const std::string title =
        word + ", " + std::to_string(subject.graph.count()) + " agents" + (changes_by_round(*kind) ? ", round 0" : "");
    write_drawing(options.svg, draw_svg(*kind, subject.graph, subject.names, title));
    text += "\ndrawn in " + options.svg + "\n";
  } else if (subject.graph.count() <= kMatrixAgentsMax) {
    text += "\n" + draw_matrix(subject.graph, subject.names);
  } else {
    text += "\ntoo many agents to draw here: --svg FILE draws them\n";
  }
  std::fputs(text.c_str(), stdout);
  return 0;
}

void add_topology(CLI::App& app, Cli& cli) {
  Subcommand command(app, "topology", "Shows the costs of a graph of agents and its speed, and draws it.");
  const auto options = std::make_shared<TopologyOptions>();
  TopologyOptions& topology = *options;
  std::string kinds = "all";
  for (const std::string& name : topology_names()) kinds += " | " + name;
  command.text("--kind KIND", "Graph: " + kinds + ". Default: all, which compares them, or file where --file is given.",
               topology.kind);
  add_count_flag(command, topology.agents, "--agents", {},
                 "Number of agents. Default: 16, or those that the file names.");
  add_count_flag(command, topology.degree, "--degree", {}, "Neighbors of each agent, for --kind regular. Default: 4.");
  add_count_flag(command, topology.rng_seed, "--seed", {}, "Seed of the random kinds. Default: 1.");
  add_count_flag(command, topology.params, "--params", {}, "Params of the model, for the bytes. Default: 10000000.");
  command.text("--codec CODEC", "Codec of the params: " + codec_choices(" | ") + ". Default: fp32.", topology.codec);
  add_count_flag(command, topology.fragments, "--fragments", {},
                 "Parts of the model, one of which an exchange sends. Default: 1.");
  command.text("--update CODEC",
               "Shows what a group that shares updates sends, by codec: all | " + update_choices(" | ") +
                   ". Default: none, which shows graphs.",
               topology.update);
  add_density_flag(command, topology.density, "Part of the elements that are sent, for --update. Default: 0.01.");
  command.text("--file FILE", "File of edges for --kind file: two names a line, # for comments. Default: none.",
               topology.file);
  command.text("--svg FILE", "Draws into this file. Default: the terminal.", topology.svg);
  command.then([&cli, options] { cli.choose("topology", *options, run_topology_command); });
}

}  // namespace starling
