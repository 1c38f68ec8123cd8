#include "agent/report/report.h"

#include <cmath>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "agent/report/fill_page.h"
#include "agent/report/format.h"
#include "agent/report/report_page.h"

namespace starling {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kPointsMax = 600;   // in one curve of the page: more than it has pixels for

Json optional_number(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

// What an agent sends in a step, with all that comes with it; nullopt: it took none.
std::optional<double> sent_a_step(const AgentReport& agent) {
  if (agent.steps == 0) return std::nullopt;
  return std::round(static_cast<double>(agent.bytes_sent) / static_cast<double>(agent.steps));
}

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
    target["curves"] = {{"accuracy", curve_json(agent.accuracies)},
                        {"loss", curve_json(agent.losses)},
                        {"distance", curve_json(agent.distances)},
                        {"swarm_distance", curve_json(agent.swarm_distances)},
                        {"spread", curve_json(agent.spreads)},
                        {"sent", curve_json(agent.sent)}};
    Json partners = Json::array();
    for (const AgentReport& other : report.agents) {
      const auto at = agent.partners.find(other.peer);
      partners.push_back(at == agent.partners.end() || other.peer.empty() ? 0 : at->second.done);
    }
    target["partners"] = partners;
  }
  return object;
}

bool living(const AgentReport& agent) { return agent.state == "finished"; }

// "94.1 % to 94.8 %", or one number where both print the same.
std::string print_range(std::vector<double> values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const std::string from = print_percent(*low), to = print_percent(*high);
  return from == to ? from : from + " to " + to;
}

std::string describe_start(const SwarmReport& report) {
  size_t first = 0, joined = 0, fewest = SIZE_MAX, most = 0;
  std::set<int64_t> classes;
  for (const AgentReport& agent : report.agents) {
    first += agent.newcomer ? 0 : 1;
    joined += agent.newcomer && !agent.peer.empty() ? 1 : 0;
    classes.insert(agent.classes.begin(), agent.classes.end());
    fewest = std::min(fewest, agent.classes.size());
    most = std::max(most, agent.classes.size());
  }
  const std::string later = joined > 0 ? fmt::format(" and {} that joined later", joined) : "";
  std::string text = fmt::format("{}{} trained one model together for {:.0f} s", print_count(first, "agent"), later,
                                 report.seconds);
  if (first + joined == 1) text = fmt::format("One agent trained for {:.0f} s", report.seconds);
  if (most == 0 || fewest == classes.size()) return text + ".";
  const std::string held = fewest == most ? fmt::format("{}", most) : fmt::format("{} to {}", fewest, most);
  return text +
         fmt::format("; each held only {} of the {} classes, and its data never left it.", held, classes.size());
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
  return names.empty() ? "" : " Ended without one model, since not all agreed in time: " + names + ".";
}

std::string describe_left_out(const SwarmReport& report) {
  std::string text;
  for (const AgentReport& agent : report.agents) {
    if (agent.exchanges.left_out == 0) continue;
    text += fmt::format("{}by {} {} times, last {}'s", text.empty() ? "" : "; ", agent.name, agent.exchanges.left_out,
                        agent.left_out_last);
  }
  return text.empty() ? "" : " Models did not count, being much farther away than the others: " + text + ".";
}

std::string describe_refused(const SwarmReport& report) {
  std::string text;
  for (const AgentReport& agent : report.agents) {
    if (!agent.log || agent.log->counters.refused() == 0) continue;
    const std::string& last = agent.log->refused_last;
    text += fmt::format("{}by {} {} times{}", text.empty() ? "" : "; ", agent.name, agent.log->counters.refused(),
                        last.empty() ? "" : ", last " + last + "'s");
  }
  return text.empty() ? "" : " Messages about the log of updates were refused, being false or damaged: " + text + ".";
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
  if (report.central) text += " One process with all the data reaches " + print_percent(report.central) + ".";
  return text;
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

std::string print_report_html(const SwarmReport& report) {
  return fill_page(kReportPage, page_json(report));
}

std::string summarize(const SwarmReport& report) {
  return describe_start(report) + describe_events(report) + describe_outcome(report) + describe_left_out(report) +
         describe_refused(report) + describe_disagreement(report);
}

std::string print_closing_table(const SwarmReport& report) {
  constexpr const char* kRow = "{:<8} {:<9} {:>8} {:>7} {:>7} {:>16} {:>9} {:>9}{}\n";   // 80, then a note
  std::string text = fmt::format(kRow, "agent", "labels", "accuracy", "alone", "central", "done/late/failed", "sent",
                                 "a step", "");
  for (const AgentReport& agent : report.agents) {
    std::optional<double> alone;
    if (agent.shard < report.alone.size() && report.alone[agent.shard]) alone.emplace(*report.alone[agent.shard]);
    const std::string counts =
        fmt::format("{}/{}/{}", agent.exchanges.done, agent.exchanges.late, agent.exchanges.failed);
    std::string note;
    if (agent.killed_at_s) note = fmt::format("  killed at {:.1f} s", *agent.killed_at_s);
    if (agent.newcomer && !agent.peer.empty()) note += fmt::format("  joined at {:.1f} s", agent.joined_at_s);
    if (agent.state == "failed") note += "  failed: " + agent.failure;
    if (living(agent) && !agent.settled.value_or(true)) note += "  its model and another's do not agree";
    text += fmt::format(kRow, agent.name, print_labels(agent.classes), print_percent(agent.accuracy),
                        print_percent(alone), print_percent(report.central), counts, print_bytes(agent.bytes_sent),
                        print_bytes(sent_a_step(agent)), note);
  }
  std::vector<PairReport> pairs;
  for (const AgentReport& agent : report.agents) {
    if (agent.pairs) pairs.push_back(*agent.pairs);
  }
  return text + "(alone: the same agent without the others; central: one process with all the\n"
                "data; exchanges done: all that was due was mixed; late: some of it came too\n"
                "late, the rest was mixed; failed: nothing was)\n" + print_pairs_table(pairs);
}

void write_report(const std::string& dir, const SwarmReport& report) {
  write_whole(dir + "/report.json", print_report_json(report));
  write_whole(dir + "/report.html", print_report_html(report));
}

}  // namespace starling
