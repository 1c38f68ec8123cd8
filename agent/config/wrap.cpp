#include "agent/config/wrap.h"

#include <sstream>

namespace starling {

std::string wrapped(const std::string& text, size_t width, const std::string& between) {
  std::string all;
  size_t used = 0;  // of the last line
  std::istringstream words(text);
  for (std::string word; words >> word; used += word.size()) {
    if (used > 0 && used + 1 + word.size() > width) {
      all += between;
      used = 0;
    } else if (used > 0) {
      all += ' ';
      ++used;
    }
    all += word;
  }
  return all;
}

}  // namespace starling
