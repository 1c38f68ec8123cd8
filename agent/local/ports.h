// Ports of this machine's loopback address, for the registry of a local swarm.
#pragma once

#include <cstdint>

namespace starling {

// A port of 127.0.0.1 that is free together with the next one (control and bulk), below the range from which the
// kernel draws ports for others. `attempt` starts the search elsewhere. Throws std::runtime_error if there is none.
uint16_t find_free_port_pair(uint32_t attempt);

// Whether something accepts TCP connections on that port of 127.0.0.1.
bool accepts_connections(uint16_t port);

}  // namespace starling
