#include "agent/config/fields.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "agent/config/values.h"
#include "agent/train/model_kinds.h"
#include "compression/codec.h"
#include "compression/update_codec.h"
#include "gossip/exchange/options.h"
#include "gossip/limits.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
constexpr size_t kPathBytesMax = 4000;

// Codecs known from the literature that Starling lacks are refused with the reason and an alternative.
struct CodecValue {
  static CodecKind read(const ConfigTree& tree) {
    const std::string name = scalar_text(tree, "one of " + codec_choices(", "));
    if (const auto kind = parse_codec(name)) return *kind;
    const std::string plain = name.substr(0, name.find('+'));
    const auto is_one_of = [&](const std::vector<std::string>& names) {
      return std::find(names.begin(), names.end(), plain) != names.end();
    };
    if (is_one_of({"topk", "sign", "dgc"})) {
      throw std::invalid_argument("'" + name +
                                  "' has no legal delta for a pair of params: what one side leaves out the "
                                  "other cannot know; take modulo8, or source: updates with update.codec");
    }
    if (name.ends_with("+ef")) {
      throw std::invalid_argument("'" + name + "': error feedback needs updates, and a pair shares params, which are "
                                  "the memory of what was not sent; take modulo8");
    }
    if (parse_update(plain)) {
      throw std::invalid_argument("'" + name + "' is a codec of updates, and a pair shares params; take modulo8 (1 "
                                  "byte an element, the mean stays exact), or write kind: group, source: updates and "
                                  "update.codec: " + plain);
    }
    if (plain == "powergossip") {
      throw std::invalid_argument("'powergossip' is a key of its own: write powergossip: {rank: 1} beside a codec, in "
                                  "which all that is no matrix travels");
    }
    if (plain == "fragments") {
      throw std::invalid_argument("'fragments' is a key of its own: write fragments: 4 beside a codec");
    }
    std::vector<std::string> known;
    for (const CodecName& codec : codec_names()) known.emplace_back(codec.name);
    (void)WordValue{known}.read(tree);   // throws
    return CodecKind::kModulo8;
  }
  static std::string print(CodecKind kind) { return std::string(codec_name(kind)); }
};

struct UpdateKindValue {
  static UpdateKind read(const ConfigTree& tree) { return *parse_update(WordValue{update_words()}.read(tree)); }
  static std::string print(UpdateKind kind) { return std::string(update_name(kind)); }
};

struct ExchangeKindValue {
  static ExchangeKind read(const ConfigTree& tree) { return choices().read(tree); }
  static std::string print(ExchangeKind kind) { return choices().print(kind); }
  static ChoiceValue<ExchangeKind> choices() {
    return {{{"none", ExchangeKind::kNone},
             {"pairwise", ExchangeKind::kPairwise},
             {"neighborhood", ExchangeKind::kNeighborhood},
             {"group", ExchangeKind::kGroup}}};
  }
};

struct TopologyValue {
  static TopologyKind read(const ConfigTree& tree) { return *parse_topology(WordValue{topology_names()}.read(tree)); }
  static std::string print(TopologyKind kind) { return std::string(topology_name(kind)); }
};

// Pairs of agents by name, each "A B".
struct EdgesValue {
  using Edges = std::vector<std::pair<std::string, std::string>>;
  static Edges read(const ConfigTree& tree) {
    constexpr size_t kEdgesMax = 65536;
    const std::string expected = "a list of edges such as [agent-0 agent-1, agent-1 agent-2]";
    Edges edges;
    for (const ConfigTree& item : list_items(tree, expected)) {
      const std::string text = scalar_text(item, expected);
      const size_t gap = text.find(' ');
      if (gap == std::string::npos) throw_expected("two names with a space between them", item);
      const auto name = [](const std::string& part) { return NameValue{kNameBytesMax}.read(scalar_tree(part)); };
      edges.emplace_back(name(text.substr(0, gap)), name(text.substr(gap + 1)));
      if (edges.back().first.empty() || edges.back().second.empty() || edges.back().first == edges.back().second) {
        throw_expected("two different names with a space between them", item);
      }
      if (edges.size() > kEdgesMax) throw std::invalid_argument("more than " + std::to_string(kEdgesMax) + " edges");
    }
    return edges;
  }
  static std::string print(const Edges& edges) {
    std::string text = "[";
    for (const auto& [a, b] : edges) text += (text.size() > 1 ? ", " : "") + quoted(a + " " + b);
    return text + "]";
  }
};

