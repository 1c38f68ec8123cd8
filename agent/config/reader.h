// From YAML to the keys of a Config. `where` names the source of a text in errors. All throw ConfigError.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "agent/config/config.h"
#include "agent/config/fields.h"
#include "agent/config/tree.h"

namespace starling {

// All of a file of at most 256 KB. `what` stands before its name in errors, "the config " or nothing; `remedy`: what to
// do where it cannot be opened.
std::string read_text_file(const std::string& path, const std::string& what, const std::string& remedy);

// Under bounds of depth and size. With `has_lines` errors name the line too.
ConfigTree parse_tree(const std::string& text, const std::string& where, bool has_lines = true);

std::string at_line(const std::string& where, int line);  // "FILE:12"; without a line (0) just `where`

// What an error says of a key that `section` does not have. Empty: that it is unknown, and which was meant.
using DescribeUnknown = std::function<std::string(const std::string& section, const std::string& key)>;

// How a text is read.
struct ReadOptions {
  KeyNames names = KeyNames::kConfig;
  DescribeUnknown unknown = {};
  Notice notice = {};  // takes a line of each old name, and of each key that no config file needs; empty: nobody
};

// Reads the value of a key, or of a section ("" is the top), into `config`, and adds the paths of the keys that were
// read to `given`. The error holds all that is wrong, a line each. REQUIRES: the key or section exists.
void read_tree(Config& config, std::set<std::string>& given, const std::string& path, const ConfigTree& tree,
               const std::string& where, const ReadOptions& options = {});

// The same for a path that may not exist and a value that stands alone, as behind --set.
void read_assignment(Config& config, std::set<std::string>& given, const std::string& path, const std::string& value,
                     const std::string& where, const ReadOptions& options = {});

// The same for one field, whether it has a name or not, as from a flag or an environment variable.
void read_value(Config& config, std::set<std::string>& given, const ConfigField& field, const std::string& value,
                const std::string& where);

}  // namespace starling
