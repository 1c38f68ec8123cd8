#include "agent/config/scenario.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "agent/config/values.h"

namespace starling {
namespace {

using Kind = ScenarioEvent::Kind;

constexpr Duration kPauseMax = std::chrono::hours(24);

bool read_time(const std::string& text, Duration* time) {
  const auto value = read_seconds(text);
  if (!value) return false;
  *time = from_seconds(*value);
  return true;
}

// "8" or "step300".
bool read_moment(const std::string& text, ScenarioEvent* event) {
  if (!text.starts_with("step")) return read_time(text, &event->at);
  event->at_step = read_number<uint64_t>(text.substr(4));
  return event->at_step.has_value();
}

// "2@MOMENT".
bool read_agent_at(const std::string& text, ScenarioEvent* event) {
  const size_t at = text.find('@');
  if (at == std::string::npos) return false;
  const auto agent = read_number<uint32_t>(text.substr(0, at));
  event->agent = agent.value_or(0);
  return agent && read_moment(text.substr(at + 1), event);
}

[[noreturn]] void throw_expected(const std::string& expected, const std::string& found) {
  throw std::invalid_argument("expected " + expected + ", found '" + found + "'");
}

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kKill: return "kill";
    case Kind::kJoin: return "join";
    case Kind::kPause: return "pause";
    case Kind::kResume: return "end of the pause";
  }
  return "";
}

}  // namespace

void Scenario::add_kill(const std::string& text) {
  ScenarioEvent event{Kind::kKill};
  if (!read_agent_at(text, &event)) {
    throw_expected("AGENT@SECONDS such as 2@8, or AGENT@stepN (agents count from 0)", text);
  }
  events_.push_back(event);
}

void Scenario::add_join(const std::string& text) {
  ScenarioEvent event{Kind::kJoin};
  if (!read_moment(text.starts_with('@') ? text.substr(1) : text, &event)) {
    throw_expected("@SECONDS such as @12, or @stepN", text);
  }
  events_.push_back(event);
}

void Scenario::add_pause(const std::string& text) {
  ScenarioEvent event{Kind::kPause};
  const size_t plus = std::min(text.find('+'), text.size());
  if (!read_agent_at(text.substr(0, plus), &event) ||
      !read_time(text.substr(std::min(plus + 1, text.size())), &event.lasts)) {
    throw_expected("AGENT@SECONDS+SECONDS such as 2@8+1.5, or AGENT@stepN+SECONDS (agents count from 0)", text);
  }
  if (event.lasts > kPauseMax) {
    throw std::invalid_argument("a pause lasts at most a day (86400 s), found '" + text +
                                "'; to take an agent out for good, kill it");
  }
  events_.push_back(event);
}

size_t Scenario::joins() const {
  return static_cast<size_t>(std::count_if(events_.begin(), events_.end(),
                                           [](const ScenarioEvent& event) { return event.kind == Kind::kJoin; }));
}

Duration Scenario::end() const {
  Duration end{};
  for (const ScenarioEvent& event : events_) end = std::max(end, event.at + event.lasts);
  return end;
}

void Scenario::refuse_absent(size_t first_agents) const {
  const size_t count = first_agents + joins();
  for (const ScenarioEvent& event : events_) {
    if (event.kind == Kind::kJoin || event.agent < count) continue;
    const std::string moment =
        event.at_step ? fmt::format("step{}", *event.at_step) : fmt::format("{:g}", seconds(event.at));
    throw std::runtime_error(
        fmt::format("--{} {}@{}: the agents are 0 to {}", name_of(event.kind), event.agent, moment, count - 1));
  }
}

ScenarioAgenda::ScenarioAgenda(const Scenario& scenario) : pending_(scenario.events()) {
  std::stable_sort(pending_.begin(), pending_.end(),
                   [](const ScenarioEvent& a, const ScenarioEvent& b) { return a.at < b.at; });
}

std::vector<ScenarioEvent> ScenarioAgenda::take_due(Duration now, uint64_t median_step) {
  std::vector<ScenarioEvent> taken;
  for (;;) {
    const auto due = std::find_if(pending_.begin(), pending_.end(), [&](const ScenarioEvent& event) {
      return event.at_step ? *event.at_step <= median_step : event.at <= now;
    });
    if (due == pending_.end()) return taken;
    const ScenarioEvent event = *due;
    pending_.erase(due);
    taken.push_back(event);
    if (event.kind != Kind::kPause) continue;
    const ScenarioEvent end{Kind::kResume, event.agent, (event.at_step ? now : event.at) + event.lasts};
    pending_.insert(std::upper_bound(pending_.begin(), pending_.end(), end,
                                     [](const ScenarioEvent& a, const ScenarioEvent& b) { return a.at < b.at; }),
                    end);
  }
}

std::optional<Duration> ScenarioAgenda::next() const {
  for (const ScenarioEvent& event : pending_) {
    if (!event.at_step) return event.at;
  }
  return std::nullopt;
}

bool ScenarioAgenda::is_step_due(uint64_t median_step) const {
  return std::any_of(pending_.begin(), pending_.end(),
                     [&](const ScenarioEvent& event) { return event.at_step && *event.at_step <= median_step; });
}

bool ScenarioAgenda::waits_for_step() const {
  return std::any_of(pending_.begin(), pending_.end(),
                     [](const ScenarioEvent& event) { return event.at_step.has_value(); });
}

std::vector<std::string> ScenarioAgenda::missed(Duration end) const {
  std::vector<std::string> texts;
  for (const ScenarioEvent& event : pending_) {
    const std::string moment =
        event.at_step ? fmt::format("step {}", *event.at_step) : fmt::format("{:g} s", seconds(event.at));
    texts.push_back(fmt::format("the {} planned for {} did not happen: the swarm had ended at {:.1f} s",
                                name_of(event.kind), moment, seconds(end)));
  }
  return texts;
}

uint32_t FreeShards::take() {
  if (shards_.empty()) return 0;
  const uint32_t shard = shards_.back();
  shards_.pop_back();
  return shard;
}

uint64_t median_step(std::vector<uint64_t> steps) {
  if (steps.empty()) return 0;
  std::sort(steps.begin(), steps.end());
  return steps[steps.size() / 2];
}

}  // namespace starling