// Exchanges at a boundary; auto is 0.
struct TurnsValue {
  static uint32_t read(const ConfigTree& tree) {
    const std::string expected = "auto, or a number from 1 to " + std::to_string(kTurnsMax);
    if (scalar_text(tree, expected) == "auto") return 0;
    try {
      return static_cast<uint32_t>(CountValue{1, kTurnsMax}.read(tree));
    } catch (const std::invalid_argument&) {
      throw_expected(expected, tree);
    }
  }
  static std::string print(uint32_t turns) { return turns == 0 ? "auto" : std::to_string(turns); }
};

struct CarryValue {
  static bool read(const ConfigTree& tree) {
    const std::string expected = "[params] or [params, momentum]";
    std::string what;
    for (const ConfigTree& item : list_items(tree, expected)) what += (what.empty() ? "" : ", ") + item.text;
    if (what == "params") return false;
    if (what == "params, momentum" || what == "momentum, params") return true;
    throw std::invalid_argument("expected " + expected + ", found [" + what + "]");
  }
  static std::string print(bool momentum) { return momentum ? "[params, momentum]" : "[params]"; }
};

struct Shard {
  uint32_t index, count;
};

Shard read_shard(const ConfigTree& tree) {
  constexpr uint64_t kShardsMax = 100000;
  const std::string expected = "NUMBER/COUNT such as 2/4, the second of four";
  const std::string& text = scalar_text(tree, expected);
  const size_t slash = text.find('/');
  if (slash == std::string::npos) throw_expected(expected, tree);
  try {
    const uint64_t count = CountValue{1, kShardsMax}.read(scalar_tree(text.substr(slash + 1)));
    const uint64_t number = CountValue{1, count}.read(scalar_tree(text.substr(0, slash)));
    return {static_cast<uint32_t>(number - 1), static_cast<uint32_t>(count)};
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument("in '" + text + "': " + error.what());
  }
}

// A row of the table: `at` finds the value in a Config, `kind` reads and prints it.
template <typename At, typename Kind>
ConfigField row(const char* path, const char* flag, const std::string& doc, At at, Kind kind) {
  return {path, flag, doc,
          [at, kind](Config& config, const ConfigTree& tree) {
            using Value = std::remove_reference_t<decltype(at(config))>;
            at(config) = static_cast<Value>(kind.read(tree));
          },
          [at, kind](const Config& config) { return std::string(kind.print(at(config))); }};
}

#define AT(member) [](auto& config) -> auto& { return config.member; }

void add_model(std::vector<ConfigField>& t) {
  t.push_back(row("swarm.name", "", "for people", AT(swarm.name), NameValue{64}));
  t.push_back(row("swarm.rng_seed", "", "the first params, and who holds which data, follow from it",
                  AT(swarm.rng_seed), CountValue{0, kNoLimit}));
  t.push_back(row("swarm.model.kind", "", describe_model_kinds(), AT(swarm.model.kind),
                  WordValue{model_kind_names()}));
  t.push_back(row("swarm.model.input", "", "channels, height, width of one sample; for an lstm 1, 1, bytes of text",
                  AT(swarm.model.input), CountsValue{1, 4096, 3, 3}));
  t.push_back(row("swarm.model.classes", "", "labels are 0 to classes-1", AT(swarm.model.classes), CountValue{2, 256}));
  t.push_back(row("swarm.model.hidden", "", "widths of the hidden layers: mlp, vgg (behind its convolutions), lstm",
                  AT(swarm.model.hidden), CountsValue{1, 65536, 0, 16}));
  t.push_back(row("swarm.model.channels", "", "cnn, vgg: of the first convolution; twice as many behind each pool",
                  AT(swarm.model.channels), CountValue{1, 1024}));
  t.push_back(row("swarm.model.dimension", "", "quadratic: how many params", AT(swarm.model.dimension),
                  CountValue{1, 1000000000}));
  t.push_back(row("swarm.model.noise", "", "quadratic: standard deviation of the gradient, per element",
                  AT(swarm.model.noise), NumberValue{0, 1e6}));
}

