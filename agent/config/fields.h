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
  std::string path;   // "swarm.exchange.codec"
  std::string flag;   // "--listen": a flag of the program that sets it; empty: only --set
  std::string doc;
  std::function<void(Config&, const ConfigTree&)> read;   // throws std::invalid_argument: what was expected and found
  std::function<std::string(const Config&)> print;        // one line of YAML; empty: leave the key out

  // Of a key below `swarm` that came after version 0.1.0: the version that it came with, and what it prints where a
  // text of settings lacks it. That is what Starling did before it had the key; it never changes (settings.h).
  std::string since = {}, unwritten = {};
};

// In the order of printing.
const std::vector<ConfigField>& config_fields();

// Lines "key: value" of the keys below `section` ("swarm"), nested, with their meaning behind them if asked for. All
// keys, or those that are `wanted`.
std::string print_section(const Config& config, const std::string& section, bool comments,
                          const std::function<bool(const ConfigField&)>& wanted = {});

// Refuses combinations of keys that cannot work. Throws ConfigError, whose text begins with `where`.
void refuse_combinations(const Config& config, const std::string& where);

}  // namespace starling
