// What drawings share.
#pragma once

#include <string>

namespace starling {

// Text as it may stand between two tags.
std::string escaped(const std::string& text);

// Throws std::runtime_error with the reason and a remedy.
void write_drawing(const std::string& path, const std::string& svg);

}  // namespace starling
