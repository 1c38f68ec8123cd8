// Text for people, broken into lines.
#pragma once

#include <cstddef>
#include <string>

namespace starling {

// Breaks `text` between words, so that no line has more than `width` characters, but for a longer word. `between`
// stands between two lines.
std::string wrapped(const std::string& text, size_t width, const std::string& between = "\n");

}  // namespace starling
