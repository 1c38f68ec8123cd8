#include "agent/state/file_ops.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <mutex>

#include <spdlog/spdlog.h>

#include "agent/state/spare_descriptors.h"
#include "gossip/net/file.h"

namespace starling {
namespace {

int status_of(int result) { return result < 0 ? -errno : result; }

class DiskFileOps final : public FileOps {
 public:
  int open_new(const std::string& path) override {
    return status_of(open_with_spare(
        [&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600); }));
  }

  int64_t write(int fd, const std::byte* data, size_t size) override {
    for (;;) {
      const ssize_t written = ::write(fd, data, size);
      if (written >= 0) return written;
      if (errno != EINTR) return -errno;
    }
  }

  int sync(int fd) override { return status_of(::fsync(fd)); }
  int close(int fd) override { return status_of(::close(fd)); }
  int rename(const std::string& from, const std::string& to) override {
    return status_of(::rename(from.c_str(), to.c_str()));
  }
  int remove(const std::string& path) override { return status_of(::unlink(path.c_str())); }

  int sync_folder(const std::string& folder) override {
    const int fd = open_with_spare([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    if (fd < 0) return -errno;
    const int result = status_of(::fsync(fd));
    ::close(fd);
    if (!cannot_sync_folders(-result)) return result;
    static std::once_flag said;
    std::call_once(said, [&] {
      spdlog::warn(
          "the file system of {} cannot sync folders: after a power cut the newest checkpoint may be missing, and the "
          "one before it is used. A folder on a local disk (--state) is safe from that",
          folder);
    });
    return 0;
  }

  int64_t free_bytes(const std::string& folder) override {
    struct statvfs place;
    if (::statvfs(folder.c_str(), &place) != 0) return -errno;
    const uint64_t most = std::numeric_limits<int64_t>::max();
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(uint64_t{place.f_bavail}, uint64_t{place.f_frsize}, &bytes)) bytes = most;
    return static_cast<int64_t>(std::min(bytes, most));
  }
};

}  // namespace

std::unique_ptr<FileOps> make_file_ops() { return std::make_unique<DiskFileOps>(); }

}  // namespace starling
