// The file metrics.jsonl: a JSON line an event. README.md here says what the lines hold.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "agent/observe/events.h"
#include "agent/report/queued_writer.h"

namespace starling {

inline constexpr uint64_t kMetricsBytesMax = 1ull << 30;  // two files: days of a line an exchange, a year of sums

class MetricsFile final : public Observer {
 public:
  // Appends to `path`, a regular file (made with mode 0600); an empty path writes nothing. Throws std::runtime_error
  // for anything else: a symbolic link is not followed, and a FIFO not waited for.
  // A file of `bytes_max` becomes PATH.1, in the place of the one before, and a new one is begun.
  explicit MetricsFile(const std::string& path, uint64_t bytes_max = kMetricsBytesMax);

  // Never waits for the disk. One write per line, so a reader that follows the file never sees half a line of a living
  // agent.
  void on(const Event& event) override;
  void flush(std::chrono::milliseconds limit) const;                                   // until all is written, or lost
  uint64_t failed_writes() const { return writer_ ? writer_->lost() : 0; }             // lines that were lost
  std::string lost_because() const { return writer_ ? writer_->lost_because() : ""; }  // the last of them
  static std::string why_lost(int error);                                              // an errno, in words for people

 private:
  std::unique_ptr<QueuedWriter> writer_;  // null: writes nothing
};

}  // namespace starling
