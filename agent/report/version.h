// The version of this program. meson.build has it too.
#pragma once

#include <cstdint>
#include <string>

namespace starling {

inline constexpr uint32_t kProgram = 0 << 16 | 3 << 8 | 0;  // major, minor, patch

// "0.3.0" of kProgram.
inline std::string print_version(uint32_t program) {
  return std::to_string(program >> 16) + "." + std::to_string(program >> 8 & 0xff) + "." +
         std::to_string(program & 0xff);
}

}  // namespace starling
