#include "agent/report/closing_table.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "agent/report/format.h"

namespace starling {
namespace {

constexpr size_t kLabelsMax = 5;  // that a cell names one by one

std::string print_relative(const std::optional<double>& distance) {
  return distance ? fmt::format("{:.2g}", *distance) : "-";
}

uint64_t completed_as_told(const AgentReport& agent, const AgentReport& other) {
  const auto at = agent.partners.find(other.peer);
  return at == agent.partners.end() || other.peer.empty() ? 0 : at->second.completed();
}

// One word; times and reasons stand in the summary.
std::string note_of(const AgentReport& agent) {
  std::string note = agent.newcomer && !agent.peer.empty() ? "joined" : "";
  const auto add = [&](const char* word) { note += (note.empty() ? "" : ", ") + std::string(word); };
  if (agent.killed_at_s) add("killed");
  if (agent.state == "failed") add("failed");
  if (agent.state == "finished" && !agent.settled.value_or(true)) add("differs");
  return note;
}

}  // namespace

std::string describe_data(const AgentReport& agent) {
  if (agent.classes.empty()) return fmt::format("shard {}", agent.shard + 1);
  const std::string labels = print_labels(agent.classes);
  const bool few = agent.classes.size() <= kLabelsMax || labels.find('-') != std::string::npos;
  return few ? "labels " + labels : fmt::format("{} labels", agent.classes.size());
}

std::optional<double> alone_of(const SwarmReport& report, const AgentReport& agent) {
  if (agent.newcomer || agent.shard >= report.alone.size()) return std::nullopt;
  return report.alone[agent.shard];
}

uint64_t completed_between(const SwarmReport& report, size_t a, size_t b) {
  if (a == b) return 0;
  const AgentReport &one = report.agents[a], &other = report.agents[b];
  return std::max(completed_as_told(one, other), completed_as_told(other, one));
}

uint64_t completed_of(const SwarmReport& report, size_t agent) {
  uint64_t sum = 0;
  for (size_t other = 0; other < report.agents.size(); ++other) sum += completed_between(report, agent, other);
  const uint64_t told = report.agents[agent].exchanges.completed();
  return pairs_of(report).empty() ? told : std::max(told, sum);
}

std::optional<double> sent_a_step(const AgentReport& agent) {
  if (agent.steps == 0) return std::nullopt;
  return std::round(static_cast<double>(agent.bytes_sent) / static_cast<double>(agent.steps));
}

FactTable agent_facts(const SwarmReport& report) {
  FactTable table;
  for (const AgentReport& agent : report.agents) table.agents.push_back(agent.name);
  const auto add = [&](const char* name, const auto& value) {
    std::vector<std::string> values;
    for (const AgentReport& agent : report.agents) values.push_back(value(agent));
    table.add(name, std::move(values));
  };
  add("local steps", [](const AgentReport& agent) { return std::to_string(agent.steps); });
  add("exchanges with parts too late", [](const AgentReport& agent) { return std::to_string(agent.exchanges.late); });
  add("models left out as too far", [](const AgentReport& agent) { return std::to_string(agent.exchanges.left_out); });
  add("proposals from non-members refused",
      [](const AgentReport& agent) { return std::to_string(agent.proposals_refused); });
  add("received", [](const AgentReport& agent) { return print_bytes(agent.bytes_received); });
  add("sent per local step", [](const AgentReport& agent) { return print_bytes(sent_a_step(agent)); });
  add("sent per round", [](const AgentReport& agent) { return print_bytes(agent.sent_a_round); });
  add("sent in the last round", [](const AgentReport& agent) { return print_bytes(agent.sent_last_round); });
  add("distance to the mean model", [](const AgentReport& agent) { return print_relative(agent.swarm_distance); });
  add("distance to the farthest model", [](const AgentReport& agent) { return print_relative(agent.spread); });
  return table;
}

std::vector<PairReport> pairs_of(const SwarmReport& report) {
  std::vector<PairReport> pairs;
  for (const AgentReport& agent : report.agents) {
    if (agent.pairs) pairs.push_back(*agent.pairs);
  }
  return pairs;
}

std::string print_closing_table(const SwarmReport& report) {
  std::vector<std::vector<std::string>> rows = {
      {"agent", "data", "accuracy", "alone", "central", "done", "failed", "sent"}};
  for (size_t i = 0; i < report.agents.size(); ++i) {
    const AgentReport& agent = report.agents[i];
    rows.push_back({agent.name, describe_data(agent), print_percent(agent.accuracy),
                    print_percent(alone_of(report, agent)), print_percent(report.central),
                    std::to_string(completed_of(report, i)), std::to_string(agent.exchanges.failed),
                    print_bytes(agent.bytes_sent), note_of(agent)});
  }
  const std::string text = print_columns(rows, 2), over = "exchanges", last = "failed";
  const size_t end = text.find(last) + last.size();  // above "done  failed"
  return std::string(end - over.size(), ' ') + over + "\n" + text;
}

std::string print_details(const SwarmReport& report) {
  const std::string pairs = print_facts("pair exchanges", pair_facts(pairs_of(report)));
  return print_facts("each agent", agent_facts(report)) + (pairs.empty() ? "" : "\n") + pairs;
}

}  // namespace starling
