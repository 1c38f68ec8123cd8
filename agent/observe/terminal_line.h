// The program's log on stderr, and one line below all others of a terminal: what is logged goes above it. A reader that
// stands still stops neither (report/queued_writer.h).
#pragma once

#include <memory>
#include <string>

namespace starling {

// From now on the default logger writes to stderr, without ever waiting for its reader. Its flush() waits 300 ms.
void log_to_stderr();

// One text for stderr, beside the log, as main() ends with: newlines and all. REQUIRES: log_to_stderr().
void print_to_stderr(const std::string& text);

// The line below the log; without log_to_stderr() there is none.
class TerminalLine {
 public:
  TerminalLine();
  ~TerminalLine();  // the line stays as it stands
  TerminalLine(const TerminalLine&) = delete;
  TerminalLine& operator=(const TerminalLine&) = delete;

  bool terminal() const;               // false: there is none, and nothing may be shown
  void show(const std::string& text);  // in place of the last one
  void keep();                         // the line stays as it stands, and what is shown next goes below it

 private:
  class Sink;
  friend void log_to_stderr();
  friend void print_to_stderr(const std::string& text);
  static std::shared_ptr<Sink> sink_of_log();
  std::shared_ptr<Sink> sink_;  // null: none
};

}  // namespace starling
