// From text to a checked Config. The only file that sees yaml-cpp, and only its events: a tree of our own is built from
// them under bounds, so that no text, however foreign, can grow, loop or nest without end.
#include "agent/config/config.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include "agent/config/fields.h"
#include "agent/config/values.h"
#include "gossip/limits.h"
#include "gossip/net/text.h"

namespace starling {
namespace {

constexpr size_t kConfigBytesMax = 256 * 1024;
constexpr size_t kDepthMax = 8;
constexpr size_t kNodesMax = 4096;

std::string at_line(const std::string& where, int line) {
  return line > 0 ? where + ":" + std::to_string(line) : where;
}

class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& where, bool has_lines) : where_(where), has_lines_(has_lines) {}
  ConfigTree take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) fail(mark, "a second document begins here; one file is one config");
  }
  void OnDocumentEnd() override {}
  void OnAnchor(const YAML::Mark& mark, const std::string&) override { refuse_alias(mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_alias(mark); }
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check(mark, "", anchor);
    if (expects_key()) fail(mark, "a key is missing before ':'");
    add({ConfigTree::Kind::kNothing, {}, {}, {}, line_of(mark)});
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    check(mark, tag, anchor);
    if (!expects_key()) return add({ConfigTree::Kind::kScalar, text, {}, {}, line_of(mark)});
    if (text == "<<") fail(mark, "YAML merge keys (<<) are not used here; write the values out");
    open_.back().key = text;
    open_.back().key_line = line_of(mark);
    open_.back().has_key = true;
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(mark, tag, anchor, ConfigTree::Kind::kList);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    begin(mark, tag, anchor, ConfigTree::Kind::kMap);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapEnd() override { end(); }

 private:
  struct Open {              // a list or map that has not ended yet
    ConfigTree tree;
    bool has_key = false;    // a map: the next event is the value of `key`
    std::string key;
    int key_line = 0;
  };

  int line_of(const YAML::Mark& mark) const { return has_lines_ ? mark.line + 1 : 0; }
  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& what) const {
    throw ConfigError(at_line(where_, line_of(mark)) + ": " + what);
  }
  [[noreturn]] void refuse_alias(const YAML::Mark& mark) const {
    fail(mark, "YAML anchors (&) and aliases (*) are not used here; write the value out, or put it in quotes");
  }
  void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != 0) refuse_alias(mark);
    if (!tag.empty() && tag != "?" && tag != "!") fail(mark, "YAML tags (!) are not used here; write the plain value");
    if (++nodes_ > kNodesMax) fail(mark, "more than " + std::to_string(kNodesMax) + " values; is this the right file?");
  }
  bool expects_key() const {
    return !open_.empty() && open_.back().tree.kind == ConfigTree::Kind::kMap && !open_.back().has_key;
  }
  void begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, ConfigTree::Kind kind) {
    check(mark, tag, anchor);
    if (expects_key()) fail(mark, "a key must be a word; is a bracket left open?");
    if (open_.size() >= kDepthMax) fail(mark, "nested more than " + std::to_string(kDepthMax) + " deep");
    open_.push_back({{kind, {}, {}, {}, line_of(mark)}});
  }
  void end() {
    ConfigTree tree = std::move(open_.back().tree);
    open_.pop_back();
    add(std::move(tree));
  }
  void add(ConfigTree tree) {
    if (open_.empty()) {
      root_ = std::move(tree);
      return;
    }
    Open& parent = open_.back();
    if (parent.has_key) {
      tree.key = std::move(parent.key);
      tree.line = parent.key_line;
      parent.has_key = false;
    }
    parent.tree.children.push_back(std::move(tree));
  }

  const std::string& where_;
  const bool has_lines_;
  ConfigTree root_;
  std::vector<Open> open_;
  size_t documents_ = 0, nodes_ = 0;
};

