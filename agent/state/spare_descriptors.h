// Descriptors kept for the files of the state: many links must not keep an agent from saving.
#pragma once

#include <cstddef>
#include <functional>

namespace starling {

inline constexpr size_t kSpareDescriptors = 32;

// Of this process, from any thread: as many as the limit of open files leaves, up to kSpareDescriptors.
void keep_spare_descriptors();

// Calls `open`, which returns a descriptor, or -1 with errno; while there are too many, again with one of the kept
// descriptors less. What is used is kept anew by keep_spare_descriptors().
int open_with_spare(const std::function<int()>& open);

}  // namespace starling
