// Checks of foreign text before it reaches a terminal or a log.
#pragma once

#include <string_view>

namespace starling {

// Well-formed UTF-8 without control characters.
bool is_one_line(std::string_view text);
// The same, with line feeds and tabs.
bool is_plain_text(std::string_view text);

}  // namespace starling