ConfigTree parse_tree(const std::string& text, const std::string& where, bool has_lines = true) {
  std::istringstream stream(text);
  TreeBuilder builder(where, has_lines);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) continue;
  } catch (const YAML::Exception& error) {
    throw ConfigError(at_line(where, has_lines ? error.mark.line + 1 : 0) + ": this is not YAML: " + error.msg);
  }
  return builder.take();
}

std::string join_path(const std::string& section, const std::string& key) {
  return section.empty() ? key : section + "." + key;
}

// The keys that may stand directly in `section` ("" = the top), in the order of the table.
std::vector<std::string> keys_of(const std::string& section) {
  const std::string prefix = join_path(section, "");
  std::vector<std::string> keys;
  for (const ConfigField& field : config_fields()) {
    if (!field.path.starts_with(prefix)) continue;
    const std::string key = field.path.substr(prefix.size(), field.path.find('.', prefix.size()) - prefix.size());
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
  return keys;
}

// Where else in the configuration a key of this name stands; empty: nowhere.
std::string find_elsewhere(const std::string& key) {
  if (key.empty()) return {};
  for (const ConfigField& field : config_fields()) {
    if (field.path.ends_with("." + key)) return field.path;
    const size_t inside = field.path.find("." + key + ".");
    if (inside != std::string::npos) return field.path.substr(0, inside + 1 + key.size());
  }
  return {};
}

std::string describe_unknown(const std::string& section, const std::string& key) {
  const std::string message = "unknown key '" + key + "'" + (section.empty() ? "" : " in " + section);
  const std::vector<std::string> keys = keys_of(section);
  std::string meant = find_elsewhere(key);
  if (meant.empty()) meant = nearest_word(key, keys);
  if (!meant.empty()) return message + "; did you mean '" + meant + "'?";
  std::string known;
  for (const std::string& name : keys) known += (known.empty() ? "" : ", ") + name;
  return message + "; known keys: " + known;
}

const ConfigField* find_field(const std::string& path) {
  for (const ConfigField& field : config_fields()) {
    if (field.path == path) return &field;
  }
  return nullptr;
}

// Reads trees into fields. `where` names their source.
class Reader {
 public:
  Reader(Config& config, std::set<std::string>& given, std::string where)
      : config_(config), given_(given), where_(std::move(where)) {}

  // REQUIRES: `path` names a field or a section; "" = the top.
  void read(const std::string& path, const ConfigTree& tree) {
    if (const ConfigField* field = find_field(path)) {
      read_field(*field, tree);
      return;
    }
    if (tree.kind == ConfigTree::Kind::kNothing) return;   // a section whose keys are all commented out
    if (tree.kind != ConfigTree::Kind::kMap) {
      fail(tree, (path.empty() ? "" : path + ": ") + "expected keys with values (" + keys_of(path).front() + ": ...)");
    }
    if (path == "swarm") config_.has_swarm = true;
    const std::vector<std::string> keys = keys_of(path);
    std::set<std::string> seen;
    for (const ConfigTree& child : tree.children) {
      if (std::find(keys.begin(), keys.end(), child.key) == keys.end()) fail(child, describe_unknown(path, child.key));
      const std::string inner = join_path(path, child.key);
      if (!seen.insert(child.key).second) fail(child, inner + " stands here a second time; keep one of them");
      read(inner, child);
    }
  }

 private:
  void read_field(const ConfigField& field, const ConfigTree& tree) {
    try {
      field.read(config_, tree);
    } catch (const std::invalid_argument& error) {
      fail(tree, field.path + ": " + error.what());
    }
    if (field.path.starts_with("swarm.")) config_.has_swarm = true;
    given_.insert(field.path);
  }

  [[noreturn]] void fail(const ConfigTree& tree, const std::string& what) const {
    throw ConfigError(at_line(where_, tree.line) + ": " + what);
  }

  Config& config_;
  std::set<std::string>& given_;
  std::string where_;
};

// One value for one path, from the environment or the command line.
void read_assignment(Config& config, std::set<std::string>& given, const std::string& path, const std::string& value,
                     const std::string& where) {
  std::string section;
  std::istringstream parts(path + ".");
  for (std::string key; std::getline(parts, key, '.');) {
    const std::vector<std::string> keys = keys_of(section);
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      throw ConfigError(where + ": " + describe_unknown(section, key));
    }
    section = join_path(section, key);
  }
  // Lists and maps are YAML; all else is taken as it stands, so that nothing needs quotes.
  const bool is_yaml = value.starts_with('[') || value.starts_with('{');
  Reader(config, given, where).read(path, is_yaml ? parse_tree(value, where, false) : scalar_tree(value));
}

