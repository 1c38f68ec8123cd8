// A configuration as it was written, before anything is known about its keys.
#pragma once

#include <string>
#include <vector>

namespace starling {

struct ConfigTree {
  enum class Kind { kNothing, kScalar, kList, kMap };
  Kind kind = Kind::kNothing;
  std::string text;                  // of a scalar, without quotes
  std::vector<ConfigTree> children;  // of a list or a map, in the order of writing
  std::string key;                   // its name, when it stands in a map
  int line = 0;                      // of the key, or of the value where there is none; from 1; 0: not from a file
};

inline ConfigTree scalar_tree(std::string text) { return {ConfigTree::Kind::kScalar, std::move(text), {}, {}, 0}; }

}  // namespace starling
