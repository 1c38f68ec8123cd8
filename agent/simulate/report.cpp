#include "agent/simulate/report.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "agent/observe/event_json.h"
#include "agent/report/facts.h"
#include "agent/report/fill_page.h"
#include "agent/report/format.h"
#include "agent/simulate/simulate_page.h"
#include "gossip/net/hash.h"

namespace starling {
namespace {

using Json = nlohmann::ordered_json;

std::string print_number(double value) { return std::isfinite(value) ? fmt::format("{:.9g}", value) : "nan"; }

std::string print_optional(const std::optional<double>& value) { return value ? print_number(*value) : ""; }

std::string print_row(const CurvePoint& point) {
  return fmt::format("{},{},{:.6f},{},{},{},{},{},{}\n", point.series, point.agent ? std::to_string(*point.agent) : "",
                     point.virtual_s, point.step, point.samples, point.bytes, print_number(point.score.loss),
                     print_optional(point.score.accuracy), print_optional(point.distance));
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }

struct Series {
  std::string name;
  std::vector<CurvePoint> points;
  std::vector<CurvePoint> low, high;  // swarm: the best and the worst agent at each time
};

// The average of agents that were evaluated at the same time, as one point.
CurvePoint average(const std::vector<CurvePoint>& agents) {
  CurvePoint all = agents[0];
  all.agent.reset();
  all.step = all.samples = all.bytes = 0;
  all.score = {};
  double loss = 0, accuracy = 0, distance = 0;
  for (const CurvePoint& point : agents) {
    all.step += point.step;
    all.samples += point.samples;
    all.bytes += point.bytes;
    loss += point.score.loss;
    accuracy += point.score.accuracy.value_or(0);
    distance += point.distance.value_or(0);
  }
  const auto count = static_cast<double>(agents.size());
  all.step /= agents.size();
  all.score.loss = loss / count;
  if (agents[0].score.accuracy) all.score.accuracy = accuracy / count;
  if (agents[0].distance) all.distance = distance / count;
  return all;
}

// By series, in the order of their first points; the agents of the swarm averaged, with the best and the worst.
std::vector<Series> gather(const SimulationReport& report) {
  std::vector<Series> all = {{"swarm", {}, {}, {}}, {"mean", {}, {}, {}}};
  std::vector<CurvePoint> agents;
  for (const CurvePoint& point : report.swarm.points) {
    if (point.agent) {
      agents.push_back(point);
      continue;
    }
    const auto by_loss = [](const CurvePoint& a, const CurvePoint& b) { return a.score.loss < b.score.loss; };
    all[0].points.push_back(average(agents));
    all[0].points.back().samples = point.samples;  // of the swarm, for the same axes as the others
    all[0].points.back().bytes = point.bytes;
    all[0].low.push_back(*std::min_element(agents.begin(), agents.end(), by_loss));
    all[0].high.push_back(*std::max_element(agents.begin(), agents.end(), by_loss));
    all[1].points.push_back(point);
    agents.clear();
  }
  for (const CurvePoint& point : report.baselines) {
    if (all.back().name != point.series) all.push_back({point.series, {}, {}, {}});
    all.back().points.push_back(point);
  }
  return all;
}

Json point_json(const CurvePoint& point) {
  return Json::array({point.virtual_s, point.step, point.samples, point.bytes, number(point.score.loss),
                      number(point.score.accuracy), number(point.distance)});
}

Json pairs_json(const SimulationReport& report) {
  Json all = Json::array();
  for (const auto& pairs : report.swarm.pairs) all.push_back(pairs ? Json(print_pairs(*pairs)) : Json(nullptr));
  return all;
}

FactTable pairs_of(const SimulationReport& report) {
  std::vector<PairReport> agents;
  for (const auto& pairs : report.swarm.pairs) {
    if (pairs) agents.push_back(*pairs);
  }
  return pair_facts(agents);
}

Json page_json(const SimulationReport& report) {
  Json object = {{"title", report.title},   {"command", report.command}, {"series", Json::array()},
                 {"events", Json::array()}, {"logs", Json::array()},     {"remarks", report.swarm.remarks}};
  for (const Series& series : gather(report)) {
    Json points = Json::array(), band = Json::array();
    for (const CurvePoint& point : series.points) points.push_back(point_json(point));
    for (size_t i = 0; i < series.low.size(); ++i) {
      const auto accuracy = [](const CurvePoint& at) { return number(at.score.accuracy); };
      band.push_back(Json::array({number(series.low[i].score.loss), number(series.high[i].score.loss),
                                  accuracy(series.low[i]), accuracy(series.high[i])}));
    }
    object["series"].push_back({{"name", series.name}, {"points", points}, {"band", band}});
  }
  for (const auto& log : report.swarm.logs) object["logs"].push_back(log ? Json(print_log(*log)) : Json(nullptr));
  object["pair_facts"] = facts_json(pairs_of(report));
  for (const SimEvent& event : report.swarm.events) {
    object["events"].push_back({{"t", event.virtual_s}, {"text", event.text}});
  }
  return object;
}

uint64_t digest_of(const SimulationReport& report) {
  const std::string csv = print_curve_csv(report);
  return report.swarm.digest * 0x9e3779b97f4a7c15ull ^ xxh3_64(std::as_bytes(std::span(csv)));
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) {
    throw std::runtime_error("cannot write " + path.string() + ": " + std::strerror(errno) +
                             "; make room there, or name another folder with --out");
  }
}

std::vector<std::string> table_row(const std::string& name, const CurvePoint& point) {
  return {name,
          fmt::format("{:.2f} s", point.virtual_s),
          std::to_string(point.step),
          std::to_string(point.samples),
          print_bytes(point.bytes),
          std::isfinite(point.score.loss) ? fmt::format("{:.4g}", point.score.loss) : "diverged",
          print_percent(point.score.accuracy),
          point.distance ? fmt::format("{:.3g}", *point.distance) : "-"};
}

// The last look with no more steps than these; null: there is none but the start.
const CurvePoint* last_within(const std::vector<CurvePoint>& points, uint64_t steps) {
  const CurvePoint* last = nullptr;
  for (const CurvePoint& point : points) {
    if (point.step > 0 && point.step <= steps) last = &point;
  }
  return last;
}

// The mean model as it was by the steps asked for, where agents took more; null: they did not.
const CurvePoint* by_steps(const std::vector<CurvePoint>& mean, uint64_t steps) {
  return mean.empty() || mean.back().step <= steps ? nullptr : last_within(mean, steps);
}

std::string describe_steps(const SimulationReport& report, bool shows_before) {
  std::string text = report.baselines.empty() ? "" : fmt::format("Baselines take {} steps.\n", report.steps);
  if (shows_before) {
    text +=
        fmt::format("Agents end later, when their median has {0} steps;\n\"by step {0}\" is the mean model before.\n",
                    report.steps);
  }
  return text;
}

Json final_json(const CurvePoint& point) {
  return {{"loss", number(point.score.loss)},
          {"accuracy", number(point.score.accuracy)},
          {"distance", number(point.distance)},
          {"virtual_s", point.virtual_s},
          {"steps", point.step},
          {"samples", point.samples},
          {"bytes", point.bytes}};
}

}  // namespace

