#include "agent/local/metrics_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "agent/observe/event_json.h"

namespace starling {
namespace {

// An agent that has not measured its accuracy or distance yet may write a negative number.
std::optional<double> measured(const std::optional<double>& value) {
  return value && *value >= 0 ? value : std::nullopt;
}

// Takes one event into a track.
class Applier {
 public:
  Applier(AgentTrack& track, double wall_s) : track_(track), wall_s_(wall_s) {}

  void operator()(const Started& event) { track_.peer = event.peer; }

  void operator()(const DataLoaded& event) {
    track_.labels = event.labels;
    std::sort(track_.labels.begin(), track_.labels.end());
  }

  void operator()(const Joined& event) {
    track_.joined_wall_s = wall_s_;
    track_.joined_how = event.how;
    track_.phase.clear();  // "joining" is over; the next status names the new phase
    track_.note = event.how == "genesis"   ? "drew the first params"
                  : event.how == "fetched" ? "received the model"
                  : event.how == "resumed" ? "resumed at step " + std::to_string(event.steps)
                                           : event.how;
  }

  void operator()(const ModelFetched&) {}

  void operator()(const ExchangeEnded& event) {
    ExchangesWith one{event.peer};
    if (event.outcome == "done") one.done = 1;
    if (event.outcome == "late") one.late = 1;
    if (event.outcome == "failed") one.failed = 1;
    count(one);
  }

  void operator()(const ExchangesSummed& event) {
    for (const ExchangesWith& some : event.with) count(some);
  }

  void operator()(const AgentStatus& event) {
    const std::optional<double> accuracy = measured(event.accuracy);
    // A status repeats the last evaluation: only another value is a point.
    if (accuracy != track_.accuracy) take(accuracy, track_.accuracy, track_.accuracies);
    apply_totals(event);
  }

  void operator()(const Evaluated& event) { take(measured(event.accuracy), track_.accuracy, track_.accuracies); }
  void operator()(const MemberChanged&) {}
  void operator()(const BecameSick& event) { track_.note = "sick: " + event.reason; }

  void operator()(const CheckpointSaved& event) {
    if (!event.error.empty()) track_.note = "checkpoint: " + event.error;
  }

  void operator()(const Finished& event) {
    take(measured(event.accuracy), track_.accuracy, track_.accuracies);
    apply_totals(event);
    track_.finish_reason = event.reason.empty() ? "unnamed" : event.reason;
    track_.settled = event.settled;
    if (!event.settled.value_or(true)) track_.note = "its model and another's do not agree";
  }

 private:
  void count(const ExchangesWith& some) {
    for (ExchangeCounts* counts : {&track_.partners[some.peer], &track_.exchanges}) {
      counts->done += some.done;
      counts->late += some.late;
      counts->failed += some.failed;
    }
  }

  void take(const std::optional<double>& value, std::optional<double>& last, std::vector<MetricsPoint>& points) {
    if (!value) return;
    last = value;
    points.push_back({wall_s_, track_.steps, *value});
  }

  // The totals replace what was counted from single lines.
  void apply_totals(const AgentStatus& status) {
    track_.status = status;
    if (!status.phase.empty()) track_.phase = status.phase;
    const bool trains = track_.phase != "settling" && track_.phase != "finished";
    if (trains || track_.pairs.steps == 0) track_.pairs = {"", status.pairs, status.steps_taken, status.drift};
    if (status.exchanges.left_out > track_.exchanges.left_out) {
      track_.note = "left out as far away: " + status.left_out_last;
    }
    track_.exchanges = status.exchanges;
    track_.bytes_sent = status.bytes_sent;
    track_.bytes_received = status.bytes_received;
    track_.sent.push_back({wall_s_, track_.steps, static_cast<double>(track_.bytes_sent)});
    take(status.loss, track_.loss, track_.losses);
    take(measured(status.distance), track_.distance, track_.distances);
    take(measured(status.swarm_distance), track_.swarm_distance, track_.swarm_distances);
    take(measured(status.spread), track_.spread, track_.spreads);
  }

  AgentTrack& track_;
  double wall_s_;
};

}  // namespace

bool apply_metrics_line(AgentTrack& track, std::string_view text) {
  AgentStatus known = track.status;
  known.steps = track.steps;
  known.exchanges = track.exchanges;
  known.loss = known.accuracy = known.distance = known.swarm_distance = known.spread = std::nullopt;
  const std::optional<EventLine> line = parse_event(text, known);
  if (!line) return false;
  if (!line->event) return true;
  std::visit(
      [&](const auto& event) {
        if constexpr (requires { event.phase; }) {
          if (event.phase != "joining") track.steps = event.steps;  // no model yet: after a restart, not 0 steps
        } else if constexpr (requires { event.steps; }) {
          track.steps = event.steps;
        }
        Applier(track, line->t_s)(event);
      },
      *line->event);
  return true;
}

MetricsFollower::~MetricsFollower() {
  if (fd_ >= 0) close(fd_);
}

void MetricsFollower::poll(AgentTrack& track) {
  if (fd_ < 0) fd_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) return;
  char buffer[64 * 1024];
  for (ssize_t got; (got = read(fd_, buffer, sizeof buffer)) > 0;) {
    partial_.append(buffer, static_cast<size_t>(got));
    size_t begin = 0;
    for (size_t end; (end = partial_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const std::string_view line(partial_.data() + begin, end - begin);
      if (!apply_metrics_line(track, line)) ++odd_lines_;
    }
    partial_.erase(0, begin);
  }
}

}  // namespace starling
