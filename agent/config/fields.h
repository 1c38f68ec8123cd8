// Every key of the configuration, once: its path, flag and meaning, how it is read and how it is printed. Reading,
// printing, flags, "did you mean" and the documentation all come from this table.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/config/config.h"
#include "agent/config/tree.h"

namespace starling {

struct ConfigField {
  std::string path;  // "swarm.exchange.codec": its name and place in texts of settings, kept for ever (settings.h)
  std::string name;  // in config files, --set and help; empty: no config file sets it
  std::string flag;  // "--listen": a flag of the program that sets it; empty: only --set
  std::string doc;
  std::function<void(Config&, const ConfigTree&)> read;  // throws std::invalid_argument: what was expected and found
  std::function<std::string(const Config&)> print;       // one line of YAML; empty: leave the key out
  std::function<std::string(const ConfigTree&)> normal;  // a value in the words of print(); throws as read() does

  // Of a key below `swarm` that came after version 0.1.0: the version that it came with, and what it prints where a
  // text of settings lacks it. That is what Starling did before it had the key; it never changes (settings.h).
  std::string since = {}, unwritten = {};

  std::string alias = {};  // a second name in config files; empty: none

  // Without a name: a config file may still say `neutral`, which changes nothing; of another value `remedy` says what
  // to do instead. Below `agent` that value still counts.
  std::string neutral = {}, remedy = {};
};

// In the order of printing.
const std::vector<ConfigField>& config_fields();

// By which names a text calls the keys. A config file may also call a key by its path, which is an old name where it
// is not the name.
enum class KeyNames { kConfig, kSettings };

// Lines "key: value" of the keys below `section` ("swarm"), nested: by their names with their meaning, or by their
// paths. All keys that have such a name, or those of them that are `wanted`.
std::string print_section(const Config& config, const std::string& section, KeyNames names,
                          const std::function<bool(const ConfigField&)>& wanted = {});

// Its meaning and its default, for people.
std::string described(const ConfigField& field);

// Only built-in models read the key: a loop of the user's own has its data, its optimizer and its device.
bool is_of_built_in(const ConfigField& field);

// Refuses combinations of keys that cannot work. Throws ConfigError; its text begins with `where`.
void refuse_combinations(const Config& config, const std::string& where);

}  // namespace starling