std::string print_curve_csv(const SimulationReport& report) {
  std::string text = std::string(kCurveHeader) + "\n";
  for (const CurvePoint& point : report.swarm.points) text += print_row(point);
  for (const CurvePoint& point : report.baselines) text += print_row(point);
  return text;
}

std::string print_simulation_json(const SimulationReport& report) {
  Json final = Json::object(), before = nullptr;
  for (const Series& series : gather(report)) {
    if (series.points.empty()) continue;
    final[series.name] = final_json(series.points.back());
    const CurvePoint* like = series.name == "mean" ? by_steps(series.points, report.steps) : nullptr;
    if (like != nullptr) before = final_json(*like);
  }
  Json events = Json::array();
  for (const SimEvent& event : report.swarm.events) {
    events.push_back({{"virtual_s", event.virtual_s}, {"text", event.text}});
  }
  const Json object = {
      {"digest", fmt::format("{:016x}", digest_of(report))},
      {"virtual_s", report.swarm.virtual_s},
      {"agents", report.agents},
      {"finished", report.swarm.finished},
      {"final", final},
      {"by_step", before},
      {"exchanges", {{"done", report.swarm.done}, {"late", report.swarm.late}, {"failed", report.swarm.failed}}},
      {"blocks", print_blocks(report.swarm.blocks)},
      {"pairs", pairs_json(report)},
      {"events", events},
      {"remarks", report.swarm.remarks}};
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string print_simulation_html(const SimulationReport& report) {
  return fill_page(kSimulatePage, page_json(report));
}

std::string print_simulation_table(const SimulationReport& report) {
  std::vector<std::vector<std::string>> rows = {
      {"series", "time", "steps", "samples", "sent", "loss", "accuracy", "distance"}};
  bool shows_before = false;
  for (const Series& series : gather(report)) {
    if (series.points.empty()) continue;
    const std::string name = series.name == "swarm"  ? "swarm (average)"
                             : series.name == "mean" ? "mean model"
                                                     : series.name;
    rows.push_back(table_row(name, series.points.back()));
    const CurvePoint* like = series.name == "mean" ? by_steps(series.points, report.steps) : nullptr;
    if (like == nullptr) continue;
    rows.push_back(table_row(fmt::format("  by step {}", report.steps), *like));
    shows_before = true;
  }
  return print_columns(rows, 1) + describe_steps(report, shows_before);
}

std::string print_simulation_details(const SimulationReport& report) {
  return print_facts("pair exchanges", pairs_of(report));
}

std::string print_blocks_line(const BlockTally& blocks) {
  std::string due = std::to_string(blocks.due);
  for (size_t at = due.size(); at > 3; at -= 3) due.insert(at - 3, ",");
  std::string text = "blocks due " + due;
  const char* before = ": ";
  for (const auto& [outcome, count] : blocks.outcomes()) {
    if (count == 0) continue;
    const double percent = 100 * static_cast<double>(count) / static_cast<double>(blocks.due);
    text += fmt::format("{}{:.1f} % {}", before, percent, outcome);
    before = ", ";
  }
  return text;
}

void write_simulation(const std::string& dir, const SimulationReport& report) {
  const std::filesystem::path place(dir);
  write_file(place / "curve.csv", print_curve_csv(report));
  write_file(place / "summary.json", print_simulation_json(report));
  write_file(place / "report.html", print_simulation_html(report));
  write_file(place / "config.yaml", report.config);
}

}  // namespace starling
