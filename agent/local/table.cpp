#include "agent/local/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "agent/report/format.h"

namespace starling {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTableInterval(250);
constexpr milliseconds kCompactInterval(2000);

std::string state_word(const SwarmMember& member) {
  if (!member.running()) return to_string(member.state());
  if (member.paused()) return "paused";
  if (member.track().peer.empty()) return "starting";
  if (!member.joined()) return "joining";
  return member.track().phase.empty() ? "joined" : member.track().phase;
}

std::string print_loss(const std::optional<double>& loss) { return loss ? fmt::format("{:.3f}", *loss) : "-"; }

std::string print_distance(const std::optional<double>& distance) {
  return distance ? fmt::format("{:.2g}", *distance) : "-";
}

// "  spread 0.012", the largest that a running member tells of; empty where none is known.
std::string print_largest_spread(const SwarmMembers& members) {
  std::optional<double> largest;
  for (const auto& member : members) {
    if (member->running()) largest = std::max(largest, member->track().spread);
  }
  return largest ? fmt::format("  spread {:.2g}", *largest) : "";
}

std::string print_counts(const ExchangeCounts& counts) {
  return fmt::format("{}/{}/{}", counts.done, counts.late, counts.failed);
}

// Without control characters: text of a log or a metrics file may hold any, and a row has to stay one line.
std::string plain(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

size_t terminal_columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

std::string cut(std::string line, size_t columns) {
  if (columns > 0 && line.size() > columns) line.resize(columns);
  return line;
}

}  // namespace

std::vector<std::string> render_table(const SwarmMembers& members, size_t columns) {
  constexpr const char* kRow = "{:<8} {:<8} {:<7} {:>5} {:>5} {:>7} {:>7} {:>7} {:>9} {:>8}  {}";   // 80, then a note
  std::vector<std::string> lines;
  lines.push_back(cut(fmt::format(kRow, "agent", "state", "labels", "step", "loss", "correct", "to mean", "spread",
                                  "exchanges", "a round", "note"), columns));
  for (const auto& member : members) {
    const AgentTrack& track = member->track();
    const std::string& note = member->failure().empty() ? track.note : member->failure();
    const std::string line =
        fmt::format(kRow, member->name(), state_word(*member), print_labels(track.labels), track.steps,
                    print_loss(track.loss), print_percent(track.accuracy), print_distance(track.swarm_distance),
                    print_distance(track.spread), print_counts(track.exchanges),
                    print_bytes(track.status.sent_last_round), note);
    lines.push_back(cut(plain(line), columns));
  }
  return lines;
}

std::string render_compact(const SwarmMembers& members, double elapsed_s) {
  std::string line = fmt::format("{:4.0f} s{}", elapsed_s, print_largest_spread(members));
  for (const auto& member : members) {
    line += fmt::format("  {} {} {} {}", member->name(), state_word(*member), member->track().steps,
                        print_percent(member->track().accuracy));
  }
  return plain(line);
}

LiveTable::LiveTable(Clock& clock)
    : clock_(clock), origin_(clock.now()), next_(origin_), terminal_(isatty(STDOUT_FILENO) == 1) {}

void LiveTable::update(const SwarmMembers& members, bool force) {
  if (!force && clock_.now() < next_) return;
  next_ = clock_.now() + (terminal_ ? kTableInterval : kCompactInterval);
  if (!terminal_) {
    std::printf("%s\n", render_compact(members, seconds(clock_.now() - origin_)).c_str());
    std::fflush(stdout);
    return;
  }
  erase();
  const std::vector<std::string> lines = render_table(members, terminal_columns());
  for (const std::string& line : lines) std::printf("%s\n", line.c_str());
  drawn_lines_ = lines.size();
  std::fflush(stdout);
}

void LiveTable::event(const std::string& line) {
  erase();
  std::printf("%s\n", plain(line).c_str());
  std::fflush(stdout);
  if (terminal_) next_ = clock_.now();
}

void LiveTable::finish() { drawn_lines_ = 0; }

void LiveTable::erase() {
  if (drawn_lines_ == 0) return;
  std::printf("\x1b[%zuA\r\x1b[J", drawn_lines_);  // up to the first line of the table, and clear from there
  drawn_lines_ = 0;
}

}  // namespace starling
