#include "agent/state/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <stdexcept>

#include <fmt/format.h>

#include "agent/report/resource_limits.h"
#include "gossip/net/file.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kOthers = 077, kOthersWrite = 022;

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw std::runtime_error(path + " " + what);
}

// Without trailing slashes: with them, the kernel would follow a symbolic link.
std::string trimmed(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return folder;
}

bool is_own_place(const std::string& folder) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(fs::path(folder) / "identity.key", error))) return true;
  return fs::is_empty(folder, error) && !error;
}

// Returns what was changed, for people; empty if nothing.
std::string close_to_others(const std::string& folder, int fd, const struct stat& info) {
  if ((info.st_mode & kOthers) == 0) return "";
  const std::string state = "the state folder " + folder;
  const std::string mode = fmt::format(" (mode {:04o})", info.st_mode & 07777);
  const bool is_shared = (info.st_mode & S_ISVTX) != 0;  // as /tmp is
  struct stat now = info;
  if (!is_shared && is_own_place(folder) && ::fchmod(fd, 0700) == 0 && ::fstat(fd, &now) == 0 &&
      (now.st_mode & kOthers) == 0) {
    return state + " was open to other users" + mode + "; its mode is 0700 now";
  }
  if ((info.st_mode & kOthersWrite) == 0) return "";
  const bool is_ours = info.st_uid == ::geteuid();
  if (is_ours && is_own_place(folder) && !is_shared) {
    fail(state, "may be written by other users" + mode +
                    ", and its file system keeps no modes; name a folder on "
                    "another disk with --state, or mount that one with umask=077");
  }
  fail(state, "may be written by other users" + mode + ", so that they could replace the key and the checkpoints; " +
                  (is_shared || !is_ours ? "" : "run: chmod 700 " + folder + ", or ") +
                  "name a folder of its own with --state, such as " + (fs::path(folder) / "starling-state").string());
}

}  // namespace

std::optional<std::string> read_private_file(const std::string& path, size_t bytes_max) {
  const File file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.fd() < 0) {
    if (errno == ENOENT) return std::nullopt;
    if (errno == ELOOP) fail(path, "is a symbolic link, which is not followed; put the file itself there");
    fail(path, "cannot be opened: " + std::string(std::strerror(errno)) + "; make it readable for this user");
  }
  struct stat info{};
  if (::fstat(file.fd(), &info) != 0 || !S_ISREG(info.st_mode)) fail(path, "is no regular file; move it away");
  // Room for what it holds, and a byte more: a file that grows meanwhile gets more room.
  std::string text(std::min(static_cast<size_t>(info.st_size), bytes_max) + 1, '\0');
  size_t size = 0;
  for (;;) {
    if (size == text.size()) {
      if (size > bytes_max) break;
      text.resize(std::min(2 * size, bytes_max + 1));
    }
    const ssize_t got = ::read(file.fd(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, "cannot be read: " + std::string(std::strerror(errno)) + "; check the disk");
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  if (size > bytes_max) {
    fail(path, "has more than " + std::to_string(bytes_max) + " bytes, so this program did not write it; move it away");
  }
  text.resize(size);
  return text;
}

std::optional<FileFailure> replace_file(FileOps& files, const std::string& path, const std::string& unfinished,
                                        const std::function<int(int fd)>& write) {
  const int fd = files.open_new(unfinished);
  if (fd < 0) return FileFailure{"creating", unfinished, fd};
  const char* doing = "writing";
  int status = write(fd);
  if (status >= 0) {
    // Never again after an error: the kernel may have dropped the pages and would then report success.
    doing = "syncing";
    status = files.sync(fd);
  }
  const int close_status = files.close(fd);
  if (status >= 0 && close_status < 0) {
    doing = "closing";
    status = close_status;
  }
  if (status >= 0) {
    doing = "renaming";
    status = files.rename(unfinished, path);
  }
  if (status < 0) {
    files.remove(unfinished);
    return FileFailure{doing, unfinished, status};
  }
  const std::string folder = fs::path(path).parent_path().string();
  status = files.sync_folder(folder.empty() ? "." : folder);
  if (status < 0) return FileFailure{"syncing the folder of", path, status};
  return std::nullopt;
}

void write_private_file(const std::string& path, std::string_view text, FileOps& files) {
  const std::string unfinished = path + ".tmp";
  files.remove(unfinished);  // left by a process that died while writing
  const auto failure = replace_file(files, path, unfinished, [&](int fd) {
    std::span<const std::byte> bytes = std::as_bytes(std::span(text));
    while (!bytes.empty()) {
      const int64_t written = files.write(fd, bytes.data(), bytes.size());
      if (written <= 0) return written < 0 ? static_cast<int>(written) : -EIO;
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return 0;
  });
  if (!failure) return;
  fail(path, std::string("cannot be written: ") + failure->doing + " " + failure->path + ": " +
                 std::strerror(-failure->status) + "; " +
                 remedy_of_file(-failure->status, "the state (--state)", text.size()));
}

std::string make_private_folder(const std::string& name) {
  const std::string folder = trimmed(name);
  std::error_code error;
  const fs::path parent = fs::path(folder).parent_path();
  if (!parent.empty()) fs::create_directories(parent, error);
  const bool made = ::mkdir(folder.c_str(), 0700) == 0;
  if (!made && errno != EEXIST) {
    fail("the state folder " + folder,
         "cannot be made: " + std::string(std::strerror(errno)) + "; choose another one with --state");
  }
  const File file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info{};
  if (file.fd() < 0 || ::fstat(file.fd(), &info) != 0) {
    const int cause = errno;
    if (fs::is_symlink(fs::symlink_status(folder, error))) {
      fail("the state folder " + folder,
           "is a symbolic link, which is not followed; name the folder that it leads to with --state");
    }
    fail("the state folder " + folder,
         "cannot be used: " + std::string(std::strerror(cause)) + "; choose another one with --state");
  }
  return made ? "" : close_to_others(folder, file.fd(), info);
}

}  // namespace starling
