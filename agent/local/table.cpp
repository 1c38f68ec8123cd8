#include "agent/local/table.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "agent/report/format.h"

namespace starling {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTableInterval(250);
constexpr milliseconds kCompactInterval(2000);
constexpr milliseconds kLastWait(2000);
constexpr const char* kRow = "{:<8} {:<8} {:<8} {:>6} {:>6} {:>8} {:>9} {:>6} {:>8}";  // 75, then a note
constexpr size_t kNoteMin = 20;  // columns: a note of some letters would say nothing
constexpr const char* kDetails = " {:>6} {:>8} {:>8} {:>10}";

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

// "  spread 0.012", the largest of any running member; empty where none is known.
std::string print_largest_spread(const SwarmMembers& members) {
  std::optional<double> largest;
  for (const auto& member : members) {
    if (member->running()) largest = std::max(largest, member->track().spread);
  }
  return largest ? fmt::format("  spread {:.2g}", *largest) : "";
}

}  // namespace

std::vector<std::string> render_table(const SwarmMembers& members, size_t columns, bool details) {
  std::vector<std::string> lines;
  const auto add = [&](const auto&... cells) { lines.push_back(fmt::format(kRow, cells...)); };
  const auto add_details = [&](const auto&... cells) {
    if (details) lines.back() += fmt::format(kDetails, cells...);
  };
  add("agent", "state", "data", "step", "loss", "accuracy", "exchanges", "failed", "sent");
  add_details("late", "to mean", "spread", "last round");
  const bool notes = columns == 0 || lines.back().size() + kNoteMin <= columns;
  if (notes) lines.back() += "  note";
  for (const auto& member : members) {
    const AgentTrack& track = member->track();
    add(member->name(), state_word(*member), print_labels(track.labels), track.steps, print_loss(track.loss),
        print_percent(track.accuracy), track.exchanges.completed(), track.exchanges.failed,
        print_bytes(track.bytes_sent));
    add_details(track.exchanges.late, print_distance(track.swarm_distance), print_distance(track.spread),
                print_bytes(track.status.sent_last_round));
    const std::string& note = member->failure().empty() ? track.note : member->failure();
    if (notes && !note.empty()) lines.back() += "  " + note;
  }
  for (std::string& line : lines) line = cut(plain(line), columns);
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

LiveTable::LiveTable(Clock& clock, bool details)
    : clock_(clock), origin_(clock.now()), next_(origin_), details_(details) {}

void LiveTable::update(const SwarmMembers& members, bool force) {
  if (!force && clock_.now() < next_) return;
  next_ = clock_.now() + (drawn_.terminal() ? kTableInterval : kCompactInterval);
  if (!drawn_.terminal()) {
    drawn_.print(render_compact(members, seconds(clock_.now() - origin_)) + "\n");
    return;
  }
  drawn_.draw(render_table(members, drawn_.columns(), details_));
}

void LiveTable::event(const std::string& line) {
  drawn_.print(plain(line) + "\n");
  if (drawn_.terminal()) next_ = clock_.now();
}

void LiveTable::finish() {
  drawn_.keep();
  drawn_.flush(kLastWait);
}

}  // namespace starling
