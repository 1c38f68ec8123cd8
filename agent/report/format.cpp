#include "agent/report/format.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace starling {

std::string print_percent(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.1f} %", 100 * *ratio) : "-";
}

std::string print_bytes(uint64_t bytes) {
  const auto count = static_cast<double>(bytes);
  if (bytes < 1000) return fmt::format("{:.0f} B", count);
  if (bytes < 999'950) return fmt::format("{:.1f} kB", count / 1e3);
  if (bytes < 999'950'000) return fmt::format("{:.1f} MB", count / 1e6);
  return fmt::format("{:.1f} GB", count / 1e9);
}

std::string print_bytes(const std::optional<double>& bytes) {
  return bytes ? print_bytes(static_cast<uint64_t>(*bytes)) : "-";
}

std::string print_span(double seconds) {
  if (seconds < 1) return fmt::format("{:.1f} s", std::max(0.0, seconds));
  if (seconds < 60) return fmt::format("{:.0f} s", std::floor(seconds));
  const auto minutes = static_cast<uint64_t>(std::min(seconds, 1e15) / 60);
  if (minutes < 60) return fmt::format("{} min", minutes);
  if (minutes < 24 * 60) return fmt::format("{} h {} min", minutes / 60, minutes % 60);
  return fmt::format("{} d {} h", minutes / (24 * 60), minutes / 60 % 24);
}

std::string print_count(uint64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string print_labels(const std::vector<int64_t>& labels) {
  const bool run = labels.size() > 4 && labels.back() - labels.front() + 1 == static_cast<int64_t>(labels.size());
  if (run) return fmt::format("{}-{}", labels.front(), labels.back());
  std::string text;
  for (const int64_t label : labels) text += (text.empty() ? "" : " ") + std::to_string(label);
  return text;
}

}  // namespace starling
