#include "agent/state/checkpoint_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include <spdlog/spdlog.h>

#include "agent/state/private_file.h"
#include "gossip/net/file.h"

namespace starling {
namespace {

[[noreturn]] void fail(const std::string& folder, const std::string& what) {
  throw std::runtime_error("state folder " + folder + ": " + what);
}

// Who wrote its pid into the lock file; empty if that cannot be read.
std::string read_holder(int fd) {
  char text[32] = {};
  const ssize_t size = ::pread(fd, text, sizeof text - 1, 0);
  std::string holder;
  for (ssize_t i = 0; i < size && text[i] >= '0' && text[i] <= '9'; ++i) holder += text[i];
  return holder;
}

}  // namespace

DirectoryLock::DirectoryLock(const std::string& folder) {
  const std::string remark = make_private_folder(folder);
  if (!remark.empty()) spdlog::warn("{}", remark);
  path_ = (std::filesystem::path(folder) / "lock").string();
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd_ < 0 && errno == ELOOP) {
    fail(folder, "the file `lock` in it is a symbolic link, which is not followed; remove it");
  }
  if (fd_ < 0) {
    fail(folder, std::string("cannot write the file `lock` in it: ") + std::strerror(errno) +
                     "; check its permissions or name another one with agent.state");
  }
  const bool locked = ::flock(fd_, LOCK_EX | LOCK_NB) == 0;
  if (!locked && errno != EWOULDBLOCK) {
    spdlog::warn(
        "state folder {} cannot be locked ({}): nothing keeps a second agent from using it. See that there is none, or "
        "name a folder on a local disk with --state",
        folder, std::strerror(errno));
  } else if (!locked) {
    const std::string holder = read_holder(fd_);
    ::close(fd_);
    fail(folder, "another agent or registry is using it" + (holder.empty() ? "" : " (process " + holder + ")") +
                     "; stop that one, or name another folder with --state");
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  // The pid is for people only; the lock holds without it.
  if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, pid.data(), pid.size(), 0) < 0) return;
}

// The file stays: removing it would let two agents lock two files of the same name.
DirectoryLock::~DirectoryLock() { ::close(fd_); }

bool DirectoryLock::in_place() const {
  struct stat ours{}, there{};
  return ::fstat(fd_, &ours) == 0 && ::lstat(path_.c_str(), &there) == 0 && ours.st_ino == there.st_ino &&
         ours.st_dev == there.st_dev;
}

bool is_locked(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "lock").string();
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.is_open() || ::flock(file.fd(), LOCK_SH | LOCK_NB) == 0) return false;
  if (errno == EWOULDBLOCK) return true;
  const std::string holder = read_holder(file.fd());  // no locks on that file system
  return !holder.empty() && holder.size() < 10 && (::kill(std::stoi(holder), 0) == 0 || errno == EPERM);
}

}  // namespace starling
