// Checks of foreign text before it reaches a terminal or a log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace starling {

// Well-formed UTF-8 without control characters.
bool is_one_line(std::string_view text);
// The same, with line feeds and tabs.
bool is_plain_text(std::string_view text);
// As many whole characters of well-formed UTF-8 as `bytes_max` hold.
std::string plain_prefix(std::string_view text, size_t bytes_max);
// "2026-11-28 01:20 UTC", of milliseconds since 1970; for people.
std::string clock_text(uint64_t ms);

}  // namespace starling
