// From a tree to the fields that its keys name.
#include "agent/config/reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "agent/config/fields.h"
#include "agent/config/values.h"

namespace starling {
namespace {

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

const ConfigField* find_field(const std::string& path) {
  for (const ConfigField& field : config_fields()) {
    if (field.path == path) return &field;
  }
  return nullptr;
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

class Reader {
 public:
  Reader(Config& config, std::set<std::string>& given, const std::string& where, const DescribeUnknown& unknown)
      : config_(config), given_(given), where_(where), unknown_(unknown) {}

  // REQUIRES: `path` names a field or a section; "" = the top. Mistakes are gathered, so that nobody meets them one by
  // one.
  void read_all(const std::string& path, const ConfigTree& tree) {
    read(path, tree);
    if (!mistakes_.empty()) throw ConfigError(mistakes_);
  }

 private:
  void read(const std::string& path, const ConfigTree& tree) {
    if (const ConfigField* field = find_field(path)) {
      read_field(*field, tree);
      return;
    }
    if (tree.kind == ConfigTree::Kind::kNothing) return;   // a section whose keys are all commented out
    if (tree.kind != ConfigTree::Kind::kMap) {
      note(tree, (path.empty() ? "" : path + ": ") + "expected keys with values (" + keys_of(path).front() + ": ...)");
      return;
    }
    if (path == "swarm") config_.has_swarm = true;
    const std::vector<std::string> keys = keys_of(path);
    std::set<std::string> seen;
    for (const ConfigTree& child : tree.children) {
      const std::string inner = join_path(path, child.key);
      if (std::find(keys.begin(), keys.end(), child.key) == keys.end()) {
        note(child, unknown_ ? unknown_(path, child.key) : describe_unknown(path, child.key));
      } else if (!seen.insert(child.key).second) {
        note(child, inner + " stands here a second time; keep one of them");
      } else {
        read(inner, child);
      }
    }
  }

  void read_field(const ConfigField& field, const ConfigTree& tree) {
    try {
      field.read(config_, tree);
    } catch (const std::invalid_argument& error) {
      note(tree, field.path + ": " + error.what());
      return;
    }
    if (field.path.starts_with("swarm.")) config_.has_swarm = true;
    given_.insert(field.path);
  }

  void note(const ConfigTree& tree, const std::string& what) {
    if (++count_ > kMistakesMax) return;
    mistakes_ += (mistakes_.empty() ? "" : "\n") + at_line(where_, tree.line) + ": " + what;
  }

  static constexpr size_t kMistakesMax = 20;   // a file of another kind has thousands

  Config& config_;
  std::set<std::string>& given_;
  const std::string& where_;
  const DescribeUnknown& unknown_;
  std::string mistakes_;   // a line each
  size_t count_ = 0;
};

constexpr size_t kFileBytesMax = 256 * 1024;

}  // namespace

std::string read_text_file(const std::string& path, const std::string& what, const std::string& remedy) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ConfigError("cannot read " + what + path + ": " + std::strerror(errno) + "; " + remedy);
  std::string text(kFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || std::filesystem::is_directory(path)) throw ConfigError(path + " is no file that can be read");
  if (file.gcount() > static_cast<std::streamsize>(kFileBytesMax)) {
    throw ConfigError(path + ": more than " + std::to_string(kFileBytesMax) + " bytes; is this the right file?");
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

void read_tree(Config& config, std::set<std::string>& given, const std::string& path, const ConfigTree& tree,
               const std::string& where, const DescribeUnknown& unknown) {
  Reader(config, given, where, unknown).read_all(path, tree);
}

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
  // Lists and maps are YAML; all else is taken as it stands, so that nothing needs quotes. "[::1]:7400" is no list.
  const size_t closed = value.find(']');
  const bool is_address = value.starts_with('[') && closed + 1 < value.size() && value[closed + 1] == ':';
  const bool is_yaml = (value.starts_with('[') && !is_address) || value.starts_with('{');
  read_tree(config, given, path, is_yaml ? parse_tree(value, where, false) : scalar_tree(value), where);
}

}  // namespace starling
