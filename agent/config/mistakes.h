// Gathers what is wrong with a configuration, a line each, so that nobody meets mistakes one by one.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "agent/config/config.h"

namespace starling {

class Mistakes {
 public:
  // Each line begins with `before`, such as "swarm.yaml: ".
  explicit Mistakes(std::string before = "") : before_(std::move(before)) {}

  void add(const std::string& lines) {
    for (size_t from = 0; from <= lines.size();) {
      const size_t to = std::min(lines.find('\n', from), lines.size());
      text_ += (text_.empty() ? "" : "\n") + before_ + lines.substr(from, to - from);
      from = to + 1;
    }
  }
  void add_if(bool wrong, const std::string& lines) {
    if (wrong) add(lines);
  }
  // Calls `check`, and adds what it throws. What follows in `check` is not looked at then.
  template <typename Check>
  void attempt(const Check& check) {
    try {
      check();
    } catch (const std::runtime_error& error) {
      add(error.what());
    }
  }
  // Throws ConfigError if there are any.
  void refuse() const {
    if (!text_.empty()) throw ConfigError(text_);
  }

 private:
  std::string before_, text_;
};

}  // namespace starling
