// From a tree to the fields that its keys name.
#include "agent/config/reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "agent/config/fields.h"
#include "agent/config/values.h"

namespace starling {
namespace {

constexpr size_t kLongKey = 6;  // shorter ones are near to keys that have nothing to do with them

std::string join_path(const std::string& section, const std::string& key) {
  return section.empty() ? key : section + "." + key;
}

// The names of a field that are offered, and those that are read beside them.
std::vector<std::string> offered(const ConfigField& field, KeyNames names) {
  if (names == KeyNames::kSettings) return {field.path};
  if (field.name.empty()) return {};
  return field.alias.empty() ? std::vector{field.name} : std::vector{field.name, field.alias};
}

std::vector<std::string> readable(const ConfigField& field, KeyNames names) {
  std::vector<std::string> all = offered(field, names);
  if (std::find(all.begin(), all.end(), field.path) == all.end()) all.push_back(field.path);
  return all;
}

// The keys that may stand directly in `section` ("" = the top), in the order of the table.
std::vector<std::string> keys_of(const std::string& section, KeyNames names,
                                 std::vector<std::string> (*names_of)(const ConfigField&, KeyNames) = offered) {
  const std::string prefix = join_path(section, "");
  std::vector<std::string> keys;
  for (const ConfigField& field : config_fields()) {
    for (const std::string& path : names_of(field, names)) {
      if (!path.starts_with(prefix)) continue;
      const std::string key = path.substr(prefix.size(), path.find('.', prefix.size()) - prefix.size());
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  return keys;
}

// Where else in the configuration a key of this name stands; empty: nowhere.
std::string find_elsewhere(const std::string& key) {
  if (key.empty()) return {};
  for (const ConfigField& field : config_fields()) {
    if (field.name.ends_with("." + key)) return field.name;
    const size_t inside = field.name.find("." + key + ".");
    if (inside != std::string::npos) return field.name.substr(0, inside + 1 + key.size());
  }
  return {};
}

bool is_called(const ConfigField& field, const std::string& path, KeyNames names) {
  return path == field.path || (names == KeyNames::kConfig && (path == field.name || path == field.alias));
}

// null: it names none, but a section or nothing.
const ConfigField* find_field(const std::string& path, KeyNames names) {
  if (path.empty()) return nullptr;
  for (const ConfigField& field : config_fields()) {
    if (is_called(field, path, names)) return &field;
  }
  return nullptr;
}

std::vector<std::string> last_parts() {
  std::vector<std::string> parts;
  for (const ConfigField& field : config_fields()) parts.push_back(field.name.substr(field.name.rfind('.') + 1));
  return parts;
}

std::string describe_unknown(const std::string& section, const std::string& key) {
  const std::string message = "unknown key '" + key + "'" + (section.empty() ? "" : " in " + section);
  const std::vector<std::string> keys = keys_of(section, KeyNames::kConfig);
  std::string meant = find_elsewhere(key);
  if (meant.empty()) meant = nearest_word(key, keys);
  if (meant.empty() && key.size() >= kLongKey) meant = find_elsewhere(nearest_word(key, last_parts()));
  if (!meant.empty()) return message + "; did you mean '" + meant + "'?";
  std::string known;
  for (const std::string& name : keys) known += (known.empty() ? "" : ", ") + name;
  return message + "; known keys: " + known;
}

class Reader {
 public:
  Reader(Config& config, std::set<std::string>& given, const std::string& where, const ReadOptions& options)
      : config_(config), given_(given), where_(where), options_(options) {}

  // REQUIRES: `path` names a field or a section; "" = the top. Mistakes are gathered, so that nobody meets them one by
  // one.
  void read_all(const std::string& path, const ConfigTree& tree) {
    read(path, tree);
    for (const auto& [field, value] : nameless_) read_nameless(*field, *value);
    refuse();
  }

  // `label` stands before what is wrong with the value; empty: nothing.
  void read_one(const ConfigField& field, const std::string& label, const ConfigTree& tree) {
    read_field(field, label, tree);
    refuse();
  }

 private:
  void refuse() const {
    if (!mistakes_.empty()) throw ConfigError(mistakes_);
  }

  void read(const std::string& path, const ConfigTree& tree) {
    if (const ConfigField* field = find_field(path, options_.names)) {
      read_named(*field, path, tree);
      return;
    }
    if (tree.kind == ConfigTree::Kind::kNothing) return;  // a section whose keys are all commented out
    const std::vector<std::string> keys = keys_of(path, options_.names, readable);
    if (tree.kind != ConfigTree::Kind::kMap) {
      note(tree, (path.empty() ? "" : path + ": ") + "expected keys with values (" + keys.front() + ": ...)");
      return;
    }
    if (path == "swarm") config_.has_swarm = true;
    std::set<std::string> seen;
    for (const ConfigTree& child : tree.children) {
      const std::string inner = join_path(path, child.key);
      if (std::find(keys.begin(), keys.end(), child.key) == keys.end()) {
        note(child, options_.unknown ? options_.unknown(path, child.key) : describe_unknown(path, child.key));
      } else if (!seen.insert(child.key).second) {
        note(child, inner + " stands here a second time; keep one of them");
      } else {
        read(inner, child);
      }
    }
  }

  // `path`: the name by which the text calls the field.
  void read_named(const ConfigField& field, const std::string& path, const ConfigTree& tree) {
    if (!read_.insert(&field).second) {
      note(tree, path + " stands here a second time, under another name; keep one of them");
    } else if (options_.names == KeyNames::kConfig && field.name.empty()) {
      nameless_.emplace_back(&field, &tree);
    } else {
      if (options_.names == KeyNames::kConfig && path != field.name && path != field.alias) {
        give_notice(tree, path + ": this name is old; write " + field.name);
      }
      read_field(field, path, tree);
    }
  }

  void read_field(const ConfigField& field, const std::string& label, const ConfigTree& tree) {
    try {
      field.read(config_, tree);
    } catch (const std::invalid_argument& error) {
      note(tree, (label.empty() ? "" : label + ": ") + error.what());
      return;
    }
    if (field.path.starts_with("swarm.")) config_.has_swarm = true;
    given_.insert(field.path);
  }

  // What settings print for the config that was read means nothing new: version 0.2.0 printed it into config files. A
  // key of this machine alone concerns no other member, so it still counts.
  void read_nameless(const ConfigField& field, const ConfigTree& tree) {
    try {
      const std::string value = field.normal(tree);
      if (value != field.neutral && value != field.print(config_)) {
        if (!field.path.starts_with("agent.")) return note(tree, field.path + ": " + value + ": " + field.remedy);
        read_field(field, field.path, tree);
        give_notice(tree, field.path + ": " + field.remedy);
      } else {
        give_notice(tree, field.path + ": no config needs this key; delete the line");
      }
    } catch (const std::invalid_argument& error) {
      note(tree, field.path + ": " + error.what());
    }
  }

  void give_notice(const ConfigTree& tree, const std::string& what) const {
    if (options_.notice) options_.notice(at_line(where_, tree.line) + ": " + what);
  }

  void note(const ConfigTree& tree, const std::string& what) {
    if (++count_ > kMistakesMax) return;
    mistakes_ += (mistakes_.empty() ? "" : "\n") + at_line(where_, tree.line) + ": " + what;
  }

  static constexpr size_t kMistakesMax = 20;  // a file of another kind has thousands

  Config& config_;
  std::set<std::string>& given_;
  const std::string& where_;
  const ReadOptions& options_;
  std::set<const ConfigField*> read_;
  std::vector<std::pair<const ConfigField*, const ConfigTree*>> nameless_;  // judged once all else is read
  std::string mistakes_;                                                    // a line each
  size_t count_ = 0;
};

// Lists and maps are YAML; all else is taken as it stands, so that nothing needs quotes. "[::1]:7400" is no list.
ConfigTree tree_of(const std::string& value, const std::string& where) {
  const size_t closed = value.find(']');
  const bool is_address = value.starts_with('[') && closed + 1 < value.size() && value[closed + 1] == ':';
  const bool is_yaml = (value.starts_with('[') && !is_address) || value.starts_with('{');
  return is_yaml ? parse_tree(value, where, false) : scalar_tree(value);
}

constexpr size_t kFileBytesMax = 256 * 1024;

}  // namespace

std::string read_text_file(const std::string& path, const std::string& what, const std::string& remedy) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ConfigError("cannot read " + what + path + ": " + std::strerror(errno) + "; " + remedy);
  std::string text(kFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || std::filesystem::is_directory(path))
    throw ConfigError(path + " is no file that can be read; name a file");
  if (file.gcount() > static_cast<std::streamsize>(kFileBytesMax)) {
    throw ConfigError(path + ": more than " + std::to_string(kFileBytesMax) + " bytes; is this the right file?");
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

void read_tree(Config& config, std::set<std::string>& given, const std::string& path, const ConfigTree& tree,
               const std::string& where, const ReadOptions& options) {
  Reader(config, given, where, options).read_all(path, tree);
}

void read_assignment(Config& config, std::set<std::string>& given, const std::string& path, const std::string& value,
                     const std::string& where, const ReadOptions& options) {
  std::string section;
  std::istringstream parts(path + ".");
  for (std::string key; std::getline(parts, key, '.');) {
    const std::vector<std::string> keys = keys_of(section, options.names, readable);
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      throw ConfigError(where + ": " + describe_unknown(section, key));
    }
    section = join_path(section, key);
  }
  read_tree(config, given, path, tree_of(value, where), where, options);
}

void read_value(Config& config, std::set<std::string>& given, const ConfigField& field, const std::string& value,
                const std::string& where) {
  const ReadOptions options;
  Reader(config, given, where, options).read_one(field, field.name, tree_of(value, where));
}

}  // namespace starling
