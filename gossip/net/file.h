// An open file descriptor, closed at the end of its scope.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace starling {

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Of fsync for a folder: its file system has no such thing (CIFS, 9p, some FUSE mounts), and nothing is to be done.
inline bool cannot_sync_folders(int error) { return error == EINVAL || error == EOPNOTSUPP || error == ENOSYS; }

}  // namespace starling