void add_training(std::vector<ConfigField>& t) {
  t.push_back(row("swarm.optimizer.kind", "", "sgd | adamw", AT(swarm.optimizer.kind), WordValue{{"sgd", "adamw"}}));
  t.push_back(row("swarm.optimizer.learning_rate", "", "", AT(swarm.optimizer.learning_rate), NumberValue{0, 1000}));
  t.push_back(row("swarm.optimizer.momentum", "", "sgd", AT(swarm.optimizer.momentum), NumberValue{0, 0.9999}));
  t.push_back(row("swarm.optimizer.nesterov", "", "sgd: true | false", AT(swarm.optimizer.nesterov),
                  ChoiceValue<bool>{{{"true", true}, {"false", false}}}));
  t.push_back(row("swarm.optimizer.weight_decay", "", "", AT(swarm.optimizer.weight_decay), NumberValue{0, 10}));
  t.push_back(row("swarm.optimizer.beta1", "", "adamw", AT(swarm.optimizer.beta1), NumberValue{0, 0.99999}));
  t.push_back(row("swarm.optimizer.beta2", "", "adamw", AT(swarm.optimizer.beta2), NumberValue{0, 0.99999}));
  t.push_back(row("swarm.optimizer.epsilon", "", "adamw", AT(swarm.optimizer.epsilon), NumberValue{1e-16, 1}));
  t.push_back(row("swarm.optimizer.schedule", "",
                  "of the learning rate, by the swarm's clock: constant | cosine (to 0 at stop_after) | step",
                  AT(swarm.optimizer.schedule),
                  ChoiceValue<Schedule>{{{"constant", Schedule::kConstant},
                                         {"cosine", Schedule::kCosine},
                                         {"step", Schedule::kStep}}}));
  t.push_back(row("swarm.optimizer.warmup", "", "steps of the swarm's clock until the full learning rate",
                  AT(swarm.optimizer.warmup), CountValue{0, kNoLimit}));
  t.push_back(row("swarm.optimizer.decay_every", "", "schedule step: steps of the swarm's clock",
                  AT(swarm.optimizer.decay_every), CountValue{0, kNoLimit}));
  t.push_back(row("swarm.optimizer.decay", "", "schedule step: the factor", AT(swarm.optimizer.decay),
                  NumberValue{1e-6, 1}));
  t.push_back(row("swarm.weight", "",
                  "uniform: every agent counts the same, however fast | data: in proportion to its data | equal: every "
                  "model the same, so fast agents count more",
                  AT(swarm.weight), WordValue{{"uniform", "data", "equal"}}));
  t.push_back(row("swarm.local_steps", "",
                  "optimizer steps between two exchanges; more: fewer bytes, models farther apart",
                  AT(swarm.local_steps), CountValue{1, 1000000}));
  t.push_back(row("swarm.round", "", "a round lasts this long, each agent takes what steps it can; 0s: local_steps",
                  AT(swarm.round), TimeValue{0s, 1h}));
  t.push_back(row("swarm.batch", "", "samples a step, for agents that name no batch of their own", AT(swarm.batch),
                  CountValue{1, 1000000}));
  t.push_back(row("swarm.stop_after", "", "steps on the swarm's clock (median over living agents); 0: never",
                  AT(swarm.stop_after), CountValue{0, kNoLimit}));
  t.push_back(row("swarm.final_distance", "",
                  "settle at the end until models differ by less than this part of their rms", AT(swarm.final_distance),
                  NumberValue{1e-9, 10}));
  t.push_back(row("swarm.settle_max", "", "but no longer than this, and 20 ms more a member",
                  AT(swarm.settle_max), TimeValue{0s, 1h}));
}

