// A configuration as text.
#include <algorithm>
#include <sstream>

#include "agent/config/fields.h"

namespace starling {
namespace {

constexpr size_t kCommentColumn = 40;

std::vector<std::string> split_path(const std::string& path) {
  std::vector<std::string> keys;
  std::istringstream parts(path);
  for (std::string key; std::getline(parts, key, '.');) keys.push_back(key);
  return keys;
}

}  // namespace

std::string print_section(const Config& config, const std::string& section, bool comments,
                          const std::function<bool(const ConfigField&)>& wanted) {
  std::string text;
  std::vector<std::string> open;   // the maps around the line before
  for (const ConfigField& field : config_fields()) {
    if (!field.path.starts_with(section + ".") || (wanted && !wanted(field))) continue;
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

std::string print_config(const Config& config) {
  std::string text;
  if (config.has_swarm) {
    text = "# What all members agree on: a joiner adopts it.\n" + print_section(config, "swarm", true) + "\n";
  }
  return text + "# This machine's own.\n" + print_section(config, "agent", true);
}

}  // namespace starling
