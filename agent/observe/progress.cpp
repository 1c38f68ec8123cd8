#include "agent/observe/progress.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/report/format.h"

namespace starling {
namespace {

constexpr Duration kLogEvery = std::chrono::seconds(30);  // without a terminal
constexpr Duration kRateWindow = std::chrono::seconds(30);
constexpr Duration kRateFrom = std::chrono::seconds(2);  // a shorter window would make the time left jump
constexpr Duration kFresh = std::chrono::seconds(10);    // an older accuracy is shown with its step

void add(std::string& line, const std::string& part) {
  if (!part.empty()) line += (line.empty() ? "" : " · ") + part;
}

std::string print_rate(double steps_per_s) {
  if (steps_per_s <= 0) return "";
  return steps_per_s < 10 ? fmt::format("{:.2g} steps/s", steps_per_s) : fmt::format("{:.0f} steps/s", steps_per_s);
}

// The run lasts by the swarm's steps: where an agent's own are far from them, both are shown.
bool shows_swarm(const AgentStatus& status) {
  const uint64_t apart = std::max(status.steps, status.swarm_steps) - std::min(status.steps, status.swarm_steps);
  return apart * 50 > status.stop_after || status.steps > status.stop_after;
}

std::string print_steps(const AgentStatus& status) {
  if (status.stop_after == 0) return fmt::format("step {}", status.steps);
  if (!shows_swarm(status)) return fmt::format("step {}/{}", status.steps, status.stop_after);
  return fmt::format("step {} · swarm {}/{}", status.steps, status.swarm_steps, status.stop_after);
}

// Of the steps that are shown beside stop_after.
std::string print_part(const AgentStatus& status) {
  if (status.stop_after == 0) return "";
  const uint64_t steps = shows_swarm(status) ? status.swarm_steps : status.steps;
  const auto part = static_cast<double>(steps) / static_cast<double>(status.stop_after);
  return fmt::format("{} %", static_cast<int>(100 * std::min(1.0, part)));
}

}  // namespace

void ProgressLog::on(const Event& event) {
  if (const auto* evaluated = std::get_if<Evaluated>(&event)) {
    evaluated_ = clock_.now();
    evaluated_steps_ = evaluated->steps;
  } else if (const auto* end = std::get_if<Finished>(&event)) {
    look_at(*end, true);
  } else if (const auto* status = std::get_if<AgentStatus>(&event)) {
    if (status->phase != "joining" && status->phase != "finished") look_at(*status, false);
  }
}

void ProgressLog::look_at(const AgentStatus& status, bool last) {
  const TimePoint now = clock_.now();
  lately_.push_back({now, status.swarm_steps});
  while (now - lately_.front().at > kRateWindow) lately_.pop_front();
  const bool first_steps_begin = status.first_steps && !first_steps_began_;
  if (first_steps_begin) first_steps_began_ = now;
  const std::string text = print(status);
  if (line_.terminal()) {
    line_.show(text);
    if (last) line_.keep();
  } else if (text != printed_ && (now >= next_ || first_steps_begin || last)) {
    spdlog::info("{}", text);
    printed_ = text;
    next_ = now + kLogEvery;
  }
}

std::string ProgressLog::print(const AgentStatus& status) const {
  std::string line;
  add(line, print_steps(status));
  if (status.first_steps) {
    add(line, "first step");
    const Duration lasts = clock_.now() - *first_steps_began_;
    if (lasts >= std::chrono::seconds(1)) add(line, "for " + print_span(seconds(lasts)));
  } else {
    add(line, print_part(status));
    add(line, print_rate(status.steps_per_s));
    add(line, print_eta(status));
  }
  if (status.phase == "settling" || status.phase == "sick" || status.phase == "paused") add(line, status.phase);
  if (status.loss) add(line, fmt::format("loss {:.2g}", *status.loss));
  add(line, print_accuracy(status));
  add(line, print_count(status.peers, "peer"));
  return line;
}

std::string ProgressLog::print_eta(const AgentStatus& status) const {
  if (status.phase != "training" || status.swarm_steps >= status.stop_after) return "";
  const Duration window = lately_.back().at - lately_.front().at;
  const uint64_t before = lately_.front().steps;
  if (window < kRateFrom || status.swarm_steps <= before) return "";
  const double rate = static_cast<double>(status.swarm_steps - before) / seconds(window);
  return "ETA " + print_span(static_cast<double>(status.stop_after - status.swarm_steps) / rate);
}

std::string ProgressLog::print_accuracy(const AgentStatus& status) const {
  if (!status.accuracy) return "";
  const bool fresh = evaluated_steps_ >= status.steps || clock_.now() - evaluated_ <= kFresh;
  return "acc " + print_percent(status.accuracy) + (fresh ? "" : fmt::format(" at step {}", evaluated_steps_));
}

}  // namespace starling