// The key came with this version; until then Starling did `unwritten`.
ConfigField since(const char* version, const char* unwritten, ConfigField field) {
  field.since = version;
  field.unwritten = unwritten;
  return field;
}

std::string update_doc() {
  std::string text = "of updates: ";
  for (const UpdateName& update : update_names()) {
    text += (text.ends_with(": ") ? "" : " | ") + std::string(update.name) + ": " + std::string(update.note);
  }
  return text;
}

// Read only for gradients: beside another source it prints what it was before there was the key.
ConfigField repair_row() {
  const auto repaired = [](const Config& config) {
    const ExchangeConfig& exchange = config.swarm.exchange;
    return exchange.source == SourceKind::kGradients && exchange.repair;
  };
  ConfigField field = row("swarm.exchange.repair", "",
                          "gradients: on, or for experiments in simulate off: what is lost is lost",
                          [](auto& config) -> auto& { return config.swarm.exchange.repair; },
                          ChoiceValue<bool>{{{"on", true}, {"off", false}}});
  field.print = [repaired](const Config& config) { return std::string(repaired(config) ? "on" : "off"); };
  return since("0.2.0", "off", field);
}

const char* codec_doc() {
  static const std::string doc = [] {
    std::string text;
    for (const CodecName& codec : codec_names()) {
      text += (text.empty() ? "" : " | ") + std::string(codec.name) + ": " + std::string(codec.note);
    }
    return text;
  }();
  return doc.c_str();
}

void add_exchange(std::vector<ConfigField>& t) {
  t.push_back(row("swarm.exchange.kind", "",
                  "pairwise | neighborhood (D-PSGD) | group (RPS; reliable: all-reduce) | none (train alone)",
                  AT(swarm.exchange.kind), ExchangeKindValue{}));
  t.push_back(row("swarm.exchange.source", "",
                  "params | updates (group: what a round changed; all hold equal models) | gradients (likewise, one "
                  "step a round)",
                  AT(swarm.exchange.source),
                  ChoiceValue<SourceKind>{{{"params", SourceKind::kParams},
                                           {"updates", SourceKind::kUpdates},
                                           {"gradients", SourceKind::kGradients}}}));
  t.push_back(row("swarm.exchange.codec", "", codec_doc(), AT(swarm.exchange.codec), CodecValue{}));
  t.push_back(row("swarm.exchange.carry", "",
                  "[params], or [params, momentum]: twice the bytes, and it learns where data differ; "
                  "pairs then exchange twice after several steps",
                  AT(swarm.exchange.carry_momentum), CarryValue{}));
  t.push_back(since("0.2.0", "1", row("swarm.exchange.fragments", "",
                                      "pairs: an exchange carries one of so many parts of the model, in turn; 1: all",
                                      AT(swarm.exchange.fragments), CountValue{1, kFragmentsMax})));
  t.push_back(since("0.2.0", "auto", row("swarm.exchange.exchanges", "",
                                         "pairs by turns: so many at each boundary, whoever begins them: 1 to 3; auto: "
                                         "1, or 2 among more than four or after several steps if momentum travels",
                                         AT(swarm.exchange.turns), TurnsValue{})));
  t.push_back(since("0.2.0", "0", row("swarm.exchange.powergossip.rank", "",
                                      "pairs: of each matrix so many directions are mixed, 2 bytes for each row and "
                                      "column of one; 0: off",
                                      AT(swarm.exchange.low_rank), CountValue{0, kLowRankMax})));
  t.push_back(row("swarm.exchange.block", "", "elements in the unit of sending, losing and mixing",
                  AT(swarm.exchange.block), CountValue{64, 1048576}));
  t.push_back(row("swarm.exchange.overlap", "",
                  "exchange beside the steps: auto (when it costs over 10 % of a round; pairs: never) | on | off",
                  AT(swarm.exchange.overlap),
                  ChoiceValue<Overlap>{{{"auto", Overlap::kAuto}, {"on", Overlap::kOn}, {"off", Overlap::kOff}}}));
  t.push_back(row("swarm.exchange.deadline_min", "", "bounds of the deadline, which follows what is measured",
                  AT(swarm.exchange.deadline_min), TimeValue{1ms, 1h}));
  t.push_back(row("swarm.exchange.deadline_max", "", "no exchange takes longer", AT(swarm.exchange.deadline_max),
                  TimeValue{1ms, 1h}));
  t.push_back({"swarm.exchange.clip", "",
               "pairs: a partner counts like one so many times the usual distance away at most; 0: off",
               [](Config& config, const ConfigTree& tree) {
                 config.swarm.exchange.clip = NumberValue{0, 1000}.read(tree);
               },
               [](const Config& config) { return NumberValue::print(clip_of(config.swarm.exchange)); }});
  t.push_back(row("swarm.exchange.group_size", "", "group: members at most; a larger swarm is cut into several",
                  AT(swarm.exchange.group_size), CountValue{2, kGroupMax}));
  t.push_back(row("swarm.exchange.members", "", "group: the agents that are the group, by name; none: all who live",
                  AT(swarm.exchange.members), NamesValue{kNameBytesMax}));
  t.push_back(row("swarm.exchange.pairs_every", "",
                  "group: every so many rounds in pairs with another group; 0: never", AT(swarm.exchange.pairs_every),
                  CountValue{0, 1000000}));
  t.push_back(row("swarm.exchange.inject_loss", "", "group, for experiments: part of the blocks dropped on receive",
                  AT(swarm.exchange.inject_loss), NumberValue{0, 0.99}));
}

