// Reads what agents write to metrics.jsonl (agent/observe/README.md says what its lines hold), while they write it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/observe/events.h"
#include "agent/report/pair_report.h"

namespace starling {

struct MetricsPoint {
  double wall_s = 0;  // seconds since 1970
  uint64_t steps = 0;
  double value = 0;
};

// What is known of one agent from its lines so far.
struct AgentTrack {
  std::string peer;  // hex id; empty until it has started
  std::vector<int64_t> labels;
  std::optional<double> joined_wall_s;
  std::string joined_how;  // genesis | fetched | resumed | alone
  std::string phase;       // as the agent names it
  uint64_t steps = 0;
  std::optional<double> loss, accuracy, distance, swarm_distance, spread;
  ExchangeCounts exchanges;
  uint64_t bytes_sent = 0, bytes_received = 0;
  AgentStatus status;           // of the last status or finish line
  PairReport pairs;             // of the last one before it settled
  std::string note;             // the last notable event: how it joined, a sickness, a failed checkpoint
  std::string finish_reason;    // empty until `finish`
  std::optional<bool> settled;  // as the agent's last `finish` says
  std::vector<MetricsPoint> accuracies, losses, distances, swarm_distances, spreads, sent;
  std::map<std::string, ExchangeCounts> partners;  // by hex id
};

// Takes one line in. False for a line that is no event (and then nothing has changed); fields of a wrong type count as
// missing, and unknown events change nothing.
bool apply_metrics_line(AgentTrack& track, std::string_view line);

// Follows a growing file: each poll takes in the whole lines that have been added. A line without an end waits for the
// rest of it; a file that is not there yet is empty.
class MetricsFollower {
 public:
  explicit MetricsFollower(std::string path) : path_(std::move(path)) {}
  ~MetricsFollower();
  MetricsFollower(const MetricsFollower&) = delete;
  MetricsFollower& operator=(const MetricsFollower&) = delete;

  void poll(AgentTrack& track);
  uint64_t odd_lines() const { return odd_lines_; }  // whole lines that are no event

 private:
  std::string path_;
  int fd_ = -1;
  std::string partial_;
  uint64_t odd_lines_ = 0;
};

}  // namespace starling
