#include "agent/data/file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

namespace starling {

void refuse_file(const std::string& path, const std::string& what, const std::string& remedy) {
  throw std::runtime_error(path + ": " + what + "; " + remedy);
}

std::ifstream open_data_file(const std::string& path, uint64_t* size_bytes) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) refuse_file(path, "no such file", "name another with agent.data.path");
  if (!std::filesystem::is_regular_file(path, error))
    refuse_file(path, "not a regular file", "put the data file there");
  *size_bytes = std::filesystem::file_size(path, error);
  if (error) refuse_file(path, error.message(), "check the file's permissions");
  std::ifstream file(path, std::ios::binary);
  if (!file)
    refuse_file(path, std::string("cannot be opened: ") + std::strerror(errno), "check the file's permissions");
  return file;
}

bool is_folder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::string name = entry->path().filename();
    if (name.front() != '.') names.push_back(std::move(name));
  }
  if (error) refuse_file(folder, "cannot be read: " + error.message(), "check the folder's permissions");
  std::sort(names.begin(), names.end());
  return names;
}

bool has_ending(std::string_view name, std::string_view ending) {
  if (name.size() < ending.size()) return false;
  return std::equal(ending.begin(), ending.end(), name.end() - static_cast<std::ptrdiff_t>(ending.size()),
                    [](char wanted, char c) { return wanted == (c >= 'A' && c <= 'Z' ? c + 32 : c); });
}

}  // namespace starling
