// Lines at the end of a terminal's text that renew themselves in place.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "agent/report/queued_writer.h"

namespace starling {

// Blanks for control characters: text of a log, a file or a peer may hold any, and a row has to stay one line.
std::string plain(std::string text);
// Columns that UTF-8 text takes, one a code point.
size_t columns_of(const std::string& text);
// The first `columns` of it; 0 = all.
std::string cut(const std::string& text, size_t columns);

// All of it goes through a QueuedWriter: a reader that stands still keeps nobody waiting. When it is back, the next
// text begins with a line that says how many were dropped.
class Redrawn {
 public:
  // `out`: stdout or stderr. A file, a pipe and a terminal that calls itself dumb are no terminals.
  explicit Redrawn(std::FILE* out);

  bool terminal() const { return terminal_; }
  size_t columns() const;  // of the terminal now; 80 where it does not know

  // Prints `text`, whole lines that stay, in place of the drawn lines, and `lines` below it. On a terminal those renew
  // themselves: they are cut to its width, and their number to its height. Elsewhere they are left out. The cursor
  // stands on a fresh line below, so that what another writes there, and an end of any kind, leave them as they are.
  // A job in the background draws none: what stands there is the shell's.
  void print(std::string text, std::vector<std::string> lines = {});
  void draw(std::vector<std::string> lines) { print("", std::move(lines)); }  // left out where much waits
  void keep() { widths_.clear(); }                                            // leaves them as they stand
  void flush(std::chrono::milliseconds limit) const { (void)writer_.flush(limit); }

 private:
  std::string erasure() const;

  std::FILE* const out_;
  const bool terminal_;
  QueuedWriter writer_;
  uint64_t lost_said_ = 0;
  std::vector<size_t> widths_;  // of the lines that are drawn
};

}  // namespace starling
