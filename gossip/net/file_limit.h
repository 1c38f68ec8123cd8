// The limit of open files, which bounds how many links this process can hold.
#pragma once

#include <cstddef>

namespace starling {

// Raises the soft limit as far as a full swarm needs, or as the hard limit allows.
void raise_file_limit();

// How many links the soft limit leaves room for; at least 8.
size_t links_within_file_limit();

}  // namespace starling
