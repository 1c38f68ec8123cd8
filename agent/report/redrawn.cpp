#include "agent/report/redrawn.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace starling {
namespace {

constexpr size_t kWaitingMax = 8;  // texts, beyond which lines that renew themselves can wait

winsize size_of(std::FILE* out) {
  winsize size{};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) != 0) size = {};
  if (size.ws_col == 0) size.ws_col = 80;
  if (size.ws_row == 0) size.ws_row = 24;
  return size;
}

bool begins_code_point(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

bool moves_its_cursor(std::FILE* out) {
  const char* kind = std::getenv("TERM");
  return isatty(fileno(out)) == 1 && kind != nullptr && *kind != '\0' && std::string_view(kind) != "dumb";
}

// False where the terminal is not that of this process's session, which has no jobs.
bool in_background(std::FILE* out) {
  const pid_t front = tcgetpgrp(fileno(out));
  return front > 0 && front != getpgrp();
}

}  // namespace

std::string plain(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

size_t columns_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), begins_code_point));
}

std::string cut(const std::string& text, size_t columns) {
  if (columns == 0) return text;
  size_t seen = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (begins_code_point(text[i]) && seen++ == columns) return text.substr(0, i);
  }
  return text;
}

Redrawn::Redrawn(std::FILE* out) : out_(out), terminal_(moves_its_cursor(out)), writer_(to_descriptor(fileno(out))) {}

size_t Redrawn::columns() const { return size_of(out_).ws_col; }

void Redrawn::print(std::string text, std::vector<std::string> lines) {
  if (text.empty() && writer_.waiting() > kWaitingMax) return;
  const bool draws = terminal_ && !in_background(out_);
  if (!draws) keep();
  const uint64_t lost = writer_.lost();
  if (lost > lost_said_) {
    text = fmt::format("... {} lines are missing so far: their reader stood still, or they could not be written ({})\n",
                       lost, writer_.lost_because()) +
           text;
  }
  std::vector<size_t> widths;
  text = erasure() + text;  // in one write with the lines, so that nothing flickers
  if (draws) {
    const winsize size = size_of(out_);
    const size_t rows = std::max<size_t>(2, size.ws_row) - 1;  // the last one is the cursor's
    if (lines.size() > rows) {
      const size_t hidden = lines.size() - rows + 1;
      lines.resize(rows);
      lines.back() = "... and " + std::to_string(hidden) + " more lines: this terminal is not high enough";
    }
    for (const std::string& line : lines) {
      const std::string shown = cut(line, size.ws_col);
      widths.push_back(columns_of(shown));
      text += shown + "\n";
    }
  }
  if (text.empty() || !writer_.push(std::move(text))) return;  // what is drawn stays then
  lost_said_ = lost;
  widths_ = std::move(widths);
}

// A terminal that became narrower shows a drawn line in several rows.
std::string Redrawn::erasure() const {
  if (widths_.empty()) return "";
  const size_t width = size_of(out_).ws_col;
  size_t rows = 0;
  for (const size_t drawn : widths_) rows += std::max<size_t>(1, (drawn + width - 1) / width);
  return "\x1b[" + std::to_string(rows) + "A\r\x1b[J";  // up to the first of them, and clear from there
}

}  // namespace starling
