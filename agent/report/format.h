// Numbers as people read them. Everything else is fmt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace starling {

// "94.2 %"; "-" when it is not known.
std::string print_percent(const std::optional<double>& ratio);

// Decimal units: "999 B", "12.3 kB", "7.2 GB".
std::string print_bytes(uint64_t bytes);
std::string print_bytes(const std::optional<double>& bytes);  // "-" where it is not known

// "0.1 s" to "59 s", "4 min", "2 h 10 min", "3 d 4 h".
std::string print_span(double seconds);

// "1 peer", "2 peers", of a noun with a regular plural.
std::string print_count(uint64_t count, const std::string& noun);

// Class labels in ascending order: "0 3 7"; five or more without a gap as "0-5".
std::string print_labels(const std::vector<int64_t>& labels);

}  // namespace starling
