// Combinations that cannot work, refused before anything is started.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "agent/config/check_updates.h"
#include "agent/config/fields.h"
#include "agent/config/mistakes.h"
#include "agent/config/settings.h"
#include "agent/report/format.h"
#include "agent/train/model_kinds.h"
#include "compression/codec.h"
#include "gossip/exchange/options.h"
#include "gossip/limits.h"

namespace starling {
namespace {

// Refuses a graph that is not connected: its parts would be separate swarms.
void refuse_parted(const TopologySpec& topology) {
  std::vector<std::string> names;
  for (const auto& [a, b] : topology.edges) {
    names.push_back(a);
    names.push_back(b);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  const Graph graph = make_graph(topology, names.size(), 0, names);
  if (is_connected(graph)) return;
  throw ConfigError("swarm.topology.edges: the graph is in parts: " + names[0] +
                    " does not reach everybody; add an "
                    "edge between the parts");
}

void refuse_members(const ExchangeConfig& exchange) {
  if (exchange.members.empty()) return;
  const std::string where = "swarm.exchange.members: ";
  const std::string count = std::to_string(exchange.members.size());
  if (exchange.kind != ExchangeKind::kGroup) throw ConfigError(where + "read only with kind: group");
  if (shares_updates(exchange) && exchange.members.size() > kUpdateMembersMax) {
    throw ConfigError(where + "at most " + std::to_string(kUpdateMembersMax) + " members can share updates, here are " +
                      count + "; name fewer");
  }
  const bool fits = shares_updates(exchange) || exchange.members.size() <= exchange.group_size;
  if (exchange.members.size() < 2 || !fits) {
    throw ConfigError(where + "a group has 2 to " + std::to_string(exchange.group_size) +
                      " members (group_size; at "
                      "most " +
                      std::to_string(kGroupMax) + "), here are " + count + "; name fewer, or write kind: pairwise");
  }
  std::vector<std::string> names = exchange.members;
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) throw ConfigError(where + "'" + *twice + "' stands there twice");
}

// Only pairs by turns make so many exchanges at a boundary.
void refuse_turns(const ExchangeConfig& exchange) {
  if (exchange.turns == 0) return;
  const std::string where = "swarm.exchange.exchanges_per_step: " + std::to_string(exchange.turns) + " at a boundary: ";
  if (exchange.kind != ExchangeKind::kPairwise) {
    throw ConfigError(where + "only pairs begin them; write exchanges_per_step: auto, or kind: pairwise");
  }
  if (exchange.overlap == Overlap::kOn) {
    throw ConfigError(
        where +
        "with overlap: on exchanges run beside the steps, as many as fit; write exchanges_per_step: auto, "
        "or overlap: auto");
  }
}

// Refuses what the exchanges in rounds (neighborhood and group) cannot average correctly.
void refuse_averaging(const SwarmConfig& swarm) {
  const ExchangeConfig& exchange = swarm.exchange;
  const bool group = exchange.kind == ExchangeKind::kGroup;
  const std::string kind = group ? "group" : "neighborhood";
  const bool averages = group || exchange.kind == ExchangeKind::kNeighborhood;
  Mistakes mistakes;
  mistakes.add_if(averages && !shares_updates(exchange) && !make_codec(exchange.codec, MemorySpace::kHost)->linear(),
                  "swarm.exchange.codec: " + std::string(codec_name(exchange.codec)) +
                      " says only how two models differ, and " + kind +
                      " averages what "
                      "stands for itself; write codec: bf16, fp16 or fp32, or kind: pairwise");
  mistakes.add_if(exchange.fragments > 1 && exchange.kind != ExchangeKind::kPairwise,
                  "swarm.exchange.fragments: only pairs exchange a part of the model at a time; write "
                  "fragments: 1, or kind: pairwise");
  mistakes.add_if(
      clip_of(exchange) > 0 && exchange.kind != ExchangeKind::kPairwise && exchange.kind != ExchangeKind::kNone,
      "swarm.exchange.outlier_clip: only pairs vote on a scale; write outlier_clip: 0, or kind: pairwise");
  mistakes.add_if(!group && exchange.inject_loss > 0,
                  "--inject-loss: only a group drops blocks on receive; write kind: group");
  mistakes.refuse();
}

// The newest agents leave a full group, so that more would never be there.
void refuse_wait(const SwarmConfig& swarm) {
  const uint32_t most = members_max(swarm.exchange);
  if (swarm.exchange.kind != ExchangeKind::kGroup || swarm.wait_for <= most) return;
  throw ConfigError("swarm.wait_for: " + std::to_string(swarm.wait_for) + " agents, and this group holds at most " +
                    std::to_string(most) + "; wait for fewer, or write kind: pairwise");
}

void refuse_graph(const TopologySpec& topology) {
  const bool has_edges = !topology.edges.empty();
  if (has_edges != (topology.kind == TopologyKind::kFile)) {
    throw ConfigError(has_edges ? "swarm.topology.edges: read only with kind: file"
                                : "swarm.topology.kind: file needs edges, such as [agent-0 agent-1, agent-1 agent-2]");
  }
  if (has_edges) refuse_parted(topology);
}

void refuse_schedule(const SwarmConfig& swarm) {
  const OptimizerConfig& optimizer = swarm.optimizer;
  if (optimizer.schedule == Schedule::kCosine && swarm.stop_after <= optimizer.warmup) {
    throw ConfigError("swarm.optimizer.schedule: cosine goes down to 0 at swarm.stop_after (" +
                      std::to_string(swarm.stop_after) + "), which must lie behind the warmup (" +
                      std::to_string(optimizer.warmup) + " steps); take more steps, a shorter warmup, or constant");
  }
  if (optimizer.schedule == Schedule::kStep && optimizer.decay_every == 0) {
    throw ConfigError("swarm.optimizer.schedule: step needs decay_every");
  }
}

void refuse_momentum(const SwarmConfig& swarm) {
  const OptimizerConfig& optimizer = swarm.optimizer;
  if (optimizer.kind == "sgd" && optimizer.nesterov && optimizer.momentum == 0) {
    throw ConfigError("swarm.optimizer: nesterov needs a momentum; give one, or write nesterov: false");
  }
  if (!swarm.exchange.carry_momentum || swarm.exchange.kind == ExchangeKind::kNone) return;
  if (optimizer.kind != "sgd") {
    throw ConfigError(
        "swarm.exchange.share: adamw has no momentum that could ride along (its moments stay local); "
        "write share: [params], or take sgd");
  }
  if (optimizer.momentum == 0) {
    throw ConfigError(
        "swarm.exchange.share: there is no momentum to carry while swarm.optimizer.momentum is 0; "
        "write share: [params], or give a momentum");
  }
}

void refuse_times(const SwarmConfig& swarm) {
  Mistakes mistakes;
  const bool is_auto = swarm.exchange.deadline_max == kDeadlineAuto;
  mistakes.add_if(!is_auto && swarm.exchange.deadline_min > swarm.exchange.deadline_max,
                  "swarm.exchange: deadline_min (" + print_duration(swarm.exchange.deadline_min) +
                      ") is longer than deadline_max (" + print_duration(swarm.exchange.deadline_max) + ")");
  mistakes.add_if(swarm.membership.probe_timeout > swarm.membership.probe_interval,
                  "swarm.membership: probe_timeout (" + print_duration(swarm.membership.probe_timeout) +
                      ") is longer than probe_interval (" + print_duration(swarm.membership.probe_interval) +
                      "); a probe must end before the next begins");
  mistakes.refuse();
}

void refuse_of_built_in(const Config& config) {
  if (!model_kind(config.swarm.model.kind).attached) return;
  Mistakes mistakes;
  for (const ConfigField& field : config_fields()) {
    mistakes.add_if(is_of_built_in(field) && field.print(config) != field.print({}),
                    field.name +
                        ": read only of built-in models, and kind: attached trains a loop of your own, which "
                        "has its own; delete the key");
  }
  mistakes.add_if(config.swarm.exchange.source == SourceKind::kGradients,
                  "swarm.exchange.source: gradients: accumulation, scaling and clipping of gradients are the loop's "
                  "own, so they cannot be shared; write source: updates with local_steps: 1, or source: params");
  mistakes.refuse();
}

// The replica of one log travels whole to a member that has missed too much of it.
void refuse_large_slices(const ExchangeConfig& exchange, uint64_t params) {
  constexpr uint64_t kStateMax = kUpdatePartsMax * kUpdatePartBytes;
  if (!shares_updates(exchange)) return;
  const uint64_t slices = slices_max(exchange), floats = exchange.outer_momentum > 0 ? 2 : 1;
  const uint64_t bytes = (params / slices + 1) * floats * sizeof(float);
  if (bytes <= kStateMax) return;
  throw ConfigError("swarm.exchange.update.slices: " + std::to_string(params) + " params in " + std::to_string(slices) +
                    " slices are " + print_bytes(bytes) + " each, and at most " + print_bytes(kStateMax) +
                    " of a slice can travel; more slices, or a smaller model");
}

// Refuses sizes that make no model, an optimizer that the model does not support, and more than can travel.
void refuse_model(const SwarmConfig& swarm) {
  uint64_t params = 0;
  try {
    params = model_kind(swarm.model.kind).param_count(swarm.model);
    refuse_optimizer(swarm.model.kind, swarm.optimizer);
  } catch (const std::runtime_error& error) {
    throw ConfigError(error.what());
  }
  refuse_large_slices(swarm.exchange, params);
  const uint64_t vectors = swarm.exchange.carry_momentum ? 2 : 1;
  const uint64_t blocks = vectors * (params / swarm.exchange.block + 1);
  if (blocks <= kBlocksMax) return;
  throw ConfigError("swarm.exchange.block: " + std::to_string(params) + " params in blocks of " +
                    std::to_string(swarm.exchange.block) + " are " + std::to_string(blocks) + " blocks, more than " +
                    std::to_string(kBlocksMax) + "; larger blocks, or a smaller model");
}

void refuse_data(const Config& config) {
  const DataConfig& data = config.agent.data;
  if (data.hold_out > 0 && !data.test_path.empty()) {
    throw ConfigError(
        "agent.data: 'hold_out' and 'test_path' (--test-data) both say what this agent's model is judged on; use one "
        "of them");
  }
  if (data.labels.empty()) return;
  if (data.sharding == "labels" || data.sharding == "dirichlet") {
    throw ConfigError("agent.data: 'labels' and 'sharding: " + data.sharding +
                      "' both choose the labels; use one of "
                      "them");
  }
  const int64_t largest = *std::max_element(data.labels.begin(), data.labels.end());
  if (config.has_swarm && largest >= config.swarm.model.classes) {
    throw ConfigError("agent.data.labels: label " + std::to_string(largest) + " is outside the model's " +
                      std::to_string(config.swarm.model.classes) + " classes, 0 to " +
                      std::to_string(config.swarm.model.classes - 1));
  }
}

// Neighbors of a round follow from the members and the round that an agent sees: who missed a block is a round behind,
// and looks for others than its neighbors do. Among 9 simulated agents with 1 % of frames lost that cost 35 % of the
// blocks, on a ring 4 %.
std::string trouble_of_rounds(const SwarmConfig& swarm) {
  const TopologyKind graph = swarm.topology.kind;
  const bool changes = graph == TopologyKind::kMatching || graph == TopologyKind::kOnePeer;
  if (swarm.exchange.kind != ExchangeKind::kNeighborhood || !changes) return "";
  return "with swarm.topology.kind: " + std::string(topology_name(graph)) +
         " the neighbors change in each round, so one lost message costs several rounds; write swarm.topology.kind: "
         "ring "
         "or exponential, or swarm.exchange.kind: pairwise";
}

// Digits by label with 8 steps between two exchanges: by a schedule, for which the momentum travels, 4 agents came to
// 93 % in each run and 8 in none of three (18 s); without one 4 never did. A group did.
std::string trouble_of_long_rounds(const SwarmConfig& swarm, const DataConfig& data) {
  constexpr uint32_t kTooMany = 8;
  const bool differ = data.sharding == "labels" || !data.labels.empty();
  if (swarm.exchange.kind != ExchangeKind::kPairwise || swarm.local_steps < kTooMany || !differ) return "";
  const bool scheduled = swarm.exchange.carry_momentum && swarm.exchange.overlap != Overlap::kOn &&
                         swarm.topology.kind == TopologyKind::kMatching;
  return "this agent holds other labels than its peers, and pairs with " + std::to_string(swarm.local_steps) +
         " steps between two exchanges hardly learn from such data" +
         (scheduled ? " among more than four agents" : "") +
         "; write swarm.local_steps: 1 and swarm.exchange.share: [params, momentum], or swarm.exchange.kind: group";
}

}  // namespace

void refuse_absent(const SwarmConfig& swarm, size_t count) {
  if (count == 0) return;
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back("agent-" + std::to_string(i));
  Mistakes mistakes;
  std::set<std::string> absent;
  std::vector<std::string> unnamed = names;
  const auto look_for = [&](const std::string& key, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) != names.end() || !absent.insert(key + name).second) return;
    mistakes.add(key + " names '" + name + "', which this swarm will not have: its agents are agent-0 to " +
                 names.back());
  };
  for (const auto& [a, b] : swarm.topology.edges) {
    look_for("swarm.topology.edges", a);
    look_for("swarm.topology.edges", b);
    std::erase(unnamed, a);
    std::erase(unnamed, b);
  }
  mistakes.add_if(!swarm.topology.edges.empty() && !unnamed.empty(),
                  "swarm.topology.edges names no edge of '" + (unnamed.empty() ? "" : unnamed.front()) +
                      "', which would meet nobody; add an edge, or start fewer agents");
  const bool unread = swarm.exchange.kind == ExchangeKind::kGroup && swarm.topology.kind != TopologySpec().kind;
  mistakes.add_if(unread, "swarm.topology.kind: " + std::string(topology_name(swarm.topology.kind)) +
                              ": a group has no graph, as all its members meet; delete the key, or write kind: "
                              "neighborhood");
  const uint32_t degree = swarm.topology.degree;
  mistakes.add_if(swarm.topology.kind == TopologyKind::kRegular && degree != TopologySpec().degree && degree >= count,
                  "swarm.topology.degree: " + std::to_string(degree) + " neighbors of each of " +
                      std::to_string(count) + " agents; start more, or choose at most " + std::to_string(count - 1));
  for (const std::string& name : swarm.exchange.members) look_for("swarm.exchange.members", name);
  const size_t named = swarm.exchange.members.size();
  mistakes.add_if(shares_updates(swarm.exchange) && named > 0 && named < count,
                  "swarm.exchange.members names " + std::to_string(named) + " of " + std::to_string(count) +
                      " agents, and updates hold replicas together only where all apply the same bytes; name all, or "
                      "leave members out, or write source: params");
  const uint32_t most = members_max(swarm.exchange);
  const bool too_many = swarm.exchange.kind == ExchangeKind::kGroup && count > most;
  mistakes.add_if(too_many && shares_updates(swarm.exchange),
                  "swarm.exchange.source: at most " + std::to_string(most) +
                      " agents can share updates, and here are " + std::to_string(count) +
                      "; start fewer, or write source: params and kind: pairwise");
  mistakes.add_if(too_many && !shares_updates(swarm.exchange) && named == 0,
                  "swarm.exchange.kind: a group holds at most " + std::to_string(most) + " agents, and here are " +
                      std::to_string(count) + "; start fewer, or write kind: pairwise, which holds any number");
  mistakes.refuse();
}

std::string foreseen_trouble(const SwarmConfig& swarm, const DataConfig& data) {
  const std::string rounds = trouble_of_rounds(swarm);  // of neighborhoods; the other is of pairs
  return rounds.empty() ? trouble_of_long_rounds(swarm, data) : rounds;
}

void refuse_combinations(const Config& config, const std::string& where) {
  const SwarmConfig& swarm = config.swarm;
  Mistakes mistakes(where + ": ");
  const auto ask = [&](const auto& refuse, const auto& of) { mistakes.attempt([&] { refuse(of); }); };
  ask(refuse_momentum, swarm);
  ask(refuse_turns, swarm.exchange);
  ask(refuse_averaging, swarm);
  ask(refuse_unmergeable, swarm);
  ask(refuse_members, swarm.exchange);
  ask(refuse_wait, swarm);
  ask(refuse_graph, swarm.topology);
  ask(refuse_schedule, swarm);
  ask(refuse_times, swarm);
  ask(refuse_of_built_in, config);
  ask(refuse_model, swarm);
  ask(refuse_data, config);
  mistakes.refuse();
}

}  // namespace starling
