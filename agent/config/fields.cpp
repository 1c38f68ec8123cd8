#include "agent/config/fields.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "agent/config/settings.h"
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
constexpr size_t kSignatureBytesMax = 16384;

// Codecs of updates that left, and what to write for them.
constexpr std::pair<const char*, const char*> kRetiredUpdates[] = {
    {"randk", "topk"}, {"randk_bf16", "topk_bf16"}, {"randk_int8", "topk_int8"}, {"qsgd", "int4"}};

// What to write for it; null: it is here.
const char* retired_update(std::string_view name) {
  for (const auto& [codec, instead] : kRetiredUpdates) {
    if (name == codec) return instead;
  }
  return nullptr;
}

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
      throw std::invalid_argument("'" + name +
                                  "': error feedback needs updates, and a pair shares params, which are "
                                  "the memory of what was not sent; take modulo8");
    }
    if (retired_update(plain)) {
      throw std::invalid_argument("'" + name +
                                  "': Starling 0.2.0 is the last version that has this codec; take modulo8");
    }
    if (parse_update(plain)) {
      throw std::invalid_argument("'" + name +
                                  "' is a codec of updates, and a pair shares params; take modulo8 (1 "
                                  "byte an element, the mean stays exact), or write kind: group, source: updates and "
                                  "update.codec: " +
                                  plain);
    }
    if (plain == "powergossip") {
      throw std::invalid_argument("'powergossip': Starling 0.2.0 is the last version that has it; take modulo4");
    }
    if (plain == "fragments") {
      throw std::invalid_argument("'fragments' is a key of its own: write fragments: 4 beside a codec");
    }
    std::vector<std::string> known;
    for (const CodecName& codec : codec_names()) known.emplace_back(codec.name);
    (void)WordValue{known}.read(tree);  // throws
    return CodecKind::kModulo8;
  }
  static std::string print(CodecKind kind) { return std::string(codec_name(kind)); }
};

