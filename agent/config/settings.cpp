#include "agent/config/settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/config/fields.h"
#include "agent/config/reader.h"
#include "agent/train/model_kinds.h"
#include "compression/codec.h"
#include "compression/update_codec.h"
#include "compression/update_sketch.h"
#include "gossip/limits.h"
#include "gossip/net/member_keys.h"
#include "gossip/net/text.h"

namespace starling {
namespace {

constexpr std::string_view kGenesisKey = "genesis: ";
constexpr const char* kVersionKey = "starling";
constexpr const char* kFirstVersion = "0.1.0";  // of the keys without `since`
constexpr size_t kDifferencesMax = 12;          // shown; a refusal travels in one frame
constexpr size_t kKeyBytesShown = 60;

// "0.3.0". nullopt: anything else.
std::optional<std::array<uint32_t, 3>> parse_version(const std::string& text) {
  std::array<uint32_t, 3> version{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (size_t i = 0; i < version.size(); ++i) {
    if (i > 0 && (at == end || *at++ != '.')) return std::nullopt;
    const auto [next, error] = std::from_chars(at, end, version[i]);
    if (error != std::errc()) return std::nullopt;
    at = next;
  }
  return at == end ? std::optional(version) : std::nullopt;
}

bool is_newer(const std::string& version, const std::string& than) {
  return parse_version(version) > parse_version(than);
}

bool is_later_key(const ConfigField& field) { return !field.since.empty(); }

// The newest version whose keys this program knows.
std::string newest_known() {
  std::string newest = kFirstVersion;
  for (const ConfigField& field : config_fields()) {
    if (is_later_key(field) && is_newer(field.since, newest)) newest = field.since;
  }
  return newest;
}

// Takes the version out of the tree of a text.
void check_version(ConfigTree& tree, const std::string& where) {
  const auto is_version = [](const ConfigTree& child) { return child.key == kVersionKey; };
  const auto found = std::find_if(tree.children.begin(), tree.children.end(), is_version);
  if (found == tree.children.end()) return;
  const std::string needed = found->text;
  if (!parse_version(needed)) {
    throw ConfigError(at_line(where, found->line) + ": " + kVersionKey + ": expected a version such as 0.3.0");
  }
  if (is_newer(needed, newest_known())) {
    throw ConfigError(where + ": they need Starling " + needed + " or newer, and this program knows settings up to " +
                      newest_known() + "; upgrade it");
  }
  tree.children.erase(found);
  if (std::any_of(tree.children.begin(), tree.children.end(), is_version)) {
    throw ConfigError(where + ": " + kVersionKey + " stands there twice");
  }
}

std::string describe_newer_key(const std::string& section, const std::string& key) {
  const std::string path = (section.empty() ? "" : section + ".") + key.substr(0, kKeyBytesShown);
  return "settings of a newer Starling: this program does not know the key " + path + "; upgrade it";
}

// Paths and values of a canonical text. The text may be foreign: whatever it is, this only makes lines of it.
std::map<std::string, std::string> values_by_path(const std::string& text) {
  std::map<std::string, std::string> values;
  std::vector<std::string> open;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t indent = line.find_first_not_of(' ');
    const size_t colon = line.find(':');
    if (indent == std::string::npos || colon == std::string::npos || colon < indent) continue;
    open.resize(std::min(open.size(), indent / 2));
    const std::string key = line.substr(indent, colon - indent);
    if (colon + 1 == line.size()) {
      open.push_back(key);
      continue;
    }
    std::string path;
    for (const std::string& outer : open) path += outer + ".";
    values[path + key] = line.substr(std::min(line.size(), colon + 2));
  }
  return values;
}

// "exchange.codec" of "swarm.exchange.codec", as a config file calls it.
std::string name_for_people(const std::string& path) {
  std::string name = path;
  for (const ConfigField& field : config_fields()) {
    if (field.path == path && !field.name.empty()) name = field.name;
  }
  return name.starts_with("swarm.") ? name.substr(6) : name;
}

// Does not check yet whether the values go together.
SwarmConfig read_settings(const std::string& text, const std::string& where) {
  if (text.size() > kSettingsBytesMax) {
    throw ConfigError(where + ": more than " + std::to_string(kSettingsBytesMax) + " bytes");
  }
  if (!is_plain_text(text)) throw ConfigError(where + ": not a text in UTF-8");
  ConfigTree tree = parse_tree(text, where);
  check_version(tree, where);
  for (const ConfigTree& child : tree.children) {
    if (tree.kind != ConfigTree::Kind::kMap || child.key == "swarm") continue;
    throw ConfigError(at_line(where, child.line) + ": " + describe_newer_key("", child.key));
  }
  Config config;
  std::set<std::string> given;
  for (const ConfigField& field : config_fields()) {
    if (is_later_key(field)) read_value(config, given, field, field.unwritten, where);
  }
  given.clear();
  read_tree(config, given, "", tree, where, {KeyNames::kSettings, describe_newer_key, {}});
  for (const ConfigField& field : config_fields()) {
    if (!field.path.starts_with("swarm.") || is_later_key(field) || given.contains(field.path)) continue;
    throw ConfigError(where + ": the key " + field.path + " is missing, which every Starling writes");
  }
  return config.swarm;
}

AgreedSettings read_agreed(const std::string& text, const std::string& where) {
  const size_t at = text.rfind(kGenesisKey);
  if (at == std::string::npos || (at > 0 && text[at - 1] != '\n')) {
    throw ConfigError(where + ": the hash of the genesis is missing at the end, which every Starling writes");
  }
  std::string hash = text.substr(at + kGenesisKey.size());
  if (!hash.empty() && hash.back() == '\n') hash.pop_back();
  if (hash.size() != 64 || hash.find_first_not_of("0123456789abcdef") != std::string::npos) {
    throw ConfigError(where + ": the hash of the genesis at the end is not 64 hexadecimal digits");
  }
  return {read_settings(text.substr(0, at), where), hash};
}

SwarmConfig checked(SwarmConfig swarm, const std::string& where) {
  if (swarm.exchange.deadline_max == kDeadlineAuto) {
    throw ConfigError(where + ": exchange.deadline_max: auto is for configs; write a time such as 5s");
  }
  if (swarm.trust.kind == Trust::kAuto)
    throw ConfigError(where + ": trust: auto is for configs; write open, ticket or certified");
  Config config;
  config.swarm = std::move(swarm);
  refuse_combinations(config, where);
  return config.swarm;
}

// Which swarm it is does not depend on how long its first agent waited for others.
SwarmConfig begun(SwarmConfig swarm) {
  swarm.wait_for = 1;
  return swarm;
}

// A config says less than a swarm has: its key is made by the first agent.
void take_trust(TrustConfig& trust, const TrustConfig& other) {
  const bool any_key = trust.has_tickets() && trust.key.is_zero() && other.kind == trust.kind;
  if (trust.kind == Trust::kAuto || any_key) trust = other;
}

// Every key with its value, also those that the text leaves out. nullopt: the text cannot be read here.
std::optional<std::string> meaning_of(const std::string& text) {
  try {
    const AgreedSettings agreed = read_agreed(text, "");
    const Config config = {.swarm = begun(agreed.swarm)};
    return print_section(config, "swarm", KeyNames::kSettings) + std::string(kGenesisKey) + agreed.genesis_hash_hex +
           "\n";
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

}  // namespace

double exchange_bytes(const SwarmConfig& swarm) {
  const ExchangeConfig& exchange = swarm.exchange;
  const size_t params = model_kind(swarm.model.kind).param_count(swarm.model);
  if (shares_updates(exchange)) {
    const std::unique_ptr<UpdateCodec> codec = make_update_codec(exchange.update);
    size_t up = codec->bytes_max(UpdateRole::kContribution, params);
    size_t down = codec->bytes_max(UpdateRole::kEntry, params);
    if (const SketchTables* const tables = codec->tables()) {
      up += tables->bytes(params);
      down += tables->request_bytes_max(params);
    }
    // A run ends with exact payloads where the codec sends all elements (gossip/updates/update_group).
    const bool ends_exactly = !codec->residual().unsent;
    const size_t last = ends_exactly ? make_update_codec({})->bytes_max(UpdateRole::kContribution, params) : 0;
    return static_cast<double>(std::max({up, down, last}));
  }
  const size_t elements = (exchange.carry_momentum ? 2 : 1) * params;
  const auto bytes = static_cast<double>(make_codec(exchange.codec, MemorySpace::kHost)->payload_bytes_max(elements));
  return bytes / exchange.fragments;
}

Duration longest_deadline(const SwarmConfig& swarm) {
  constexpr double kBytesPerSecond = 10e6 / 8;
  constexpr int kTimes = 4;
  constexpr Duration kLeast = std::chrono::seconds(2);
  const ExchangeConfig& exchange = swarm.exchange;
  if (exchange.deadline_max != kDeadlineAuto) return exchange.deadline_max;
  const double needed = kTimes * exchange_bytes(swarm) / kBytesPerSecond;
  return std::clamp(from_seconds(std::min(needed, seconds(kDeadlineLongest))), std::max(kLeast, exchange.deadline_min),
                    kDeadlineLongest);
}

std::string print_swarm_settings(const SwarmConfig& swarm) {
  Config config;
  config.swarm = swarm;
  config.swarm.exchange.deadline_max = longest_deadline(swarm);
  if (swarm.trust.kind == Trust::kAuto) config.swarm.trust.kind = Trust::kOpen;
  std::string version = kFirstVersion;
  const std::string keys = print_section(config, "swarm", KeyNames::kSettings, [&](const ConfigField& field) {
    if (!is_later_key(field)) return true;
    if (field.print(config) == field.unwritten) return false;
    if (is_newer(field.since, version)) version = field.since;
    return true;
  });
  return (version == kFirstVersion ? "" : std::string(kVersionKey) + ": " + version + "\n") + keys;
}

SwarmConfig parse_swarm_settings(const std::string& text, const std::string& where) {
  return checked(read_settings(text, where), where);
}

bool same_settings(const SwarmConfig& a, const SwarmConfig& b) {
  Config of_a = {.swarm = begun(a)}, of_b = {.swarm = begun(b)};
  take_trust(of_a.swarm.trust, b.trust);
  take_trust(of_b.swarm.trust, a.trust);
  return print_section(of_a, "swarm", KeyNames::kSettings) == print_section(of_b, "swarm", KeyNames::kSettings);
}

std::string problem_of_trust(const TrustConfig& own, const TrustConfig& theirs, const std::string& text,
                             const std::string& signature) {
  if (own.kind == Trust::kAuto || (own == theirs && !own.has_tickets())) return "";
  if (own == theirs) {
    if (is_signed_settings(own.key, text, signature)) return "";
    return "the swarm's key has not signed them. The agent that gives them lies, has an older program, or has met no "
           "agent with the signature yet: name the address of another member with --bootstrap";
  }
  if (!theirs.has_tickets()) return "they are of a swarm without tickets, and this agent was given one";
  return "they are of a swarm with other tickets than this agent was given: ask for one of that swarm";
}

std::string agreed_settings(const SwarmConfig& swarm, const std::string& genesis_hash_hex) {
  return print_swarm_settings(swarm) + std::string(kGenesisKey) + genesis_hash_hex + "\n";
}

AgreedSettings parse_agreed_settings(const std::string& text, const std::string& where) {
  AgreedSettings agreed = read_agreed(text, where);
  agreed.swarm = checked(std::move(agreed.swarm), where);
  return agreed;
}

std::string describe_difference(const std::string& ours, const std::string& theirs) {
  if (ours == theirs) return "";
  const std::optional<std::string> our_meaning = meaning_of(ours), their_meaning = meaning_of(theirs);
  const bool readable = our_meaning && their_meaning;
  const auto here = values_by_path(readable ? *our_meaning : ours);
  const auto there = values_by_path(readable ? *their_meaning : theirs);
  std::map<std::string, std::string> all = here;
  all.insert(there.begin(), there.end());
  const auto value_in = [](const auto& values, const std::string& path) {
    const auto found = values.find(path);
    return found == values.end() ? std::string("not set") : found->second;
  };
  std::string text;
  size_t count = 0;
  for (const auto& [path, unused] : all) {
    const std::string own = value_in(here, path), other = value_in(there, path);
    if (own == other || ++count > kDifferencesMax) continue;
    text += (text.empty() ? "" : "\n") + name_for_people(path) + ": " + own + " here, " + other + " there";
  }
  if (count > kDifferencesMax) text += "\nand " + std::to_string(count - kDifferencesMax) + " more";
  if (text.empty() && !readable) return "the texts differ, and this program cannot read both of them";
  return text;
}

}  // namespace starling
