// How much memory this process can still take, and the refusal where that is too little.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace starling {

struct FreeMemory {
  uint64_t bytes;     // with what the kernel would give back from its cache of files
  std::string owner;  // "this machine has", or "its cgroup allows"
};

// The least of what the machine has and of what each cgroup of the process allows (versions 1 and 2). What the system
// does not tell limits nothing. `root`: where /proc and /sys lie.
FreeMemory free_memory(const std::filesystem::path& root = "/");

// How many processes and threads the cgroups of this process allow at once; nullopt: no limit.
std::optional<uint64_t> threads_of_cgroup(const std::filesystem::path& root = "/");

// Throws std::runtime_error where less than `bytes` is free, with both numbers and the remedy. `what` is the subject of
// the sentence, and `remedy` ends it.
void require_memory(uint64_t bytes, const std::string& what, const std::string& remedy);

}  // namespace starling
