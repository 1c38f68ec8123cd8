// Lists zip archives, as .npz files are. Nothing is ever unpacked to disk.
#pragma once

#include <string>
#include <vector>

#include "agent/data/byte_stream.h"

namespace starling {

// The members of a zip archive, stored or deflated, in the order of its directory. Throws std::runtime_error: no zip
// archive, damaged, encrypted, or a member that unpacks to too much.
std::vector<ByteRange> list_zip(const std::string& path);

}  // namespace starling
