#include "agent/observe/metrics.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "agent/observe/event_json.h"

namespace starling {

MetricsFile::MetricsFile(const std::string& path, uint64_t bytes_max) : path_(path), bytes_max_(bytes_max) {
  if (path.empty()) return;
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
  struct stat info {};
  if (fd_ >= 0 && fstat(fd_, &info) == 0 && S_ISREG(info.st_mode)) return;
  std::string cause = std::strerror(errno);
  if (fd_ >= 0 || errno == ENXIO) cause = "it is no regular file";   // ENXIO: a FIFO that nobody reads
  if (fd_ < 0 && errno == ELOOP) cause = "it is a symbolic link, which is not followed";
  if (fd_ >= 0) close(fd_);
  throw std::runtime_error("cannot write metrics to " + path + ": " + cause + "; choose another file with --metrics");
}

MetricsFile::~MetricsFile() {
  if (fd_ >= 0) close(fd_);
}

// The file before the last one is dropped. Where the name cannot be given away, the file grows on.
void MetricsFile::rotate() {
  struct stat info {};
  if (fstat(fd_, &info) != 0 || static_cast<uint64_t>(info.st_size) < bytes_max_ || info.st_nlink == 0) return;
  if (std::rename(path_.c_str(), (path_ + ".1").c_str()) != 0) return;
  const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return;
  close(fd_);
  fd_ = fd;
  torn_ = false;
}

void MetricsFile::on(const Event& event) {
  if (fd_ < 0) return;
  rotate();
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const std::string line = std::visit([&](auto told) {
    if constexpr (requires { told.metrics_lines_lost; }) {
      told.metrics_lines_lost = failed_writes_;
      told.metrics_lost_last = lost_because_;
    }
    return (torn_ ? "\n" : "") + print_event(now, told) + "\n";
  }, event);
  const std::string trouble = write(line);
  if (trouble.empty()) return;
  ++failed_writes_;
  lost_because_ = trouble;
}

// A full disk takes a part of the line; only what is written after that says why it ended there. The next line must not
// continue the part.
std::string MetricsFile::write(const std::string& line) {
  struct stat info {};
  if (fstat(fd_, &info) == 0 && info.st_nlink == 0) {   // the kernel would take it all the same
    return "the file was removed, and only a new start makes it again";
  }
  for (size_t begin = 0; begin < line.size();) {
    const ssize_t written = ::write(fd_, line.data() + begin, line.size() - begin);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return why_lost(written < 0 ? errno : EIO);
    begin += static_cast<size_t>(written);
    torn_ = begin < line.size();
  }
  return "";
}

std::string MetricsFile::why_lost(int error) {
  const std::string words = std::strerror(error);
  return error == ENOSPC || error == EDQUOT ? words + "; is the disk full?" : words;
}

}  // namespace starling
