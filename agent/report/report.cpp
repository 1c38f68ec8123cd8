#include "agent/report/report.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "agent/report/closing_table.h"
#include "agent/report/facts.h"
#include "agent/report/fill_page.h"
#include "agent/report/format.h"
#include "agent/report/report_page.h"

namespace starling {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kPointsMax = 600;  // in one curve of the page: more than it has pixels for

Json optional_number(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json agent_json(const AgentReport& agent) {
  return {{"name", agent.name},
          {"peer", agent.peer},
          {"classes", agent.classes},
          {"state", agent.state},
          {"joined_at_s", agent.joined_at_s},
          {"accuracy", optional_number(agent.accuracy)},
          {"steps", agent.steps},
          {"exchanges",
           {{"done", agent.exchanges.done},
            {"late", agent.exchanges.late},
            {"failed", agent.exchanges.failed},
            {"left_out", agent.exchanges.left_out}}},
          {"settled", agent.settled ? Json(*agent.settled) : Json(nullptr)},
          {"proposals_refused", agent.proposals_refused},
          {"bytes_sent", agent.bytes_sent},
          {"bytes_received", agent.bytes_received},
          {"bytes_sent_a_step", optional_number(sent_a_step(agent))},
          {"bytes_sent_a_round", optional_number(agent.sent_a_round)},
          {"bytes_sent_last_round", optional_number(agent.sent_last_round)},
          {"pairs", agent.pairs ? print_pairs(*agent.pairs) : Json(nullptr)},
          {"swarm_distance", optional_number(agent.swarm_distance)},
          {"spread", optional_number(agent.spread)}};
}

Json report_object(const SwarmReport& report) {
  Json agents = Json::array(), alone = Json::array();
  for (const AgentReport& agent : report.agents) agents.push_back(agent_json(agent));
  for (const auto& accuracy : report.alone) alone.push_back(optional_number(accuracy));
  return {{"seconds", report.seconds},
          {"agents", agents},
          {"alone", alone},
          {"central", optional_number(report.central)},
          {"distance", optional_number(report.distance)}};
}

// Every n-th point, the first and the last always.
Json curve_json(const std::vector<ReportPoint>& points) {
  Json curve = Json::array();
  const size_t stride = points.size() / kPointsMax + 1;
  for (size_t i = 0; i < points.size(); ++i) {
    if (i % stride != 0 && i + 1 != points.size()) continue;
    curve.push_back(Json::array({points[i].t_s, points[i].steps, points[i].value}));
  }
  return curve;
}

// What happened to an agent, at the one time that lines and marks of all charts share.
Json moments_json(const SwarmReport& report) {
  Json moments = Json::array();
  for (size_t i = 0; i < report.agents.size(); ++i) {
    const AgentReport& agent = report.agents[i];
    if (agent.newcomer && !agent.peer.empty()) {
      moments.push_back({{"t", agent.joined_at_s}, {"agent", i}, {"what", "joins"}});
    }
    if (agent.killed_at_s) moments.push_back({{"t", *agent.killed_at_s}, {"agent", i}, {"what", "killed"}});
  }
  return moments;
}

Json page_json(const SwarmReport& report) {
  Json object = report_object(report);
  object["title"] = report.title;
  object["made_at"] = report.made_at;
  object["remark"] = report.remark;
  object["summary"] = summarize(report);
  for (size_t i = 0; i < report.agents.size(); ++i) {
    const AgentReport& agent = report.agents[i];
    Json& target = object["agents"][i];
    target["shard"] = agent.shard;
    if (agent.log) target["log"] = print_log(*agent.log);
    target["newcomer"] = agent.newcomer;
    target["killed_at_s"] = optional_number(agent.killed_at_s);
    target["failure"] = agent.failure;
    target["curves"] = {
        {"accuracy", curve_json(agent.accuracies)}, {"loss", curve_json(agent.losses)},
        {"distance", curve_json(agent.distances)},  {"swarm_distance", curve_json(agent.swarm_distances)},
        {"spread", curve_json(agent.spreads)},      {"sent", curve_json(agent.sent)}};
    target["data"] = describe_data(agent);
    target["alone"] = optional_number(alone_of(report, agent));
    target["completed"] = completed_of(report, i);
    Json partners = Json::array();
    for (size_t k = 0; k < report.agents.size(); ++k) partners.push_back(completed_between(report, i, k));
    target["partners"] = partners;
  }
  object["moments"] = moments_json(report);
  object["agent_facts"] = facts_json(agent_facts(report));
  object["pair_facts"] = facts_json(pair_facts(pairs_of(report)));
  return object;
}

bool living(const AgentReport& agent) { return agent.state == "finished"; }

// "94.1 % to 94.8 %", or one number where both print the same.
std::string print_range(std::vector<double> values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const std::string from = print_percent(*low), to = print_percent(*high);
  return from == to ? from : from + " to " + to;
}

std::set<int64_t> classes_of(const SwarmReport& report) {
  std::set<int64_t> classes;
  for (const AgentReport& agent : report.agents) classes.insert(agent.classes.begin(), agent.classes.end());
  return classes;
}

std::string describe_start(const SwarmReport& report) {
  size_t first = 0, joined = 0, fewest = SIZE_MAX, most = 0;
  const std::set<int64_t> classes = classes_of(report);
  for (const AgentReport& agent : report.agents) {
    first += agent.newcomer ? 0 : 1;
    joined += agent.newcomer && !agent.peer.empty() ? 1 : 0;
    fewest = std::min(fewest, agent.classes.size());
    most = std::max(most, agent.classes.size());
  }
  const std::string later = joined > 0 ? fmt::format(", and {} that joined later,", joined) : "";
  std::string text =
      fmt::format("{}{} trained one model together for {:.0f} s", print_count(first, "agent"), later, report.seconds);
  if (first + joined == 1) text = fmt::format("One agent trained for {:.0f} s", report.seconds);
  if (most == 0 || fewest == classes.size()) return text + ".";
  const std::string held = fewest == most ? fmt::format("{}", most) : fmt::format("{} to {}", fewest, most);
  return text + fmt::format(". Each held only {} of the {} classes, and its data never left it.", held, classes.size());
}

std::string describe_events(const SwarmReport& report) {
  std::string text;
  for (const AgentReport& agent : report.agents) {
    if (agent.killed_at_s) {
      text += fmt::format(" {} was killed at {:.1f} s.", agent.name, *agent.killed_at_s);
    }
    if (agent.state == "failed") text += " " + agent.name + " failed: " + agent.failure + ".";
  }
  for (const AgentReport& agent : report.agents) {
    if (!agent.newcomer || agent.peer.empty()) continue;
    text += fmt::format(" {} joined at {:.1f} s, knowing nothing but an address and its own data.", agent.name,
                        agent.joined_at_s);
  }
  return text;
}

std::string describe_disagreement(const SwarmReport& report) {
  std::string names;
  for (const AgentReport& agent : report.agents) {
    if (living(agent) && !agent.settled.value_or(true)) names += (names.empty() ? "" : ", ") + agent.name;
  }
  return names.empty() ? "" : " These agents did not agree on one model in time: " + names + ".";
}

// "agent-0 (12 times, the last from agent-2)"
std::string count_of(const AgentReport& agent, uint64_t count, const std::string& last) {
  return fmt::format("{} ({}{})", agent.name, print_count(count, "time"),
                     last.empty() ? "" : ", the last from " + last);
}

std::string describe_left_out(const SwarmReport& report) {
  std::string text;
  for (const AgentReport& agent : report.agents) {
    if (agent.exchanges.left_out == 0) continue;
    text += (text.empty() ? "" : "; ") + count_of(agent, agent.exchanges.left_out, agent.left_out_last);
  }
  return text.empty() ? "" : " Models were left out as too far from the others, by " + text + ".";
}

std::string describe_refused(const SwarmReport& report) {
  std::string text;
  for (const AgentReport& agent : report.agents) {
    if (!agent.log || agent.log->counters.refused() == 0) continue;
    text += (text.empty() ? "" : "; ") + count_of(agent, agent.log->counters.refused(), agent.log->refused_last);
  }
  return text.empty() ? "" : " False or damaged messages about updates were refused, by " + text + ".";
}

std::string describe_outcome(const SwarmReport& report) {
  std::vector<double> together, alone;
  for (const AgentReport& agent : report.agents) {
    if (living(agent) && agent.accuracy) together.push_back(*agent.accuracy);
  }
  for (const auto& accuracy : report.alone) {
    if (accuracy) alone.push_back(*accuracy);
  }
  std::string text = " No living agent has measured its accuracy.";
  if (!together.empty()) text = " At the end every living agent reached " + print_range(together) + " accuracy.";
  if (!alone.empty()) text += " Alone, the same agents reach " + print_range(alone) + ".";
  if (report.central) text += " One process with all the data (central) reaches " + print_percent(report.central) + ".";
  return text;
}

// Empty: some living agent is better than one that guesses among the classes, or that is not known.
std::string describe_guessing(const SwarmReport& report) {
  constexpr double kHardlyBetter = 1.2;
  const size_t classes = classes_of(report).size();
  double best = -1;
  for (const AgentReport& agent : report.agents) {
    if (living(agent)) best = std::max(best, agent.accuracy.value_or(-1));
  }
  if (best < 0 || classes < 2 || best * static_cast<double>(classes) > kHardlyBetter) return "";
  return " That is what guessing gives, so nothing was learned: try another swarm.optimizer.learning_rate, take more "
         "steps, or look at the labels.";
}

void write_whole(const std::string& path, const std::string& text) {
  const std::string draft = path + ".new";
  const int fd = open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  size_t done = 0;
  bool good = fd >= 0;
  while (good && done < text.size()) {
    const ssize_t wrote = write(fd, text.data() + done, text.size() - done);
    good = wrote > 0;
    if (good) done += static_cast<size_t>(wrote);
  }
  int error = good ? 0 : errno;
  if (fd >= 0 && close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && rename(draft.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return;
  unlink(draft.c_str());
  throw std::runtime_error(path + " cannot be written: " + std::strerror(error) +
                           "; make room there, or name another folder with --out");
}

}  // namespace

std::string print_report_json(const SwarmReport& report) {
  return report_object(report).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string print_report_html(const SwarmReport& report) { return fill_page(kReportPage, page_json(report)); }

std::string summarize(const SwarmReport& report) {
  return describe_start(report) + describe_events(report) + describe_outcome(report) + describe_guessing(report) +
         describe_left_out(report) + describe_refused(report) + describe_disagreement(report);
}

void write_report(const std::string& dir, const SwarmReport& report) {
  write_whole(dir + "/report.json", print_report_json(report));
  write_whole(dir + "/report.html", print_report_html(report));
}

}  // namespace starling