void read_override(Config& config, std::set<std::string>& given, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw ConfigError("--set " + text + ": expected KEY=VALUE such as swarm.exchange.codec=bf16");
  }
  const std::string key = text.substr(0, equals), value = text.substr(equals + 1);
  if (!key.starts_with("--")) return read_assignment(config, given, key, value, "--set " + text);
  for (const ConfigField& field : config_fields()) {
    if (field.flag == key) return read_assignment(config, given, field.path, value, key + " " + value);
  }
  throw ConfigError("--set " + text + ": there is no flag " + key);
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw ConfigError("cannot read the config " + path + ": " + std::strerror(errno) +
                      "; 'starling init --task digits " + path + "' makes one");
  }
  std::string text(kConfigBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || std::filesystem::is_directory(path)) throw ConfigError(path + " is no file that can be read");
  if (file.gcount() > static_cast<std::streamsize>(kConfigBytesMax)) {
    throw ConfigError(path + ": more than " + std::to_string(kConfigBytesMax) + " bytes; is this the right file?");
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

// An agent that joins other machines has to be reachable by them.
void choose_listen(AgentConfig& agent) {
  const bool remote = std::any_of(agent.bootstrap.begin(), agent.bootstrap.end(),
                                  [](const Endpoint& endpoint) { return !is_loopback(endpoint.host); });
  if (remote) agent.listen.host = "0.0.0.0";
}

}  // namespace

Config load_config(const std::string& path, const std::vector<std::string>& overrides) {
  Config config;
  std::set<std::string> given;
  if (!path.empty()) Reader(config, given, path).read("", parse_tree(read_file(path), path));
  constexpr std::pair<const char*, const char*> kVariables[] = {{"STARLING_BOOTSTRAP", "agent.bootstrap"},
                                                                {"STARLING_LISTEN", "agent.listen"},
                                                                {"STARLING_STATE", "agent.state"}};
  for (const auto& [variable, key] : kVariables) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    read_assignment(config, given, key, value, std::string(variable) + "=" + value);
  }
  for (const std::string& text : overrides) read_override(config, given, text);
  refuse_combinations(config, path.empty() ? "this configuration" : path);
  if (!given.contains("agent.listen")) choose_listen(config.agent);
  return config;
}

SwarmConfig parse_swarm_settings(const std::string& text) {
  const std::string where = "the swarm's settings";
  if (text.size() > kSettingsBytesMax) throw ConfigError(where + ": more than " + std::to_string(kSettingsBytesMax) +
                                                         " bytes");
  if (!is_plain_text(text)) throw ConfigError(where + ": not a text in UTF-8");
  Config config;
  std::set<std::string> given;
  Reader(config, given, where).read("", parse_tree(text, where));
  refuse_combinations(config, where);
  // The text itself is what members agree on, so there is one text for one meaning.
  if (print_swarm_settings(config.swarm) != text) {
    throw ConfigError(where + ": not as a starling of this version writes them; use the same version on all machines");
  }
  return config.swarm;
}

TrainerOptions trainer_options(const SwarmConfig& swarm, const AgentConfig& agent) {
  TrainerOptions options;
  options.model = swarm.model;
  options.optimizer = swarm.optimizer;
  options.swarm_rng_seed = swarm.rng_seed;
  options.shard = agent.data.shard;
  options.batch = agent.batch > 0 ? agent.batch : swarm.batch;
  options.device = agent.device;
  options.threads = agent.threads;
  options.compute_ms = agent.compute_ms;
  return options;
}

}  // namespace starling
