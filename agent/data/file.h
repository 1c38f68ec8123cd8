// What the readers of data sets share: refusals that name the file, files opened with their size known, and names.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace starling {

// Throws std::runtime_error "PATH: WHAT; REMEDY".
[[noreturn]] void refuse_file(const std::string& path, const std::string& what, const std::string& remedy);

// Throws std::runtime_error: not there, not a regular file, not readable.
std::ifstream open_data_file(const std::string& path, uint64_t* size_bytes);

bool is_folder(const std::string& path);

// The names in a folder, sorted by their bytes, without those that begin with a dot. Throws std::runtime_error: it
// cannot be read.
std::vector<std::string> names_in(const std::string& folder);

// In upper or lower case; `ending` is in lower case.
bool has_ending(std::string_view name, std::string_view ending);

}  // namespace starling
