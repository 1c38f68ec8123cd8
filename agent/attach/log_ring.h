// Where a swarm's lines go in a foreign process: a bounded ring that the loop's thread empties. No thread of ours ever
// calls into an interpreter.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

namespace starling {

struct LogLine {
  int level = 0;  // 0 debug | 1 info | 2 warning | 3 error
  std::string text;
};

class LogRing {
 public:
  LogRing();  // from then on nothing of ours is printed in this process
  void push(LogLine line);
  bool pop(LogLine* line);  // the oldest; false: there is none

 private:
  static constexpr size_t kLines = 1000;
  std::mutex mutex_;
  std::deque<LogLine> lines_;
  uint64_t lost_ = 0;  // pushed out since the last pop
};

// What the calling thread logs goes to `ring` from now on; null: nowhere. So lines of two swarms never mix.
void log_this_thread_to(LogRing* ring);

class LogScope {
 public:
  explicit LogScope(LogRing* ring) { log_this_thread_to(ring); }
  ~LogScope() { log_this_thread_to(nullptr); }
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;
};

}  // namespace starling
