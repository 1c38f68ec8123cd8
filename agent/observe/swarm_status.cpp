#include "agent/observe/swarm_status.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "agent/observe/member_report.h"
#include "agent/observe/site_scores.h"
#include "agent/report/format.h"
#include "agent/report/redrawn.h"
#include "agent/report/version.h"

namespace starling {
namespace {

constexpr uint64_t kExchangesToJudge = 8;
constexpr double kSlow = 0.5, kFar = 10;  // times the median

std::optional<double> measured(float value) { return value >= 0 ? std::optional<double>(value) : std::nullopt; }

// A loss that is no number is sent as the largest float; 0: no step was taken.
bool is_number(float loss) { return loss < std::numeric_limits<float>::max(); }

bool lives(const SwarmSite& site) { return site.state != "gone" && site.state != "silent"; }

// The lower one of two; nullopt: none of them is known.
template <typename Get>
std::optional<double> median(const std::vector<SwarmSite>& sites, const Get& get) {
  std::vector<double> values;
  for (const SwarmSite& site : sites) {
    if (const std::optional<double> value = get(site); value && lives(site)) values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string state_of(const SwarmView::Row& row) {
  if (row.state == MemberState::kSuspect) return "silent";
  if (row.state != MemberState::kAlive) return "gone";
  const MemberMeta& meta = row.record.meta;
  if (meta.pause != Pause::kNone) return kPausedPhase;
  return meta.phase == Phase::kTraining && meta.steps == 0 ? "starting" : phase_name(meta.phase);
}

SwarmSite make_site(const SwarmView::Row& row, bool asked) {
  const MemberMeta& meta = row.record.meta;
  SwarmSite site;
  site.name = meta.name.empty() ? row.record.id.short_name() : meta.name;
  site.peer = row.record.id.hex();
  site.endpoint = row.record.endpoint;
  site.asked = asked;
  site.state = state_of(row);
  site.step = meta.steps;
  if (meta.steps_per_s > 0) site.steps_per_s = meta.steps_per_s;
  if (meta.loss != 0 && is_number(meta.loss)) site.loss = meta.loss;
  site.accuracy = measured(meta.accuracy);
  site.test_loss = measured(meta.test_loss);
  site.held_out = meta.held_out;
  site.distance = measured(meta.distance);
  if (meta.program == 0) return site;
  site.version = print_version(meta.program);
  site.done = meta.done;
  site.failed = meta.failed;
  return site;
}

// Of no site with a majority of those that tell one.
bool other_classes(const SwarmView& view, uint64_t hash) {
  size_t same = 0, told = 0;
  for (const SwarmView::Row& row : view.rows) {
    if (row.state == MemberState::kDead || row.record.meta.classes_hash == 0) continue;
    ++told;
    same += row.record.meta.classes_hash == hash;
  }
  return hash != 0 && 2 * same <= told;
}

// The worst that is seen.
std::string trouble_of(const SwarmSite& site, const MemberMeta& meta, std::optional<double> rate,
                       std::optional<double> distance, bool classes_differ) {
  if (site.state == "gone") return "given up: it does not answer";
  if (site.state == "silent") return "does not answer";
  if (site.state == "sick" || !is_number(meta.loss))
    return "its loss is not finite: look at its data and learning rate";
  if (meta.unsaved) return "its last checkpoint failed: look at its log";
  if (classes_differ) return "its classes differ from those of other agents in name or order";
  const bool trains = site.state == "training";
  if (site.failed && *site.failed >= kExchangesToJudge && *site.failed > *site.done) {
    return fmt::format("{} of {} exchanges failed", *site.failed, *site.failed + *site.done);
  }
  if (trains && site.distance && distance && *distance > 0 && *site.distance > kFar * *distance) {
    return "its model is far from the others";
  }
  if (trains && site.steps_per_s && rate && *site.steps_per_s < kSlow * *rate) {
    return fmt::format("slow: the median agent takes {:.2g} steps/s", *rate);
  }
  return "";
}

int weight(const SwarmSite& site) { return site.state == "gone" ? 3 : !lives(site) ? 2 : !site.trouble.empty(); }

std::string print_optional(const char* form, const std::optional<double>& value) {
  return value ? fmt::format(fmt::runtime(form), *value) : "-";
}

std::string print_number(const std::optional<uint64_t>& value) { return value ? std::to_string(*value) : "-"; }

struct Column {
  const char* heading;
  std::string (*cell)(const SwarmSite&);
  int keep;  // the least goes first where there is no room
};

constexpr std::array<Column, 11> kColumns = {{
    {"agent", [](const SwarmSite& site) { return site.name; }, 11},
    {"state", [](const SwarmSite& site) { return site.state; }, 10},
    {"step", [](const SwarmSite& site) { return std::to_string(site.step); }, 9},
    {"behind", [](const SwarmSite& site) { return std::to_string(site.behind); }, 5},
    {"steps/s", [](const SwarmSite& site) { return print_optional("{:.3g}", site.steps_per_s); }, 4},
    {"loss", [](const SwarmSite& site) { return print_optional("{:.3g}", site.loss); }, 8},
    {"accuracy", [](const SwarmSite& site) { return print_percent(site.accuracy); }, 7},
    {"distance", [](const SwarmSite& site) { return print_optional("{:.2g}", site.distance); }, 2},
    {"done", [](const SwarmSite& site) { return print_number(site.done); }, 3},
    {"failed", [](const SwarmSite& site) { return print_number(site.failed); }, 6},
    {"version", [](const SwarmSite& site) { return site.version.empty() ? "-" : site.version; }, 1},
}};
constexpr size_t kTextColumns = 2;  // flush left: agent and state
constexpr size_t kTroubleMin = 16;  // columns: some letters of it would say nothing

std::string pad(const std::string& text, size_t width, bool left) {
  const std::string blanks(width - std::min(width, columns_of(text)), ' ');
  return left ? text + blanks : blanks + text;
}

// Which columns there is room for.
std::array<bool, kColumns.size()> choose_columns(const std::array<size_t, kColumns.size()>& widths, size_t columns,
                                                 size_t trouble) {
  std::array<bool, kColumns.size()> shown;
  shown.fill(true);
  size_t needed = trouble == 0 ? 0 : 2 + std::min(trouble, kTroubleMin);
  for (const size_t width : widths) needed += width + 1;
  for (int least = 1; columns > 0 && needed > columns + 1 && least < static_cast<int>(kColumns.size()) - 1; ++least) {
    for (size_t i = 0; i < kColumns.size(); ++i) {
      if (kColumns[i].keep != least) continue;
      shown[i] = false;
      needed -= widths[i] + 1;
    }
  }
  return shown;
}

std::string print_progress(const std::vector<SwarmSite>& sites, const SwarmGoal& goal) {
  const auto step = median(sites, [](const SwarmSite& site) { return std::optional<double>(site.step); });
  if (!step) return "";
  if (goal.stop_after == 0) return fmt::format(", step {:.0f}", *step);
  const double part = std::min(1.0, *step / static_cast<double>(goal.stop_after));
  return fmt::format(", step {:.0f}/{}, {} %", *step, goal.stop_after, static_cast<int>(100 * part));
}

// Its first step comes when all are there.
std::string print_missing(const std::vector<SwarmSite>& sites, uint64_t there, uint64_t wait_for) {
  const bool began = std::any_of(sites.begin(), sites.end(), [](const SwarmSite& site) { return site.step > 0; });
  return began || there == 0 || there >= wait_for ? "" : ", waits for " + std::to_string(wait_for - there) + " more";
}

std::string print_head(const SwarmView& view, const std::vector<SwarmSite>& sites, const SwarmGoal& goal) {
  size_t living = 0, troubled = 0;
  for (const SwarmSite& site : sites) {
    living += lives(site);
    troubled += !site.trouble.empty();
  }
  const std::string trouble = troubled == 0 ? "" : fmt::format(", {} in trouble", troubled);
  return plain(fmt::format("swarm {} ({:016x}): {}{}{}{}", goal.name, view.swarm_id, print_count(living, "agent"),
                           print_missing(sites, living, goal.wait_for), print_progress(sites, goal), trouble));
}

// How the model does at those that answer.
std::vector<SiteScores> scores_of(const SwarmView& view, const SwarmGoal& goal) {
  std::vector<PeerRecord> records;
  for (const SwarmView::Row& row : view.rows) {
    if (row.state == MemberState::kAlive) records.push_back(row.record);
  }
  return score_sites(records, view.teller.id, goal.is_text);
}

nlohmann::json or_null(const std::string& text) { return text.empty() ? nlohmann::json() : nlohmann::json(text); }

template <typename T>
nlohmann::json or_null(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

nlohmann::json scores_json(const SiteScores& scores) {
  return {{"on", scores.held_out ? "held-out" : "test"},
          {"figure", scores.by_loss ? "loss" : "accuracy"},
          {"sites", scores.sites},
          {"mean", scores.mean},
          {"worst", scores.worst},
          {"worst_at", scores.worst_at},
          {"asked", or_null(scores.own)}};
}

}  // namespace

std::vector<SwarmSite> look_at_sites(const SwarmView& view) {
  std::vector<SwarmSite> sites;
  std::vector<const MemberMeta*> metas;
  uint64_t foremost = 0;
  for (const SwarmView::Row& row : view.rows) {
    if (row.record.meta.role != Role::kAgent) continue;
    sites.push_back(make_site(row, row.record.id == view.teller.id));
    metas.push_back(&row.record.meta);
    if (lives(sites.back())) foremost = std::max(foremost, sites.back().step);
  }
  const auto rate = median(sites, [](const SwarmSite& site) { return site.steps_per_s; });
  const auto distance = median(sites, [](const SwarmSite& site) { return site.distance; });
  for (size_t i = 0; i < sites.size(); ++i) {
    sites[i].behind = foremost - std::min(foremost, sites[i].step);
    sites[i].trouble = trouble_of(sites[i], *metas[i], rate, distance, other_classes(view, metas[i]->classes_hash));
  }
  std::sort(sites.begin(), sites.end(), [](const SwarmSite& a, const SwarmSite& b) {
    return std::tuple(-weight(a), b.behind, a.name, a.peer) < std::tuple(-weight(b), a.behind, b.name, b.peer);
  });
  return sites;
}

std::vector<std::string> render_swarm(const SwarmView& view, const SwarmGoal& goal, size_t columns) {
  const std::vector<SwarmSite> sites = look_at_sites(view);
  std::array<size_t, kColumns.size()> widths{};
  size_t trouble = 0;
  for (size_t i = 0; i < kColumns.size(); ++i) {
    widths[i] = columns_of(kColumns[i].heading);
    for (const SwarmSite& site : sites) widths[i] = std::max(widths[i], columns_of(kColumns[i].cell(site)));
  }
  for (const SwarmSite& site : sites) trouble = std::max(trouble, columns_of(site.trouble));
  const auto shown = choose_columns(widths, columns, trouble);
  std::vector<std::string> lines = {cut(print_head(view, sites, goal), columns)};
  const std::string asked =
      (view.teller.meta.name.empty() ? view.teller.id.short_name() : view.teller.meta.name) + " (asked)";
  for (const SiteScores& scores : scores_of(view, goal)) {
    if (scores.sites > 1) lines.push_back(cut(plain(print_scores(scores, asked)), columns));
  }
  const auto add = [&](const auto& cell, const std::string& last) {
    std::string line;
    for (size_t i = 0; i < kColumns.size(); ++i) {
      if (shown[i]) line += (line.empty() ? "" : " ") + pad(cell(kColumns[i]), widths[i], i < kTextColumns);
    }
    if (!last.empty()) line += "  " + last;
    lines.push_back(cut(line, columns));
  };
  add([](const Column& column) { return std::string(column.heading); }, trouble == 0 ? "" : "trouble");
  for (const SwarmSite& site : sites) {
    add([&](const Column& column) { return column.cell(site); }, site.trouble);
  }
  return lines;
}

std::string swarm_json(const SwarmView& view, const SwarmGoal& goal) {
  nlohmann::json members = nlohmann::json::array();
  for (const SwarmSite& site : look_at_sites(view)) {
    members.push_back({{"name", site.name},
                       {"peer", site.peer},
                       {"endpoint", site.endpoint.to_string()},
                       {"asked", site.asked},
                       {"state", site.state},
                       {"step", site.step},
                       {"behind", site.behind},
                       {"steps_per_s", or_null(site.steps_per_s)},
                       {"loss", or_null(site.loss)},
                       {"accuracy", or_null(site.accuracy)},
                       {"test_loss", or_null(site.test_loss)},
                       {"held_out", site.held_out},
                       {"distance", or_null(site.distance)},
                       {"done", or_null(site.done)},
                       {"failed", or_null(site.failed)},
                       {"version", or_null(site.version)},
                       {"trouble", or_null(site.trouble)}});
  }
  nlohmann::json by_site = nlohmann::json::array();
  for (const SiteScores& scores : scores_of(view, goal)) by_site.push_back(scores_json(scores));
  const nlohmann::json all = {{"swarm", goal.name},
                              {"id", fmt::format("{:016x}", view.swarm_id)},
                              {"stop_after", goal.stop_after},
                              {"by_site", std::move(by_site)},
                              {"members", std::move(members)}};
  return all.dump();
}

}  // namespace starling
