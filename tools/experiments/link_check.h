// What an empty link of link_relay measures: `--check`.
#pragma once

#include <vector>

#include "tools/experiments/link_nodes.h"

// Prints the round trip and the rate between the first two of `nodes`, whose links are all `link`, as a line of JSON.
// Returns 0 when both are as asked, 3 when not.
int check_link(const Link& link, double queue_ms, std::vector<Node>& nodes);
