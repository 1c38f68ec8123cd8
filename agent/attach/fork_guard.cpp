#include "agent/attach/fork_guard.h"

#include <dirent.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <stdexcept>

namespace starling {
namespace {

constexpr size_t kFilesMax = 16;  // of one guard: the lock, and two ports on two kinds of addresses

struct Slot {
  std::atomic<bool> used = false;
  std::atomic<size_t> count = 0;
  std::array<std::atomic<int>, kFilesMax> files;
};

std::array<Slot, ForkGuard::kGuardsMax> all_slots;
std::atomic<uint64_t> generation = 1;

// Only calls that are safe in the child of a process with threads.
void in_child() {
  generation.fetch_add(1);
  for (Slot& slot : all_slots) {
    for (size_t i = 0; i < slot.count; ++i) close(slot.files[i]);
    slot.count = 0;
    slot.used = false;
  }
}

size_t take_slot() {
  static const int installed = pthread_atfork(nullptr, nullptr, in_child);
  if (installed != 0)
    throw std::runtime_error("the system is out of memory for a handler of forked children; free some");
  for (size_t i = 0; i < all_slots.size(); ++i) {
    if (!all_slots[i].used.exchange(true)) return i;
  }
  throw std::runtime_error("this process holds " + std::to_string(ForkGuard::kGuardsMax) +
                           " swarms already; leave one before joining another");
}

bool listens_on(int file, uint16_t port) {
  int listening = 0;
  socklen_t size = sizeof listening;
  if (getsockopt(file, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0) return false;
  sockaddr_storage address{};
  size = sizeof address;
  if (getsockname(file, reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
  const uint16_t bound = ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
  return bound == port || bound == port + 1;
}

std::vector<int> open_files() {
  std::vector<int> files;
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return files;
  while (const dirent* entry = readdir(folder)) {
    const int file = std::atoi(entry->d_name);
    if (file > STDERR_FILENO && file != dirfd(folder)) files.push_back(file);
  }
  closedir(folder);
  return files;
}

}  // namespace

ForkGuard::ForkGuard(const std::string& file, uint16_t port) : slot_(take_slot()) {
  struct stat wanted{};
  const bool found = stat(file.c_str(), &wanted) == 0;
  Slot& slot = all_slots[slot_];
  for (const int open : open_files()) {
    struct stat is{};
    if (slot.count == kFilesMax || fstat(open, &is) != 0) continue;
    const bool same = found && is.st_dev == wanted.st_dev && is.st_ino == wanted.st_ino;
    if (!same && !(S_ISSOCK(is.st_mode) && listens_on(open, port))) continue;
    slot.files[slot.count] = open;
    ++slot.count;
  }
}

ForkGuard::~ForkGuard() {
  all_slots[slot_].count = 0;
  all_slots[slot_].used = false;
}

uint64_t process_generation() { return generation; }

}  // namespace starling
