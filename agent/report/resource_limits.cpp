#include "agent/report/resource_limits.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <deque>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "agent/report/format.h"
#include "agent/report/free_memory.h"
#include "gossip/net/file.h"
#include "gossip/net/file_limit.h"

namespace starling {
namespace {

// Nullopt: none.
std::optional<uint64_t> limit_of(int resource) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return limit.rlim_cur;
}

char letter_of(int resource) {
  switch (resource) {
    case RLIMIT_AS: return 'v';
    case RLIMIT_CPU: return 't';
    case RLIMIT_FSIZE: return 'f';
    case RLIMIT_NOFILE: return 'n';
    default: return 'u';
  }
}

// " (ulimit -v: 2 GB)"; empty: no limit.
std::string in_brackets(int resource) { return limit_of(resource) ? " (" + print_limit(resource) + ")" : ""; }

}  // namespace

std::string print_limit(int resource) {
  const std::optional<uint64_t> limit = limit_of(resource);
  std::string value = limit ? std::to_string(*limit) : "unlimited";
  if (limit && (resource == RLIMIT_AS || resource == RLIMIT_FSIZE)) value = print_bytes(*limit);
  if (limit && resource == RLIMIT_CPU) value += " s";
  return fmt::format("ulimit -{}: {}", letter_of(resource), value);
}

std::string remedy_of_file(int error, const std::string& place, uint64_t bytes) {
  const std::string needed = bytes > 0 ? ", and " + print_bytes(bytes) + " are needed" : "";
  switch (error) {
    case EFBIG:
      if (!limit_of(RLIMIT_FSIZE)) return "its file system takes no file so large; choose another disk for " + place;
      return fmt::format("files of this process may have {}{}; raise that limit", print_limit(RLIMIT_FSIZE), needed);
    case ENOSPC:
    case EDQUOT: return "make room, or choose another disk for " + place;
    case EMFILE:
      return fmt::format("all descriptors are in use ({}); raise that limit, or keep strangers from the ports",
                         print_limit(RLIMIT_NOFILE));
    case ENFILE: return "all descriptors of this machine are in use; raise fs.file-max, or end other programs";
    case ENOMEM: return describe_out_of_memory();
    case EACCES:
    case EPERM: return "let this user write there, or choose another folder for " + place;
    case EROFS: return "that disk is read-only; choose another folder for " + place;
    case ENOENT: return "the folder was moved or removed; put it back, or choose another for " + place;
    default: return "check the disk of " + place;
  }
}

std::string describe_out_of_memory(uint64_t bytes) {
  const std::string what = "out of memory" + (bytes > 0 ? ", as " + print_bytes(bytes) + " more are needed" : "");
  const std::string limit = in_brackets(RLIMIT_AS);
  if (limit.empty()) return what + "; take a smaller model or batch, or a machine with more memory";
  return what + ": the address space of this process is limited" + limit +
         "; raise that limit, or take a smaller model or batch";
}

namespace {

// Whether the address space is limited, and has no room for the stack of one more thread. Takes no memory.
bool lacks_room_for_stack() {
  pthread_attr_t attributes;
  size_t bytes = 8 << 20;
  if (pthread_getattr_default_np(&attributes) == 0) {
    (void)pthread_attr_getstacksize(&attributes, &bytes);
    pthread_attr_destroy(&attributes);
  }
  void* stack = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) return limit_of(RLIMIT_AS).has_value();
  munmap(stack, bytes);
  return false;
}

std::string describe_out_of_threads(uint64_t needed, bool address_space) {
  const std::string what =
      "no thread can be made" + (needed > 0 ? fmt::format(", and {} are needed", needed) : std::string());
  if (address_space) {
    return what + ": the address space of this process is limited" + in_brackets(RLIMIT_AS) +
           "; raise that limit, or give fewer --threads";
  }
  const std::optional<uint64_t> of_group = threads_of_cgroup();
  return fmt::format("{}: the limit of threads is reached{}{}; raise it, or give fewer --threads", what,
                     in_brackets(RLIMIT_NPROC),
                     of_group ? fmt::format(" (pids.max of the cgroup: {})", *of_group) : "");
}

}  // namespace

bool is_full_resource(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  const auto* of_system = dynamic_cast<const std::system_error*>(&error);
  return of_system != nullptr && of_system->code() == std::errc::resource_unavailable_try_again;
}

std::string describe_error(const std::exception& error) {
  if (!is_full_resource(error)) return error.what();
  const bool memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  return memory ? describe_out_of_memory() : describe_out_of_threads(0, lacks_room_for_stack());
}

namespace {

void require_descriptors(uint64_t count) {
  raise_file_limit();
  std::deque<File> opened;
  while (opened.size() < count) {
    opened.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (opened.back().is_open()) continue;
    if (errno != EMFILE && errno != ENFILE) return;  // nothing to open here: the limit shows later
    throw std::runtime_error(fmt::format(
        "{} more files and sockets are needed, and only {} can be opened ({}); raise that limit, such as by "
        "ulimit -n 1024, or LimitNOFILE of systemd",
        count, opened.size() - 1, print_limit(RLIMIT_NOFILE)));
  }
}

}  // namespace

void require_threads(uint64_t count) {
  std::mutex gate;  // all of them live at once
  std::vector<std::thread> made;
  made.reserve(count);
  bool enough = true, address_space = false;
  {
    const std::lock_guard closed(gate);
    try {
      while (made.size() < count) made.emplace_back([&gate] { const std::lock_guard passes(gate); });
    } catch (const std::exception&) {
      enough = false;
      address_space = lacks_room_for_stack();
    }
  }
  for (std::thread& thread : made) thread.join();
  if (!enough) throw std::runtime_error(describe_out_of_threads(count, address_space));
}

void require_room(uint64_t descriptors, uint64_t threads) {
  require_descriptors(descriptors);
  require_threads(threads);
}

}  // namespace starling
