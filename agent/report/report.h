// The outcome of a local swarm's run: report.json for programs, report.html (one self-contained file) for people.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/report/exchange_counts.h"
#include "agent/report/log_report.h"
#include "agent/report/pair_report.h"

namespace starling {

struct ReportPoint {
  double t_s = 0;  // since all first agents had joined; below 0 before that
  uint64_t steps = 0;
  double value = 0;
};

struct AgentReport {
  std::string name;
  std::string peer;              // hex id; empty if it never started
  std::vector<int64_t> classes;  // labels in its data
  std::string state;             // finished | killed | failed
  uint32_t shard = 0;
  bool newcomer = false;  // joined a swarm that was already training
  double joined_at_s = 0;
  std::optional<double> killed_at_s;
  std::optional<double> accuracy;  // of 1, on all classes; the last one measured
  // As it told last: from its model to the mean of all, and to the farthest other, in rms over its own rms.
  std::optional<double> swarm_distance, spread;
  uint64_t steps = 0;
  ExchangeCounts exchanges;
  std::string left_out_last;       // of exchanges.left_out: the peer of that model
  std::optional<bool> settled;     // it ended with the others' model; nullopt: not asked, or nobody
  uint64_t proposals_refused = 0;  // to exchange: of those that are no member, or take no part
  uint64_t bytes_sent = 0, bytes_received = 0;
  std::optional<double> sent_a_round, sent_last_round;  // bytes: the mean of its rounds, and the last one's
  std::string failure;                                  // why it failed
  std::vector<ReportPoint> accuracies, losses, distances, swarm_distances, spreads, sent;
  std::map<std::string, ExchangeCounts> partners;  // by hex id, as this agent counted
  std::optional<LogReport> log;                    // of a swarm that shares updates
  std::optional<PairReport> pairs;                 // of an agent that took part in pair exchanges
};

struct SwarmReport {
  std::string title;                         // of the swarm: its name in the settings
  std::string made_at;                       // local date and time, for people
  std::string remark;                        // what the reader must know: other data than asked for, interrupted
  double seconds = 0;                        // that the swarm ran, baselines not counted
  std::vector<AgentReport> agents;           // in the order they were started
  std::vector<std::optional<double>> alone;  // accuracy of each shard trained alone; empty if not run
  std::optional<double> central;             // accuracy of one process with all the data
  std::optional<double> distance;            // rms distance between living agents' params
};

// The object that other programs read: {"seconds","agents":[..],"alone":[..],"central","distance"}; null = not known.
std::string print_report_json(const SwarmReport& report);

// The page: style, script and data in one text; no address of anything outside.
std::string print_report_html(const SwarmReport& report);

// What happened, in a few sentences of plain text.
std::string summarize(const SwarmReport& report);

// The closing table of the command: a line for each agent, beside the same shard alone and all the data in one process.
std::string print_closing_table(const SwarmReport& report);

// What the closing table leaves out (--details): more numbers of each agent, and how its pair exchanges went.
std::string print_details(const SwarmReport& report);

// Writes dir/report.json and dir/report.html, each whole or not at all. Throws std::runtime_error (a full disk).
void write_report(const std::string& dir, const SwarmReport& report);

}  // namespace starling
