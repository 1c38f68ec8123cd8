// Settings as text: for people, for the swarm to agree on, and for telling two of them apart.
#include <algorithm>
#include <map>
#include <sstream>

#include "agent/config/fields.h"

namespace starling {
namespace {

constexpr size_t kCommentColumn = 40;
constexpr size_t kDifferencesMax = 12;   // shown; a refusal travels in one frame

std::vector<std::string> split_path(const std::string& path) {
  std::vector<std::string> keys;
  std::istringstream parts(path);
  for (std::string key; std::getline(parts, key, '.');) keys.push_back(key);
  return keys;
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

}  // namespace

std::string print_section(const Config& config, const std::string& section, bool comments) {
  std::string text;
  std::vector<std::string> open;   // the maps around the line before
  for (const ConfigField& field : config_fields()) {
    if (!field.path.starts_with(section + ".")) continue;
    const std::string value = field.print(config);
    if (value.empty()) continue;
    std::vector<std::string> keys = split_path(field.path);
    const std::string last = keys.back();
    keys.pop_back();
    const auto same = std::mismatch(open.begin(), open.end(), keys.begin(), keys.end()).first - open.begin();
    for (size_t depth = static_cast<size_t>(same); depth < keys.size(); ++depth) {
      text += std::string(2 * depth, ' ') + keys[depth] + ":\n";
    }
    open = keys;
    std::string line = std::string(2 * keys.size(), ' ') + last + ": " + value;
    if (comments && !field.doc.empty()) {
      line.resize(std::max(line.size() + 2, kCommentColumn), ' ');
      line += "# " + field.doc;
    }
    text += line + "\n";
  }
  return text;
}

std::string print_swarm_settings(const SwarmConfig& swarm) {
  Config config;
  config.swarm = swarm;
  return print_section(config, "swarm", false);
}

std::string print_config(const Config& config) {
  std::string text;
  if (config.has_swarm) {
    text = "# What all members agree on: a joiner adopts it.\n" + print_section(config, "swarm", true) + "\n";
  }
  return text + "# This machine's own.\n" + print_section(config, "agent", true);
}

std::string describe_difference(const std::string& ours, const std::string& theirs) {
  const auto here = values_by_path(ours), there = values_by_path(theirs);
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
    const std::string name = path.starts_with("swarm.") ? path.substr(6) : path;
    text += (text.empty() ? "" : "\n") + name + ": " + own + " here, " + other + " there";
  }
  if (count > kDifferencesMax) text += "\nand " + std::to_string(count - kDifferencesMax) + " more";
  return text;
}

}  // namespace starling
