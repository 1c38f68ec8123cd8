// A configuration as text.
#include <algorithm>
#include <sstream>

#include "agent/config/fields.h"
#include "agent/config/wrap.h"
#include "agent/train/model_kinds.h"

namespace starling {
namespace {

constexpr size_t kColumns = 100;

std::vector<std::string> split_path(const std::string& path) {
  std::vector<std::string> keys;
  std::istringstream parts(path);
  for (std::string key; std::getline(parts, key, '.');) keys.push_back(key);
  return keys;
}

}  // namespace

std::string described(const ConfigField& field) {
  std::string value = field.print(Config{});
  if (value.empty() || field.doc.find("Default: ") != std::string::npos) return field.doc;
  if (value.starts_with('"')) value = value.substr(1, value.size() - 2);
  return field.doc + " Default: " + (value.empty() || value == "[]" ? "none" : value) + ".";
}

std::string print_section(const Config& config, const std::string& section, KeyNames names,
                          const std::function<bool(const ConfigField&)>& wanted) {
  std::string text;
  std::vector<std::string> open;  // the maps around the line before
  for (const ConfigField& field : config_fields()) {
    const std::string& path = names == KeyNames::kConfig ? field.name : field.path;
    if (!path.starts_with(section + ".") || (wanted && !wanted(field))) continue;
    const std::string value = field.print(config);
    if (value.empty()) continue;
    std::vector<std::string> keys = split_path(path);
    const std::string last = keys.back();
    keys.pop_back();
    const auto same = std::mismatch(open.begin(), open.end(), keys.begin(), keys.end()).first - open.begin();
    for (size_t depth = static_cast<size_t>(same); depth < keys.size(); ++depth) {
      text += std::string(2 * depth, ' ') + keys[depth] + ":\n";
    }
    open = keys;
    const std::string indent(2 * keys.size(), ' '), comment = indent + "# ";
    if (names == KeyNames::kConfig) {
      text += comment + wrapped(described(field), kColumns - comment.size(), "\n" + comment) + "\n";
    }
    text += indent + last + ": " + value + "\n";
  }
  return text;
}

std::string print_config(const Config& config) {
  std::string text;
  const bool attached = config.has_swarm && model_kind(config.swarm.model.kind).attached;
  const auto wanted = [attached](const ConfigField& field) { return !attached || !is_of_built_in(field); };
  if (config.has_swarm) {
    text = "# What all members agree on: a joiner adopts it.\n" +
           print_section(config, "swarm", KeyNames::kConfig, wanted) + "\n";
  }
  return text + "# This machine's own.\n" + print_section(config, "agent", KeyNames::kConfig, wanted);
}

}  // namespace starling
