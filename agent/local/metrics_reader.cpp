#include "agent/local/metrics_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace starling {
namespace {

using Json = nlohmann::json;

std::optional<double> find_number(const Json& line, const char* key) {
  const auto at = line.find(key);
  if (at == line.end() || !at->is_number()) return std::nullopt;
  const double value = at->get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

uint64_t find_count(const Json& line, const char* key, uint64_t fallback) {
  const auto at = line.find(key);
  return at != line.end() && at->is_number_unsigned() ? at->get<uint64_t>() : fallback;
}

std::string find_text(const Json& line, const char* key) {
  const auto at = line.find(key);
  return at != line.end() && at->is_string() ? at->get<std::string>() : std::string();
}

// An agent that has not measured accuracy or distance yet says a negative number.
std::optional<double> find_measured(const Json& line, const char* key) {
  const std::optional<double> value = find_number(line, key);
  return value && *value >= 0 ? value : std::nullopt;
}

void take_value(const std::optional<double>& value, double wall_s, uint64_t steps, std::optional<double>& last,
                std::vector<MetricsPoint>& points) {
  if (!value) return;
  last = value;
  points.push_back({wall_s, steps, *value});
}

void apply_labels(AgentTrack& track, const Json& line) {
  const auto labels = line.find("labels");
  if (labels == line.end() || !labels->is_array()) return;
  track.labels.clear();
  for (const Json& label : *labels) {
    if (label.is_number_integer()) track.labels.push_back(label.get<int64_t>());
  }
  std::sort(track.labels.begin(), track.labels.end());
}

void apply_exchange(AgentTrack& track, const Json& line) {
  ExchangeCounts& partner = track.partners[find_text(line, "peer")];
  const std::string outcome = find_text(line, "outcome");
  if (outcome == "done") ++partner.done, ++track.exchanges.done;
  if (outcome == "late") ++partner.late, ++track.exchanges.late;
  if (outcome == "failed") ++partner.failed, ++track.exchanges.failed;
}

// Of `status` and `finish`: the totals, which win over what was counted from single lines.
void apply_totals(AgentTrack& track, const Json& line, double wall_s) {
  const auto exchanges = line.find("exchanges");
  if (exchanges != line.end() && exchanges->is_object()) {
    track.exchanges.done = find_count(*exchanges, "done", track.exchanges.done);
    track.exchanges.late = find_count(*exchanges, "late", track.exchanges.late);
    track.exchanges.failed = find_count(*exchanges, "failed", track.exchanges.failed);
  }
  track.bytes_sent = find_count(line, "bytes_sent", track.bytes_sent);
  track.bytes_received = find_count(line, "bytes_received", track.bytes_received);
  track.sent.push_back({wall_s, track.steps, static_cast<double>(track.bytes_sent)});
  take_value(find_number(line, "loss"), wall_s, track.steps, track.loss, track.losses);
  take_value(find_measured(line, "distance"), wall_s, track.steps, track.distance, track.distances);
}

std::string describe_joined(const Json& line, const std::string& how) {
  if (how == "genesis") return "drew the first params";
  if (how == "fetched") return "received the model";
  if (how == "resumed") return "resumed at step " + std::to_string(find_count(line, "steps", 0));
  return how;
}

}  // namespace

bool apply_metrics_line(AgentTrack& track, std::string_view text) {
  const Json line = Json::parse(text, nullptr, false);
  if (!line.is_object()) return false;
  const std::string event = find_text(line, "event");
  const std::optional<double> wall_s = find_number(line, "t");
  if (event.empty() || !wall_s) return false;
  track.steps = find_count(line, "steps", track.steps);
  if (event == "start") track.peer = find_text(line, "peer");
  if (event == "start" || event == "data") apply_labels(track, line);
  if (event == "exchange") apply_exchange(track, line);
  if (event == "joined") {
    track.joined_wall_s = wall_s;
    track.joined_how = find_text(line, "how");
    track.note = describe_joined(line, track.joined_how);
  }
  if (event == "status") {
    const std::string phase = find_text(line, "phase");
    if (!phase.empty()) track.phase = phase;
    const std::optional<double> accuracy = find_measured(line, "accuracy");
    if (accuracy != track.accuracy) {  // status repeats the last evaluation: only a new value is a point
      take_value(accuracy, *wall_s, track.steps, track.accuracy, track.accuracies);
    }
    apply_totals(track, line, *wall_s);
  }
  if (event == "evaluate" || event == "finish") {
    take_value(find_measured(line, "accuracy"), *wall_s, track.steps, track.accuracy, track.accuracies);
  }
  if (event == "finish") {
    apply_totals(track, line, *wall_s);
    track.finish_reason = find_text(line, "reason");
    if (track.finish_reason.empty()) track.finish_reason = "unnamed";
  }
  if (event == "sick") track.note = "sick: " + find_text(line, "reason");
  if (event == "checkpoint" && line.contains("error")) track.note = "checkpoint: " + find_text(line, "error");
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