void add_updates(std::vector<ConfigField>& t) {
  t.push_back(since("0.2.0", "fp32", row("swarm.exchange.update.codec", "", update_doc(),
                                         AT(swarm.exchange.update.kind), UpdateKindValue{})));
  t.push_back(since("0.2.0", "0.01", row("swarm.exchange.update.density", "",
                                         "topk, randk: the part of a slice's elements that an update holds; sketch: "
                                         "that comes back",
                                         AT(swarm.exchange.update.density), kDensityValue)));
  t.push_back(since("0.2.0", "2", row("swarm.exchange.update.reply", "",
                                      "topk: what comes back holds at most so many times the elements of an update",
                                      AT(swarm.exchange.update.reply), CountValue{1, kUpdateMembersMax})));
  t.push_back(since("0.2.0", "7", row("swarm.exchange.update.levels", "",
                                      "qsgd: of each sign: 1 takes 2 bits an element, to 7 takes 4, to 127 takes 8",
                                      AT(swarm.exchange.update.levels), CountValue{1, 127})));
  t.push_back(since("0.2.0", "0.2", row("swarm.exchange.update.table", "",
                                        "sketch: a table's cells, of a byte each, as a part of the slice's elements",
                                        AT(swarm.exchange.update.table), NumberValue{1e-6, 1})));
  t.push_back(since("0.2.0", "4", row("swarm.exchange.update.candidates", "",
                                      "sketch: an update holds at most so many times the elements that come back",
                                      AT(swarm.exchange.update.candidates), CountValue{1, 64})));
  t.push_back(since("0.2.0", "0.9", {"swarm.exchange.update.momentum", "",
                                     "dgc, sketch: of what a member keeps, cleared where something was sent; 0.9, and "
                                     "0 with sketch, which learned more without",
                                     [](Config& config, const ConfigTree& tree) {
                                       config.swarm.exchange.update.momentum = NumberValue{0, 0.9999}.read(tree);
                                     },
                                     [](const Config& config) {
                                       return NumberValue::print(momentum_of(config.swarm.exchange.update));
                                     }}));
  t.push_back(since("0.2.0", "0", row("swarm.exchange.update.clip", "",
                                      "dgc: what a round changed is at most so long, over the root of the number of "
                                      "members; 0: no limit",
                                      AT(swarm.exchange.update.clip), NumberValue{0, 1e6})));
  t.push_back(since("0.2.0", "0", row("swarm.exchange.update.warmup", "",
                                      "dgc: over so many rounds the density falls from 1/4",
                                      AT(swarm.exchange.update.warmup), CountValue{0, 1000000})));
  t.push_back(since("0.2.0", "0", row("swarm.exchange.update.slices", "",
                                      "a model is cut into at most so many logs; 0: 64, and 4 with sketch, which finds "
                                      "more of the energy in few large ones",
                                      AT(swarm.exchange.update_slices), CountValue{0, kUpdateSlicesMax})));
  t.push_back(since("0.2.0", "off", row("swarm.exchange.update.pipeline", "",
                                        "gradients: on: a slice is sent while backward still computes earlier layers "
                                        "| off: when the step has ended",
                                        AT(swarm.exchange.update_pipeline),
                                        ChoiceValue<bool>{{{"on", true}, {"off", false}}})));
  t.push_back(since("0.2.0", "off", row("swarm.exchange.update.merge", "",
                                        "with pipeline: on: auto: slices are sent together where that is predicted to "
                                        "be faster by 5 % | off: each slice alone",
                                        AT(swarm.exchange.update_merge),
                                        ChoiceValue<bool>{{{"auto", true}, {"off", false}}})));
  t.push_back(since("0.2.0", "1e+30", row("swarm.exchange.update.first_norm_max", "",
                                          "of the first merged updates, while there are none to compare with; larger "
                                          "ones are scaled down to it",
                                          AT(swarm.exchange.update_first_norm_max), NumberValue{1e-30, 1e30})));
  t.push_back(since("0.2.0", "0", row("swarm.exchange.outer.momentum", "",
                                      "updates: Nesterov's, over rounds; DiLoCo: 0.9, with local_steps: 50",
                                      AT(swarm.exchange.outer_momentum), NumberValue{0, 0.9999})));
  t.push_back(since("0.2.0", "1", row("swarm.exchange.outer.rate", "", "updates: of a merged update; DiLoCo: 0.7",
                                      AT(swarm.exchange.outer_rate), NumberValue{1e-6, 100})));
  t.push_back(repair_row());
}

