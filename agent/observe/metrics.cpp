#include "agent/observe/metrics.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "agent/observe/event_json.h"
#include "agent/report/resource_limits.h"

namespace starling {

namespace {

// Or -1, and `errno` says why; 0: it is no regular file. Another process may have made the file.
int open_lines(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
  struct stat info{};
  if (fd < 0 || (fstat(fd, &info) == 0 && S_ISREG(info.st_mode))) return fd;
  close(fd);
  errno = 0;
  return -1;
}

// On the writing thread.
class Lines {
 public:
  Lines(std::string path, int fd, uint64_t bytes_max) : path_(std::move(path)), bytes_max_(bytes_max), fd_(fd) {}
  ~Lines() { close(fd_); }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  std::string write(const std::string& line);  // empty, or why the line is lost

 private:
  bool elsewhere() const;  // the name leads to no file, or to another one
  void rotate();           // REQUIRES: it leads to this one
  bool begin_file();       // false: the old one is kept; `errno` says why

  const std::string path_;
  const uint64_t bytes_max_;
  int fd_;
  bool torn_ = false;  // the file ends within a line
};

// Somebody removed the file, or gave it another name, as logrotate(8) does.
bool Lines::elsewhere() const {
  struct stat ours{}, named{};
  if (fstat(fd_, &ours) != 0) return false;
  if (lstat(path_.c_str(), &named) != 0) return errno == ENOENT || errno == ENOTDIR;
  return ours.st_ino != named.st_ino || ours.st_dev != named.st_dev;
}

// The file before the last one is dropped. Where the name cannot be given away, the file grows on.
void Lines::rotate() {
  struct stat info{};
  if (fstat(fd_, &info) != 0 || static_cast<uint64_t>(info.st_size) < bytes_max_) return;
  if (std::rename(path_.c_str(), (path_ + ".1").c_str()) == 0) (void)begin_file();
}

bool Lines::begin_file() {
  const int fd = open_lines(path_);
  if (fd < 0) return false;
  close(fd_);
  fd_ = fd;
  torn_ = false;
  return true;
}

// A full disk takes a part of the line; only what is written after that says why it ended there. The next line must not
// continue the part.
std::string Lines::write(const std::string& line) {
  if (!elsewhere()) {
    rotate();
  } else if (!begin_file()) {
    const int why = errno;
    struct stat info{};  // a file without any name would take the line all the same
    if (fstat(fd_, &info) == 0 && info.st_nlink == 0)
      return "the file was removed, and making it again gives: " + MetricsFile::why_lost(why);
  }
  const std::string text = (torn_ ? "\n" : "") + line;
  for (size_t begin = 0; begin < text.size();) {
    const ssize_t written = ::write(fd_, text.data() + begin, text.size() - begin);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return MetricsFile::why_lost(written < 0 ? errno : EIO);
    begin += static_cast<size_t>(written);
    torn_ = begin < text.size();
  }
  return "";
}

}  // namespace

MetricsFile::MetricsFile(const std::string& path, uint64_t bytes_max) {
  if (path.empty()) return;
  const int fd = open_lines(path);
  if (fd >= 0) {
    const auto lines = std::make_shared<Lines>(path, fd, bytes_max);
    writer_ = std::make_unique<QueuedWriter>([lines](const std::string& line) { return lines->write(line); });
    return;
  }
  std::string cause = std::strerror(errno);
  if (errno == 0 || errno == ENXIO) cause = "it is no regular file";  // ENXIO: a FIFO that nobody reads
  if (errno == ELOOP) cause = "it is a symbolic link, which is not followed";
  throw std::runtime_error("cannot write metrics to " + path + ": " + cause + "; choose another file with --metrics");
}

void MetricsFile::on(const Event& event) {
  if (!writer_) return;
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  writer_->push(std::visit(
      [&](auto told) {
        if constexpr (requires { told.metrics_lines_lost; }) {
          told.metrics_lines_lost = failed_writes();
          told.metrics_lost_last = lost_because();
        }
        return print_event(now, told) + "\n";
      },
      event));
}

void MetricsFile::flush(std::chrono::milliseconds limit) const {
  if (writer_) (void)writer_->flush(limit);
}

std::string MetricsFile::why_lost(int error) {
  const std::string words = std::strerror(error);
  if (error == EFBIG) return words + " (" + print_limit(RLIMIT_FSIZE) + ")";
  return error == ENOSPC || error == EDQUOT ? words + "; is the disk full?" : words;
}

}  // namespace starling