struct UpdateKindValue {
  static UpdateKind read(const ConfigTree& tree) {
    if (const char* instead = retired_update(tree.text)) {
      throw std::invalid_argument("'" + tree.text +
                                  "': Starling 0.2.0 is the last version that has this codec; write " + instead);
    }
    return *parse_update(WordValue{update_words()}.read(tree));
  }
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

struct AddressesWithoutTickets {
  static std::vector<Endpoint> read(const ConfigTree& tree) { return AddressesValue{}.read(tree).all; }
  static std::string print(const std::vector<Endpoint>& all) { return AddressesValue::print(all); }
};

// "ticket KEY" and "certified KEY" stand in settings.
struct TrustValue {
  static TrustConfig read(const ConfigTree& tree) {
    const std::string expected = "auto, open, ticket or certified";
    const std::string text = scalar_text(tree, expected);
    for (const Trust kind : {Trust::kAuto, Trust::kOpen, Trust::kTicket, Trust::kCertified}) {
      const TrustConfig named{kind};
      const std::string word = print(named);
      if (text == word) return named;
      const auto key = text.starts_with(word + " ") ? PeerId::parse(text.substr(word.size() + 1)) : std::nullopt;
      if (named.has_tickets() && key && !key->is_zero()) return {kind, *key};
    }
    throw_expected(expected, tree);
  }
  static std::string print(const TrustConfig& trust) {
    constexpr const char* kWords[] = {"auto", "open", "ticket", "certified"};
    const std::string word = kWords[static_cast<size_t>(trust.kind)];
    return trust.key.is_zero() ? word : word + " " + trust.key.hex();
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

struct LongestValue {
  static constexpr TimeValue kTime{1ms, kDeadlineLongest};
  static Duration read(const ConfigTree& tree) {
    return scalar_text(tree, "auto, or a time such as 5s") == "auto" ? kDeadlineAuto : kTime.read(tree);
  }
  static std::string print(Duration longest) { return longest == kDeadlineAuto ? "auto" : TimeValue::print(longest); }
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

struct Shard { uint32_t index, count; };

struct ShardValue {
  static Shard read(const ConfigTree& tree) {
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
  static std::string print(const Shard& shard) {
    return quoted(std::to_string(shard.index + 1) + "/" + std::to_string(shard.count));
  }
};

// Eight hexadecimal digits a tensor; none is empty.
struct SignatureValue {
  static std::string read(const ConfigTree& tree) {
    const std::string expected = "none, or 8 hexadecimal digits for each tensor";
    const std::string text = scalar_text(tree, expected);
    if (text == "none") return "";
    const bool is_hex = text.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!is_hex || text.size() % 8 != 0 || text.size() > kSignatureBytesMax) throw_expected(expected, tree);
    return text;
  }
  static std::string print(const std::string& signature) { return signature.empty() ? "none" : signature; }
};

template <typename Kind>
ConfigField bare_row(const char* path, const char* flag, const std::string& doc, Kind kind) {
  ConfigField field;
  field.path = path;
  field.name = path;
  field.flag = flag;
  field.doc = doc;
  field.normal = [kind](const ConfigTree& tree) { return std::string(kind.print(kind.read(tree))); };
  return field;
}

// A row of the table: `at` finds the value in a Config, `kind` reads it, and `print` prints it.
template <typename At, typename Kind, typename Print>
ConfigField row(const char* path, const char* flag, const std::string& doc, At at, Kind kind, Print print) {
  ConfigField field = bare_row(path, flag, doc, kind);
  field.read = [at, kind](Config& config, const ConfigTree& tree) {
    using Value = std::remove_reference_t<decltype(at(config))>;
    at(config) = static_cast<Value>(kind.read(tree));
  };
  field.print = print;
  return field;
}

template <typename At, typename Kind>
ConfigField row(const char* path, const char* flag, const std::string& doc, At at, Kind kind) {
  return row(path, flag, doc, at, kind,
             [at, kind](const Config& config) { return std::string(kind.print(at(config))); });
}

// The key has this name in config files, and `path` only in settings.
ConfigField named(const char* name, ConfigField field) {
  field.name = name;
  return field;
}

// No config file sets the key, but a flag of simulate or a variable of the environment.
ConfigField for_experiments(const char* neutral, const std::string& remedy, ConfigField field) {
  field.name.clear();
  field.neutral = neutral;
  field.remedy = remedy;
  return field;
}

// Nothing reads the key: settings print `neutral`, which is the only value that they may have.
template <typename Kind>
ConfigField retired(const char* path, const char* neutral, const std::string& remedy, Kind kind) {
  ConfigField field = for_experiments(neutral, "Starling 0.2.0 is the last version that has this key; " + remedy,
                                      bare_row(path, "", "", kind));
  field.read = [normal = field.normal, neutral = field.neutral, remedy = field.remedy](Config&,
                                                                                       const ConfigTree& tree) {
    const std::string value = normal(tree);
    if (value != neutral) throw std::invalid_argument(value + ": " + remedy);
  };
  field.print = [neutral = field.neutral](const Config&) { return neutral; };
  return field;
}

// The key came with this version; until then Starling did `unwritten`.
ConfigField since(const char* version, const char* unwritten, ConfigField field) {
  field.since = version;
  field.unwritten = unwritten;
  return field;
}

#define AT(member) [](auto& config) -> auto& { return config.member; }

void add_model(std::vector<ConfigField>& t) {
  t.push_back(row("swarm.name", "", "Name of the swarm, for people.", AT(swarm.name), NameValue{64}));
  t.push_back(row("swarm.rng_seed", "",
                  "Seed of the first params and of the division of the data. Another seed is another swarm.",
                  AT(swarm.rng_seed), CountValue{0, kNoLimit}));
  t.push_back(row("swarm.model.kind", "", "Model that is trained: " + describe_model_kinds() + ".",
                  AT(swarm.model.kind), WordValue{model_kind_names()}));
  t.push_back(row("swarm.model.input", "",
                  "Channels, height and width of one sample. An lstm takes 1, 1 and the bytes of its text.",
                  AT(swarm.model.input), CountsValue{1, 4096, 3, 3}));
  t.push_back(row("swarm.model.classes", "", "Number of labels, which count from 0.", AT(swarm.model.classes),
                  CountValue{2, 256}));
  t.push_back(row("swarm.model.hidden", "",
                  "Widths of the hidden layers of an mlp, an lstm, or a vgg behind its convolutions. Wider layers have "
                  "more params to send.",
                  AT(swarm.model.hidden), CountsValue{1, 65536, 0, 16}));
  t.push_back(row("swarm.model.channels", "",
                  "Channels of the first convolution of a cnn or vgg; each pool doubles them.",
                  AT(swarm.model.channels), CountValue{1, 1024}));
  t.push_back(row("swarm.model.dimension", "", "Number of params of a quadratic.", AT(swarm.model.dimension),
                  CountValue{1, 1000000000}));
  t.push_back(row("swarm.model.noise", "", "Standard deviation of the noise in each element of a quadratic's gradient.",
                  AT(swarm.model.noise), NumberValue{0, 1e6}));
  const std::string remedy = "starling.join() finds it in the loop's own model; delete the line";
  t.push_back(since("0.3.0", "0",
                    for_experiments("0", remedy,
                                    row("swarm.model.params", "", "Elements of an attached model.",
                                        AT(swarm.model.params), CountValue{0, kNoLimit}))));
  t.push_back(since("0.3.0", "none",
                    for_experiments("none", remedy,
                                    row("swarm.model.signature", "", "Digests of an attached model's tensors.",
                                        AT(swarm.model.signature), SignatureValue{}))));
}

void add_training(std::vector<ConfigField>& t) {
  t.push_back(row("swarm.optimizer.kind", "",
                  "Optimizer of the local steps: sgd | adamw. The moments of adamw stay with their agent.",
                  AT(swarm.optimizer.kind), WordValue{{"sgd", "adamw"}}));
  t.push_back(row("swarm.optimizer.learning_rate", "", "Learning rate after the warm-up.",
                  AT(swarm.optimizer.learning_rate), NumberValue{0, 1000}));
  t.push_back(row("swarm.optimizer.momentum", "", "Momentum of sgd. It takes 4 bytes of memory a param; 0 takes none.",
                  AT(swarm.optimizer.momentum), NumberValue{0, 0.9999}));
  t.push_back(row("swarm.optimizer.nesterov", "", "Whether the momentum of sgd is Nesterov's: true | false.",
                  AT(swarm.optimizer.nesterov), ChoiceValue<bool>{{{"true", true}, {"false", false}}}));
  t.push_back(row("swarm.optimizer.weight_decay", "", "Coefficient of weight decay.", AT(swarm.optimizer.weight_decay),
                  NumberValue{0, 10}));
  t.push_back(row("swarm.optimizer.beta1", "", "Decay of adamw's first moment a step.", AT(swarm.optimizer.beta1),
                  NumberValue{0, 0.99999}));
  t.push_back(row("swarm.optimizer.beta2", "", "Decay of adamw's second moment a step.", AT(swarm.optimizer.beta2),
                  NumberValue{0, 0.99999}));
  t.push_back(row("swarm.optimizer.epsilon", "", "Number added to the denominator of adamw's step.",
                  AT(swarm.optimizer.epsilon), NumberValue{1e-16, 1}));
  t.push_back(row("swarm.optimizer.schedule", "",
                  "Learning rate over the swarm's clock: constant | cosine (to 0 at stop_after) | step (times decay "
                  "each decay_every).",
                  AT(swarm.optimizer.schedule),
                  ChoiceValue<Schedule>{
                      {{"constant", Schedule::kConstant}, {"cosine", Schedule::kCosine}, {"step", Schedule::kStep}}}));
  t.push_back(row("swarm.optimizer.warmup", "",
                  "Steps of the swarm's clock in which the learning rate grows from 0 to its full value.",
                  AT(swarm.optimizer.warmup), CountValue{0, kNoLimit}));
  t.push_back(row("swarm.optimizer.decay_every", "",
                  "Steps of the swarm's clock between two drops of the step schedule.", AT(swarm.optimizer.decay_every),
                  CountValue{0, kNoLimit}));
  t.push_back(row("swarm.optimizer.decay", "", "Factor on the learning rate at each drop of the step schedule.",
                  AT(swarm.optimizer.decay), NumberValue{1e-6, 1}));
  t.push_back(row("swarm.weight", "",
                  "Weight of an agent in the mean: uniform (its data count the same at any speed) | data (by the "
                  "number of its samples) | equal (each model counts the same, so fast agents count more).",
                  AT(swarm.weight), WordValue{{"uniform", "data", "equal"}}));
  t.push_back(row("swarm.local_steps", "",
                  "Optimizer steps between two exchanges; may also be written sync_every. More steps send fewer bytes, "
                  "and models move farther apart.",
                  AT(swarm.local_steps), CountValue{1, 1000000}));
  t.back().alias = "swarm.sync_every";
  t.push_back(row("swarm.round", "",
                  "Duration of a round, in which each agent makes the steps that it can. 0s: local_steps ends a round.",
                  AT(swarm.round), TimeValue{0s, 1h}));
  t.push_back(row("swarm.batch", "", "Samples in a step, for agents that set no agent.batch.", AT(swarm.batch),
                  CountValue{1, 1000000}));
  t.push_back(row("swarm.stop_after", "",
                  "Steps of the swarm's clock, the median of the living agents, after which training ends. 0: never.",
                  AT(swarm.stop_after), CountValue{0, kNoLimit}));
  t.push_back(since("0.3.0", "1",
                    row("swarm.wait_for", "--wait-for",
                        "Agents that must be there before the swarm's first step. The value of the agent that begins "
                        "the swarm counts.",
                        AT(swarm.wait_for), CountValue{1, kMembersMax})));
  t.push_back(since("0.3.0", "open",
                    row("swarm.trust", "",
                        "Agents that get in: ticket (those with the swarm's ticket; links are encrypted) | certified "
                        "(those with a ticket of their own) | open (all that reach a port) | auto. With auto a new "
                        "swarm has tickets if it listens beyond loopback.",
                        AT(swarm.trust), TrustValue{})));
  t.push_back(
      named("swarm.consensus_tolerance",
            row("swarm.final_distance", "",
                "Agents exchange at the end until their models differ by less than this part of the rms of the params.",
                AT(swarm.final_distance), NumberValue{1e-9, 10})));
  t.push_back(named(
      "swarm.consensus_timeout",
      row("swarm.settle_max", "", "Longest time that agents exchange at the end; 20 ms are added for each member.",
          AT(swarm.settle_max), TimeValue{0s, 1h})));
}

std::string update_doc() {
  std::string text;
  for (const UpdateName& update : update_names()) {
    text += (text.empty() ? "" : " | ") + std::string(update.name) + " (" + std::string(update.note) + ")";
  }
  return "Codec of the updates: " + text + ".";
}

// Read only for gradients: beside another source it prints what it was before there was the key.
ConfigField repair_row() {
  const auto print = [](const Config& config) {
    const ExchangeConfig& exchange = config.swarm.exchange;
    return std::string(exchange.source == SourceKind::kGradients && exchange.repair ? "on" : "off");
  };
  const ChoiceValue<bool> kind{{{"on", true}, {"off", false}}};
  ConfigField field = row("swarm.exchange.repair", "--repair",
                          "Gradients: whether lost ones are repaired, on | off. For experiments. Default: on.",
                          AT(swarm.exchange.repair), kind, print);
  return for_experiments("on", "only 'starling simulate --repair off' shares gradients without repair",
                         since("0.2.0", "off", field));
}

std::string codec_doc() {
  std::string text;
  for (const CodecName& codec : codec_names()) {
    text += (text.empty() ? "" : " | ") + std::string(codec.name) + " (" + std::string(codec.note) + ")";
  }
  return "Codec of the params: " + text + ".";
}

void add_exchange(std::vector<ConfigField>& t) {
  t.push_back(row("swarm.exchange.kind", "",
                  "How agents exchange: pairwise (any number of agents) | neighborhood (D-PSGD, along a graph) | group "
                  "(few agents, one mean of all; without loss an all-reduce) | none (each agent trains alone).",
                  AT(swarm.exchange.kind), ExchangeKindValue{}));
  t.push_back(row("swarm.exchange.source", "",
                  "What agents exchange: params | updates (changes of a round) | gradients (of one step). Updates and "
                  "gradients need kind: group, and all models stay equal.",
                  AT(swarm.exchange.source),
                  ChoiceValue<SourceKind>{{{"params", SourceKind::kParams},
                                           {"updates", SourceKind::kUpdates},
                                           {"gradients", SourceKind::kGradients}}}));
  t.push_back(row("swarm.exchange.codec", "", codec_doc(), AT(swarm.exchange.codec), CodecValue{}));
  t.push_back(
      named("swarm.exchange.share", row("swarm.exchange.carry", "",
                                        "Vectors that agents average: [params] | [params, momentum]. The momentum "
                                        "doubles the bytes; agents with different data need it to learn.",
                                        AT(swarm.exchange.carry_momentum), CarryValue{})));
  t.push_back(since("0.2.0", "1",
                    row("swarm.exchange.fragments", "",
                        "Pairs: the model is cut into this many parts, and an exchange carries one. More parts send "
                        "fewer bytes at a time and mix more slowly.",
                        AT(swarm.exchange.fragments), CountValue{1, kFragmentsMax})));
  t.push_back(since("0.2.0", "auto",
                    named("swarm.exchange.exchanges_per_step",
                          row("swarm.exchange.exchanges", "",
                              "Pairs: exchanges at each boundary between rounds, 1 to 3. auto: 2 where the momentum is "
                              "shared among more than four agents or after several steps, else 1.",
                              AT(swarm.exchange.turns), TurnsValue{}))));
  t.push_back(since("0.2.0", "0",
                    retired("swarm.exchange.powergossip.rank", "0",
                            "write fragments: 4 or codec: modulo4, which send less as well", CountValue{0, 64})));
  t.push_back(row("swarm.exchange.block", "",
                  "Elements in a block, the unit of sending, losing and mixing. Larger blocks cost fewer messages; a "
                  "lost message then loses more.",
                  AT(swarm.exchange.block), CountValue{64, 1048576}));
  t.push_back(
      row("swarm.exchange.overlap", "",
          "Whether an exchange runs beside the next steps: auto (updates, where they take over 10 % of a round) "
          "| on | off. It hides the time of sending; models mix later, which learns badly where data differ.",
          AT(swarm.exchange.overlap),
          ChoiceValue<Overlap>{{{"auto", Overlap::kAuto}, {"on", Overlap::kOn}, {"off", Overlap::kOff}}}));
  t.push_back(row("swarm.exchange.deadline_min", "",
                  "Shortest deadline of an exchange. The deadline follows the measured times between the two bounds.",
                  AT(swarm.exchange.deadline_min), TimeValue{1ms, 1h}));
  t.push_back(
      row("swarm.exchange.deadline_max", "",
          "Longest deadline of an exchange. auto, as init writes: four times what its bytes take at 10 Mb/s, at least "
          "2s. The agent that begins the swarm fixes it. Slower links need more.",
          AT(swarm.exchange.deadline_max), LongestValue{}));
  t.push_back(named(
      "swarm.exchange.outlier_clip",
      row("swarm.exchange.clip", "",
          "Pairs: a delta is clipped at this multiple of the median of recent distances between models. 0: never. It "
          "bounds the harm of a faulty peer, and sometimes clips a sound one. Default: 3 in pairs, else 0.",
          AT(swarm.exchange.clip), NumberValue{0, 1000},
          [](const Config& config) { return NumberValue::print(clip_of(config.swarm.exchange)); })));
  t.push_back(row("swarm.exchange.group_size", "", "Group: the largest number of members.",
                  AT(swarm.exchange.group_size), CountValue{2, kGroupMax}));
  t.push_back(row("swarm.exchange.members", "", "Group: names of its members. Default: all living agents.",
                  AT(swarm.exchange.members), NamesValue{kNameBytesMax}));
  t.push_back(retired(
      "swarm.exchange.pairs_every", "0",
      "a group holds up to " + std::to_string(kGroupMax) + " agents; write kind: pairwise, which holds any number",
      CountValue{0, 1000000}));
  t.push_back(for_experiments("0", "only 'starling simulate --inject-loss PART' drops blocks",
                              row("swarm.exchange.inject_loss", "--inject-loss",
                                  "Group: drops this part of the blocks on receive. For experiments.",
                                  AT(swarm.exchange.inject_loss), NumberValue{0, 0.99})));
}

// Of the codec qsgd alone, which texts refuse: beside another codec every value means nothing.
ConfigField levels_row() {
  ConfigField field = retired("swarm.exchange.update.levels", "7", "write update.codec: int4", CountValue{1, 127});
  field.read = [normal = field.normal](Config&, const ConfigTree& tree) { normal(tree); };
  return since("0.2.0", "7", field);
}

void add_update_codecs(std::vector<ConfigField>& t) {
  t.push_back(
      since("0.2.0", "fp32",
            row("swarm.exchange.update.codec", "", update_doc(), AT(swarm.exchange.update.kind), UpdateKindValue{})));
  t.push_back(since("0.2.0", "0.01",
                    row("swarm.exchange.update.density", "",
                        "topk: the part of a slice's elements in an update; sketch: in what comes back. Fewer elements "
                        "send fewer bytes and learn more slowly.",
                        AT(swarm.exchange.update.density), kDensityValue)));
  t.push_back(since("0.2.0", "2",
                    row("swarm.exchange.update.reply", "",
                        "topk: what comes back holds at most this many times the elements of an update.",
                        AT(swarm.exchange.update.reply), CountValue{1, kUpdateMembersMax})));
  t.push_back(levels_row());
  t.push_back(since("0.2.0", "0.2",
                    row("swarm.exchange.update.table", "",
                        "sketch: cells of a table, of a byte each, as a part of the slice's elements.",
                        AT(swarm.exchange.update.table), NumberValue{1e-6, 1})));
  t.push_back(since("0.2.0", "4",
                    row("swarm.exchange.update.candidates", "",
                        "sketch: an update holds at most this many times the elements that come back.",
                        AT(swarm.exchange.update.candidates), CountValue{1, 64})));
  t.push_back(since("0.2.0", "0.9",
                    row("swarm.exchange.update.momentum", "",
                        "dgc, sketch: momentum of what an agent has not sent. Default: 0.9 with dgc, 0 with sketch.",
                        AT(swarm.exchange.update.momentum), NumberValue{0, 0.9999}, [](const Config& config) {
                          return NumberValue::print(momentum_of(config.swarm.exchange.update));
                        })));
  t.push_back(since(
      "0.2.0", "0",
      named(
          "swarm.exchange.update.norm_clip",
          row("swarm.exchange.update.clip", "",
              "dgc: the norm of a round's change is at most this, over the root of the number of members. 0: no limit.",
              AT(swarm.exchange.update.clip), NumberValue{0, 1e6}))));
  t.push_back(
      since("0.2.0", "0",
            row("swarm.exchange.update.warmup", "", "dgc: rounds in which the density falls from 1/4 to its value.",
                AT(swarm.exchange.update.warmup), CountValue{0, 1000000})));
}

void add_update_rounds(std::vector<ConfigField>& t) {
  t.push_back(since("0.2.0", "0",
                    row("swarm.exchange.update.slices", "",
                        "Updates: a model is cut into at most this many slices, each with an owner that adds it up. 0: "
                        "64, or 4 with sketch.",
                        AT(swarm.exchange.update_slices), CountValue{0, kUpdateSlicesMax})));
  t.push_back(since(
      "0.2.0", "off",
      row("swarm.exchange.update.pipeline", "",
          "Gradients: on (a slice is sent while backward computes earlier layers) | off (all are sent after the step).",
          AT(swarm.exchange.update_pipeline), ChoiceValue<bool>{{{"on", true}, {"off", false}}})));
  t.push_back(since("0.2.0", "off",
                    row("swarm.exchange.update.merge", "",
                        "With pipeline: on: auto (slices are sent together where that is predicted to be 5 % faster) | "
                        "off (each slice alone). auto measures in 20 trial rounds.",
                        AT(swarm.exchange.update_merge), ChoiceValue<bool>{{{"auto", true}, {"off", false}}})));
  t.push_back(since(
      "0.2.0", "1e+30",
      for_experiments(
          "1e+30", "only 'starling simulate --first-norm-max NORM' bounds the first merged updates",
          row("swarm.exchange.update.first_norm_max", "--first-norm-max",
              "Updates: the largest norm of the first merged updates. Larger ones are scaled down. For experiments.",
              AT(swarm.exchange.update_first_norm_max), NumberValue{1e-30, 1e30}))));
  t.push_back(since("0.2.0", "0",
                    row("swarm.exchange.outer.momentum", "",
                        "Updates: Nesterov momentum over rounds; DiLoCo takes 0.9 with local_steps: 50. It takes 4 "
                        "bytes of memory a param.",
                        AT(swarm.exchange.outer_momentum), NumberValue{0, 0.9999})));
  t.push_back(
      since("0.2.0", "1",
            named("swarm.exchange.outer.learning_rate",
                  row("swarm.exchange.outer.rate", "",
                      "Updates: learning rate of the outer step, a factor on each merged update; DiLoCo takes 0.7.",
                      AT(swarm.exchange.outer_rate), NumberValue{1e-6, 100}))));
  t.push_back(repair_row());
}

void add_peers(std::vector<ConfigField>& t) {
  t.push_back(row("swarm.topology.kind", "",
                  "Graph of the agents that exchange in pairs or neighborhoods: matching (any two) | ring | torus | "
                  "exponential | regular | star | full | one-peer | file.",
                  AT(swarm.topology.kind), TopologyValue{}));
  t.push_back(row("swarm.topology.degree", "", "Neighbors of each agent on a regular graph.", AT(swarm.topology.degree),
                  CountValue{2, 1023}));
  t.push_back(row("swarm.topology.edges", "", "Edges of kind: file, two names each, such as [agent-0 agent-1].",
                  AT(swarm.topology.edges), EdgesValue{}));
  t.push_back(
      row("swarm.membership.probe_interval", "",
          "Time between two probes of an agent. A shorter one finds dead agents sooner and costs more messages.",
          AT(swarm.membership.probe_interval), TimeValue{10ms, 1h}));
  t.push_back(row("swarm.membership.probe_timeout", "",
                  "Longest wait for the answer to a probe. The wait adapts to the round trip.",
                  AT(swarm.membership.probe_timeout), TimeValue{5ms, 1h}));
  t.push_back(row("swarm.membership.indirect_probes", "", "Members that are asked to probe too when a probe fails.",
                  AT(swarm.membership.indirect_probes), CountValue{0, 16}));
  t.push_back(row("swarm.membership.suspicion", "",
                  "Probe intervals from suspected to dead, times log10 of the number of members. More give a slow "
                  "agent longer to answer.",
                  AT(swarm.membership.suspicion), NumberValue{1, 100}));
}

void add_place(std::vector<ConfigField>& t) {
  t.push_back(row("agent.name", "--name", "Name of the agent, for people. Default: the first digits of its id.",
                  AT(agent.name), NameValue{kNameBytesMax}));
  t.push_back(row("agent.listen", "--listen",
                  "Address of the control port; bulk data take the next port. Host 0.0.0.0: all addresses of this "
                  "machine; port 0: any two.",
                  AT(agent.listen), AddressValue{true}));
  t.push_back(row("agent.advertise", "--advertise",
                  "Address that peers dial, where it is not the one listened on. Default: the listen address, or an "
                  "address of this host.",
                  AT(agent.advertise), AddressValue{false}, [](const Config& c) {
                    return c.agent.advertise ? AddressValue::print(*c.agent.advertise) : std::string();
                  }));
  ConfigField bootstrap = bare_row("agent.bootstrap", "--bootstrap",
                                   "Addresses HOST:PORT of any agents or registries of the swarm; HOST:PORT#TICKET or "
                                   "@FILE where it has tickets.",
                                   AddressesWithoutTickets{});
  bootstrap.read = [](Config& config, const ConfigTree& tree) {
    Addresses addresses = AddressesValue{}.read(tree);
    config.agent.bootstrap = std::move(addresses.all);
    config.agent.tickets = std::move(addresses.tickets);
  };
  bootstrap.print = [](const Config& config) { return AddressesValue::print(config.agent.bootstrap); };
  t.push_back(bootstrap);
  t.push_back(row("agent.swarm", "--swarm", "Id of the only swarm to join or serve. Default: any.", AT(agent.swarm_id),
                  SwarmIdValue{}));
  t.push_back(row("agent.state", "--state",
                  "Folder of the identity and the checkpoints. An agent that starts with the same folder resumes.",
                  AT(agent.state), TextValue{kPathBytesMax}));
  t.push_back(
      row("agent.genesis", "",
          "File with the trained model that a new swarm begins from, as starling init --from writes it. Only the "
          "agent that begins the swarm reads it. Default: the first params are drawn.",
          AT(agent.genesis), TextValue{kPathBytesMax}));
  t.push_back(
      row("agent.return_wait", "",
          "Longest time that a member which starts again waits for most of its peers, before it trains without.",
          AT(agent.return_wait), TimeValue{0s, 24h}));
  t.push_back(row("agent.device", "--device", "Device of the trainer: auto | cpu | cuda.", AT(agent.device),
                  WordValue{{"auto", "cpu", "cuda"}}));
  t.push_back(row("agent.batch", "--batch", "Samples in a step of this agent. 0: swarm.batch.", AT(agent.batch),
                  CountValue{0, 1000000}));
  t.push_back(row(
      "agent.threads", "--threads",
      "Threads of the trainer on the CPU. 0: the fastest number, found by trial; runs then differ in the last bits.",
      AT(agent.threads), CountValue{0, 1024}));
  t.push_back(row(
      "agent.checkpoint.every", "",
      "Time between two checkpoints. 0s: only at the start and the end. A crash loses the steps since the last one.",
      AT(agent.checkpoint_every), TimeValue{0s, 24h}));
  t.push_back(row("agent.checkpoint.keep", "", "Number of checkpoints that are kept.", AT(agent.checkpoint_keep),
                  CountValue{1, 1000}));
  t.push_back(row("agent.evaluate_every", "",
                  "Time between two evaluations on the test data. It is longer where they would take over 5 % of the "
                  "time. 0s: only at the end.",
                  AT(agent.evaluate_every), TimeValue{0s, 24h}));
  t.push_back(row("agent.metrics", "--metrics", "File that gets a line of JSON for each event. Default: no file.",
                  AT(agent.metrics), TextValue{kPathBytesMax}));
  t.push_back(row("agent.metrics_every", "",
                  "A line of the metrics file sums up the exchanges of this time. 0s: a line for each exchange.",
                  AT(agent.metrics_every), TimeValue{0s, 1h}));
  t.push_back(for_experiments("0", "it is for tests, which set the variable STARLING_TEST_COMPUTE_MS",
                              row("agent.compute_ms", "", "", AT(agent.compute_ms), NumberValue{0, 1e6})));
  t.push_back(for_experiments("\"\"", "it is for tests, which set the variable STARLING_TEST_LAYERS",
                              row("agent.layers", "", "", AT(agent.layers), TextValue{kPathBytesMax})));
}

void add_data(std::vector<ConfigField>& t) {
  t.push_back(
      row("agent.data.path", "--data",
          "Folder or file with IDX, CIFAR-10, images by class, .npz or text; or the word generated: digits that the "
          "program draws.",
          AT(agent.data.path), TextValue{kPathBytesMax}));
  t.push_back(row("agent.data.test_path", "--test-data",
                  "Data to evaluate on. Default: the test files beside the data.", AT(agent.data.test_path),
                  TextValue{kPathBytesMax}));
  t.push_back(row("agent.data.sharding", "--sharding",
                  "How the data are divided between agents: all (not at all) | iid | labels | dirichlet.",
                  AT(agent.data.sharding), WordValue{{"all", "iid", "labels", "dirichlet"}}));
  ConfigField shard = bare_row("agent.data.shard", "--shard",
                               "Part of the data that this agent takes; 2/4: the second of four.", ShardValue{});
  shard.read = [](Config& c, const ConfigTree& tree) {
    const Shard part = ShardValue::read(tree);
    c.agent.data.shard = part.index;
    c.agent.data.shard_count = part.count;
  };
  shard.print = [](const Config& c) { return ShardValue::print({c.agent.data.shard, c.agent.data.shard_count}); };
  t.push_back(shard);
  t.push_back(row("agent.data.alpha", "", "Dirichlet sharding: a smaller number makes the parts differ more.",
                  AT(agent.data.alpha), NumberValue{1e-3, 1e6}));
  t.push_back(row("agent.data.hold_out", "",
                  "Part of this agent's own samples that it never trains on: accuracy is measured on them, not on test "
                  "files. At most 0.5; 0: none.",
                  AT(agent.data.hold_out), NumberValue{0, kHoldOutMax}));
  t.push_back(row("agent.data.labels", "--labels", "Labels to keep, such as 0,1,2. Default: all.",
                  AT(agent.data.labels), CountsValue{0, 255, 0, 256}));
}

#undef AT

}  // namespace

bool is_of_built_in(const ConfigField& field) {
  constexpr std::string_view kParts[] = {
      "swarm.model.input", "swarm.model.classes", "swarm.model.hidden", "swarm.model.channels", "swarm.model.dimension",
      "swarm.model.noise", "swarm.optimizer.",    "swarm.batch",        "agent.device",         "agent.genesis",
      "agent.batch",       "agent.threads",       "agent.data."};
  return std::any_of(std::begin(kParts), std::end(kParts),
                     [&](std::string_view part) { return field.path.starts_with(part); });
}

const std::vector<ConfigField>& config_fields() {
  static const std::vector<ConfigField> fields = [] {
    std::vector<ConfigField> table;
    add_model(table);
    add_training(table);
    add_exchange(table);
    add_update_codecs(table);
    add_update_rounds(table);
    add_peers(table);
    add_place(table);
    add_data(table);
    return table;
  }();
  return fields;
}

}  // namespace starling
