#include "agent/report/facts.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "kernels/check.h"

namespace starling {
namespace {

constexpr size_t kTerminalColumns = 80;
constexpr size_t kGap = 2;  // between columns

std::string padded(const std::string& cell, size_t width, bool left) {
  const std::string space(width - std::min(width, cell.size()), ' ');
  return left ? cell + space : space + cell;
}

// Of the agents from `first` on, as many as fit beside the names of the rows; at least one.
size_t fitting(const FactTable& table, size_t first, size_t name_width) {
  size_t count = 0, used = name_width;
  for (size_t agent = first; agent < table.agents.size(); ++agent) {
    size_t width = table.agents[agent].size();
    for (const FactRow& row : table.rows) width = std::max(width, row.values[agent].size());
    used += kGap + width;
    if (count > 0 && used > kTerminalColumns) break;
    ++count;
  }
  return count;
}

}  // namespace

void FactTable::add(std::string name, std::vector<std::string> values) {
  STARLING_CHECK(values.size() == agents.size());
  const bool known = std::any_of(values.begin(), values.end(), [](const std::string& value) { return value != "-"; });
  if (known) rows.push_back({std::move(name), std::move(values)});
}

std::string print_facts(const std::string& title, const FactTable& table) {
  if (table.agents.empty() || table.rows.empty()) return "";
  size_t name_width = title.size();
  for (const FactRow& row : table.rows) name_width = std::max(name_width, row.name.size());
  std::string text;
  for (size_t first = 0; first < table.agents.size();) {
    const size_t count = fitting(table, first, name_width);
    const auto part = [&](std::string name, const std::vector<std::string>& all) {
      std::vector<std::string> cells = {std::move(name)};
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(first);
      cells.insert(cells.end(), from, from + static_cast<std::ptrdiff_t>(count));
      return cells;
    };
    std::vector<std::vector<std::string>> rows = {part(title, table.agents)};
    for (const FactRow& row : table.rows) rows.push_back(part(row.name, row.values));
    text += (text.empty() ? "" : "\n") + print_columns(rows, 1);
    first += count;
  }
  return text;
}

nlohmann::ordered_json facts_json(const FactTable& table) {
  auto rows = nlohmann::ordered_json::array();
  for (const FactRow& row : table.rows) {
    auto cells = nlohmann::ordered_json::array({row.name});
    for (const std::string& value : row.values) cells.push_back(value);
    rows.push_back(std::move(cells));
  }
  return {{"agents", table.agents}, {"rows", std::move(rows)}};
}

std::string print_columns(const std::vector<std::vector<std::string>>& rows, size_t left) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += (i == 0 ? "" : std::string(kGap, ' ')) + padded(row[i], widths[i], i < left || i >= rows[0].size());
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace starling
