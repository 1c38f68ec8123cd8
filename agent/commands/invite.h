// The line by which others join: the one place that says it.
#pragma once

#include <string>

#include "agent/process/state_folder.h"
#include "gossip/peer.h"

namespace starling {

// `others`: "others join with". `flags` follow the line. A ticket stands on a terminal alone: a reader of a log could
// join, and invite others.
void say_join_line(const std::string& others, const StatePlace& place, const Endpoint& at, const std::string& flags);

}  // namespace starling
