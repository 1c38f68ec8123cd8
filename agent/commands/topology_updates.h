// What a group that shares updates sends, by codec (`starling topology --update`).
#pragma once

#include <string>

#include "agent/commands/commands.h"

namespace starling {

// A table of one update codec, or of "all". Throws std::runtime_error: an unknown codec, flags that are for graphs, too
// many members.
std::string print_update_loads(const TopologyOptions& options);

}  // namespace starling
