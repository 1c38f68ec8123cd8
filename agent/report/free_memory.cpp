#include "agent/report/free_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <vector>

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

struct CgroupFiles { std::string limit, usage, cache; };
const CgroupFiles kVersion2{"memory.max", "memory.current", "inactive_file"};
const CgroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};

// What a cgroup still allows; nullopt: it has no limit.
std::optional<uint64_t> room_in(const std::filesystem::path& group, const CgroupFiles& files) {
  const std::optional<uint64_t> limit = only_number(group / files.limit), usage = only_number(group / files.usage);
  if (!limit || !usage) return {};
  const uint64_t used = *usage - std::min(*usage, number_of(group / "memory.stat", files.cache));
  return *limit - std::min(*limit, used);
}

// Folders of the cgroups of the process, each from its own to the uppermost.
std::vector<std::filesystem::path> cgroups_of(const std::string& controller, const std::filesystem::path& root) {
  std::vector<std::filesystem::path> groups;
  std::ifstream lines(root / "proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {  // NUMBER:CONTROLLERS:PATH
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool unified = controllers == ",,";
    if (!unified && controllers.find("," + controller + ",") == std::string::npos) continue;
    const std::filesystem::path folder = root / (unified ? "sys/fs/cgroup" : "sys/fs/cgroup/" + controller);
    // In a container the path may be the host's, and then only its root is here.
    for (std::filesystem::path path = std::filesystem::path(line.substr(second + 1)).relative_path();;
         path = path.parent_path()) {
      groups.push_back(folder / path);
      if (path.empty()) break;
    }
  }
  return groups;
}

}  // namespace

FreeMemory free_memory(const std::filesystem::path& root) {
  const uint64_t available = number_of(root / "proc/meminfo", "MemAvailable:");
  FreeMemory free{available > 0 ? available * 1024 : std::numeric_limits<uint64_t>::max(), "this machine has"};
  for (const std::filesystem::path& group : cgroups_of("memory", root)) {
    for (const CgroupFiles& files : {kVersion2, kVersion1}) {
      const std::optional<uint64_t> room = room_in(group, files);
      if (room && *room < free.bytes) free = {*room, "its cgroup allows"};
    }
  }
  return free;
}

std::optional<uint64_t> threads_of_cgroup(const std::filesystem::path& root) {
  std::optional<uint64_t> least;
  for (const std::filesystem::path& group : cgroups_of("pids", root)) {
    const std::optional<uint64_t> most = only_number(group / "pids.max");
    if (most && (!least || *most < *least)) least = most;
  }
  return least;
}

void require_memory(uint64_t bytes, const std::string& what, const std::string& remedy) {
  const FreeMemory free = free_memory();
  if (bytes <= free.bytes) return;
  throw std::runtime_error(fmt::format("{} about {} of memory, and {} only {} free; {}", what, print_bytes(bytes),
                                       free.owner, print_bytes(free.bytes), remedy));
}

}  // namespace starling
