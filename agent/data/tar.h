// Lists tar archives, gzipped or not. Nothing is ever unpacked to disk.
#pragma once

#include <string>
#include <vector>

#include "agent/data/byte_stream.h"

namespace starling {

// The regular files of a tar archive, in its order. Throws std::runtime_error: no tar archive, damaged, cut short, or a
// name that leads out of the folder.
std::vector<ByteRange> list_tar(const std::string& path);

}  // namespace starling