void add_peers(std::vector<ConfigField>& t) {
  t.push_back(row("swarm.topology.kind", "",
                  "who is joined to whom: matching (anybody) | ring | torus | exponential | regular | star | full | "
                  "one-peer | file",
                  AT(swarm.topology.kind), TopologyValue{}));
  t.push_back(row("swarm.topology.degree", "", "regular: neighbors of each agent", AT(swarm.topology.degree),
                  CountValue{2, 1023}));
  t.push_back(row("swarm.topology.edges", "", "file: pairs of agents by name, each: NAME NAME",
                  AT(swarm.topology.edges), EdgesValue{}));
  t.push_back(row("swarm.membership.probe_interval", "", "shorter: the dead are noticed sooner, more messages",
                  AT(swarm.membership.probe_interval), TimeValue{10ms, 1h}));
  t.push_back(row("swarm.membership.probe_timeout", "", "upper bound; it adapts to the round trip",
                  AT(swarm.membership.probe_timeout), TimeValue{5ms, 1h}));
  t.push_back(row("swarm.membership.indirect_probes", "", "members asked to look when a probe fails",
                  AT(swarm.membership.indirect_probes), CountValue{0, 16}));
  t.push_back(row("swarm.membership.suspicion", "",
                  "probe intervals (times log10 of the members) between suspected and dead",
                  AT(swarm.membership.suspicion), NumberValue{1, 100}));
}

