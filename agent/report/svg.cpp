#include "agent/report/svg.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace starling {

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else
      result += c;
  }
  return result;
}

void write_drawing(const std::string& path, const std::string& svg) {
  std::ofstream file(path, std::ios::binary);
  file << svg;
  file.close();
  if (!file) {
    throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno) +
                             "; make room or choose another place");
  }
}

}  // namespace starling
