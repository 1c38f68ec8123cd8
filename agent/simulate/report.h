// The outcome of a simulation in files: curve.csv, summary.json, and report.html, which is self-contained. And
// config.yaml, with which it can be repeated.
#pragma once

#include <string>
#include <vector>

#include "agent/simulate/run.h"

namespace starling {

struct SimulationReport {
  std::string title;    // of the page
  std::string command;  // agents, links and speeds, for people
  std::string config;   // the whole of it, with the command line
  size_t agents = 0;
  uint64_t steps = 0;  // asked for; 0: without end
  SwarmOutcome swarm;
  std::vector<CurvePoint> baselines;
};

inline constexpr const char* kCurveHeader = "series,agent,virtual_s,step,samples,bytes,loss,accuracy,distance";

std::string print_curve_csv(const SimulationReport& report);
std::string print_simulation_json(const SimulationReport& report);
std::string print_simulation_html(const SimulationReport& report);
// One line for a series, as it ended.
std::string print_simulation_table(const SimulationReport& report);
// How the pair exchanges of each agent went (--details); empty where none were made.
std::string print_simulation_details(const SimulationReport& report);
// "blocks due 12,000: 95.1 % counted, 3.0 % late, 1.9 % missing"
std::string print_blocks_line(const BlockTally& blocks);

// Throws std::runtime_error (a full disk).
void write_simulation(const std::string& dir, const SimulationReport& report);

}  // namespace starling