void add_place(std::vector<ConfigField>& t) {
  t.push_back(row("agent.name", "--name", "for people; empty: the first digits of its id", AT(agent.name),
                  NameValue{kNameBytesMax}));
  t.push_back(row("agent.listen", "--listen", "HOST:PORT; the bulk data take the next port; port 0: any two",
                  AT(agent.listen), AddressValue{true}));
  t.push_back({"agent.advertise", "--advertise", "HOST:PORT that others dial, if it is not where we listen",
               [](Config& c, const ConfigTree& tree) { c.agent.advertise = AddressValue{false}.read(tree); },
               [](const Config& c) {
                 return c.agent.advertise ? AddressValue::print(*c.agent.advertise) : std::string();
               }});
  t.push_back(row("agent.bootstrap", "--bootstrap", "HOST:PORT of any agent or registry of the swarm, or several",
                  AT(agent.bootstrap), AddressesValue{}));
  t.push_back(row("agent.swarm", "--swarm", "ID of the swarm to join, or the only one of a registry; empty: any",
                  AT(agent.swarm_id), SwarmIdValue{}));
  t.push_back(row("agent.state", "--state", "folder for the identity and the checkpoints", AT(agent.state),
                  TextValue{kPathBytesMax}));
  t.push_back(
      row("agent.device", "--device", "auto | cpu | cuda", AT(agent.device), WordValue{{"auto", "cpu", "cuda"}}));
  t.push_back(row("agent.batch", "--batch", "samples a step; 0: the swarm's", AT(agent.batch), CountValue{0, 1000000}));
  t.push_back(row("agent.threads", "--threads",
                  "of the trainer on the CPU; 0: what is fastest, by trial: not exact, runs differ in the last bits",
                  AT(agent.threads), CountValue{0, 1024}));
  t.push_back(row("agent.checkpoint.every", "", "0s: only at the start and the end", AT(agent.checkpoint_every),
                  TimeValue{0s, 24h}));
  t.push_back(row("agent.checkpoint.keep", "", "how many", AT(agent.checkpoint_keep), CountValue{1, 1000}));
  t.push_back(row("agent.evaluate_every", "", "0s: only at the end", AT(agent.evaluate_every), TimeValue{0s, 24h}));
  t.push_back(row("agent.metrics", "--metrics", "file for one JSON line per event; empty: none", AT(agent.metrics),
                  TextValue{kPathBytesMax}));
  t.push_back(row("agent.metrics_every", "", "a line of that file sums up the exchanges of so long; 0s: a line each",
                  AT(agent.metrics_every), TimeValue{0s, 1h}));
  t.push_back(row("agent.compute_ms", "", "for experiments: pretend that a step takes this long, of a network at least",
                  AT(agent.compute_ms), NumberValue{0, 1e6}));
  t.push_back(row("agent.layers", "",
                  "quadratic: a table as in configs/layers; pretend that backward ends layer by layer, as it says",
                  AT(agent.layers), TextValue{kPathBytesMax}));
}

void add_data(std::vector<ConfigField>& t) {
  t.push_back(row("agent.data.path", "--data", "folder with IDX, CIFAR-10 or text files, or: generated",
                  AT(agent.data.path),
                  TextValue{kPathBytesMax}));
  t.push_back(row("agent.data.test_path", "--test-data", "folder to evaluate on; empty: the test files of --data",
                  AT(agent.data.test_path), TextValue{kPathBytesMax}));
  t.push_back(row("agent.data.sharding", "--sharding", "how the data are divided: all | iid | labels | dirichlet",
                  AT(agent.data.sharding), WordValue{{"all", "iid", "labels", "dirichlet"}}));
  t.push_back({"agent.data.shard", "--shard", "which part is ours; 2/4: the second of four",
               [](Config& c, const ConfigTree& tree) {
                 const Shard shard = read_shard(tree);
                 c.agent.data.shard = shard.index;
                 c.agent.data.shard_count = shard.count;
               },
               [](const Config& c) {
                 return quoted(std::to_string(c.agent.data.shard + 1) + "/" + std::to_string(c.agent.data.shard_count));
               }});
  t.push_back(row("agent.data.alpha", "", "dirichlet: smaller: parts differ more", AT(agent.data.alpha),
                  NumberValue{1e-3, 1e6}));
  t.push_back(row("agent.data.labels", "--labels", "keep only these, such as 0,1,2; none: all", AT(agent.data.labels),
                  CountsValue{0, 255, 0, 256}));
}

#undef AT

}  // namespace

const std::vector<ConfigField>& config_fields() {
  static const std::vector<ConfigField> fields = [] {
    std::vector<ConfigField> table;
    add_model(table);
    add_training(table);
    add_exchange(table);
    add_updates(table);
    add_peers(table);
    add_place(table);
    add_data(table);
    return table;
  }();
  return fields;
}

}  // namespace starling
