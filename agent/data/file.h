// What the readers of data sets share: a file opened with its size known, and refusals that name it.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace starling {

// Throws std::runtime_error "PATH: WHAT; REMEDY".
[[noreturn]] void refuse_file(const std::string& path, const std::string& what, const std::string& remedy);

// Throws std::runtime_error: not there, not a regular file, not readable.
std::ifstream open_data_file(const std::string& path, uint64_t* size_bytes);

}  // namespace starling
