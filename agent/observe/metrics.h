// The file metrics.jsonl: a JSON line an event. README.md here says what the lines hold.
#pragma once

#include <cstdint>
#include <string>

#include "agent/observe/events.h"

namespace starling {

class MetricsFile final : public Observer {
 public:
  // Appends to `path`, a regular file (made with mode 0600); an empty path writes nothing. Throws std::runtime_error
  // for anything else: a symbolic link is not followed, and a FIFO not waited for.
  explicit MetricsFile(const std::string& path);
  ~MetricsFile() override;
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // One write per line, so a reader that follows the file never sees half a line of a living agent.
  void on(const Event& event) override;
  uint64_t failed_writes() const { return failed_writes_; }   // lines that a full disk or a removed file lost

 private:
  int fd_ = -1;
  uint64_t failed_writes_ = 0;
  bool torn_ = false;   // the file ends within a line
};

}  // namespace starling
