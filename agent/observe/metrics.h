// The file metrics.jsonl: a JSON line an event. README.md here says what the lines hold.
#pragma once

#include <cstdint>
#include <string>

#include "agent/observe/events.h"

namespace starling {

inline constexpr uint64_t kMetricsBytesMax = 1ull << 30;   // two files: days of a line an exchange, a year of sums

class MetricsFile final : public Observer {
 public:
  // Appends to `path`, a regular file (made with mode 0600); an empty path writes nothing. Throws std::runtime_error
  // for anything else: a symbolic link is not followed, and a FIFO not waited for.
  // A file of `bytes_max` becomes PATH.1, in the place of the one before, and a new one is begun.
  explicit MetricsFile(const std::string& path, uint64_t bytes_max = kMetricsBytesMax);
  ~MetricsFile() override;
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // One write per line, so a reader that follows the file never sees half a line of a living agent.
  void on(const Event& event) override;
  uint64_t failed_writes() const { return failed_writes_; }   // lines that were lost
  const std::string& lost_because() const { return lost_because_; }   // the last of them; empty: none was
  static std::string why_lost(int error);   // an errno, in words for people

 private:
  void rotate();
  std::string write(const std::string& line);   // empty, or why the line is lost

  const std::string path_;
  const uint64_t bytes_max_;
  int fd_ = -1;
  uint64_t failed_writes_ = 0;
  std::string lost_because_;
  bool torn_ = false;   // the file ends within a line
};

}  // namespace starling
