// Numbers of several agents as rows of words: what a number is, then its value at each agent. A reader needs no legend.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace starling {

struct FactRow {
  std::string name;
  std::vector<std::string> values;  // by agent
};

struct FactTable {
  std::vector<std::string> agents;
  std::vector<FactRow> rows;

  // A row that is "-" at every agent says nothing, and is left out. REQUIRES: one value for each agent.
  void add(std::string name, std::vector<std::string> values);
};

// For a terminal of 80 columns: as many agents beside each other as it has room for, further ones below. Empty where
// there is no agent or no row.
std::string print_facts(const std::string& title, const FactTable& table);

// {"agents": [name..], "rows": [[what, value..]..]}
nlohmann::ordered_json facts_json(const FactTable& table);

// Columns as wide as their widest cell, two spaces apart; the first `left` of them begin at the left, the others end at
// the right. Cells beyond the columns of the first row are notes, and begin at the left. Each line ends with a line
// feed, none with spaces.
std::string print_columns(const std::vector<std::vector<std::string>>& rows, size_t left);

}  // namespace starling
