#include "agent/report/free_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include "agent/report/format.h"

namespace starling {
namespace {

// The number behind a word at a line's start, as in /proc/meminfo and memory.stat. 0: no such line.
uint64_t number_of(const std::filesystem::path& file, const std::string& word) {
  std::ifstream lines(file);
  std::string line, found;
  for (uint64_t number = 0; std::getline(lines, line);) {
    if (std::istringstream(line) >> found >> number && found == word) return number;
  }
  return 0;
}

// Nullopt: no such file, or no number in it ("max").
std::optional<uint64_t> only_number(const std::filesystem::path& file) {
  uint64_t number = 0;
  if (std::ifstream(file) >> number) return number;
  return {};
}

struct CgroupFiles { std::string folder, limit, usage, cache; };

// What a cgroup still allows; nullopt: it has no limit.
std::optional<uint64_t> room_in(const std::filesystem::path& group, const CgroupFiles& files) {
  const std::optional<uint64_t> limit = only_number(group / files.limit), usage = only_number(group / files.usage);
  if (!limit || !usage) return {};
  const uint64_t used = *usage - std::min(*usage, number_of(group / "memory.stat", files.cache));
  return *limit - std::min(*limit, used);
}

// Calls visit(room) for each cgroup of the process that has a limit, from its own to the uppermost.
template <typename Visit>
void visit_cgroups(const std::filesystem::path& root, const Visit& visit) {
  std::ifstream lines(root / "proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {  // NUMBER:CONTROLLERS:PATH
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    CgroupFiles files;
    if (controllers == ",,") {
      files = {"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
    } else if (controllers.find(",memory,") != std::string::npos) {
      files = {"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
    } else {
      continue;
    }
    // In a container the path may be the host's, and then only its root is here.
    for (std::filesystem::path path = std::filesystem::path(line.substr(second + 1)).relative_path();;
         path = path.parent_path()) {
      if (const auto room = room_in(root / files.folder / path, files)) visit(*room);
      if (path.empty()) break;
    }
  }
}

}  // namespace

FreeMemory free_memory(const std::filesystem::path& root) {
  const uint64_t available = number_of(root / "proc/meminfo", "MemAvailable:");
  FreeMemory free{available > 0 ? available * 1024 : std::numeric_limits<uint64_t>::max(), "this machine has"};
  visit_cgroups(root, [&](uint64_t room) {
    if (room < free.bytes) free = {room, "its cgroup allows"};
  });
  return free;
}

void require_memory(uint64_t bytes, const std::string& what, const std::string& remedy) {
  const FreeMemory free = free_memory();
  if (bytes <= free.bytes) return;
  throw std::runtime_error(fmt::format("{} about {} of memory, and {} only {} free; {}", what, print_bytes(bytes),
                                       free.owner, print_bytes(free.bytes), remedy));
}

}  // namespace starling
