// Which address others should dial when we listen on all of them.
#pragma once

#include <string>
#include <vector>

#include "gossip/peer.h"

namespace starling {

// The local address that a packet towards one of `peers` would leave from, else the first address of this host that is
// not loopback, else 127.0.0.1. Sends nothing.
std::string own_address(const std::vector<Endpoint>& peers);

// "0.0.0.0", "::", "*"
bool is_any_address(const std::string& host);

}  // namespace starling
