#include "agent/run/gathering.h"

#include <chrono>
#include <cstddef>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/report/format.h"
#include "agent/run/swarm_clock.h"

namespace starling {
namespace {

constexpr Duration kEvery = std::chrono::seconds(30);
constexpr Duration kNewsEvery = std::chrono::seconds(1);
constexpr size_t kNamesMax = 8;

// Adds one to "alice, bob"; of many, only the first ones.
void add_name(std::string& list, size_t& count, const std::string& name) {
  if (++count <= kNamesMax) list += (count > 1 ? ", " : "") + name;
  if (count == kNamesMax + 1) list += " and others";
}

}  // namespace

Gathering::Gathering(const SwarmConfig& swarm, const Membership& membership, const Clock& clock)
    : wait_for_(swarm.wait_for),
      membership_(membership),
      clock_(clock),
      over_(swarm.wait_for <= 1 || swarm.exchange.kind == ExchangeKind::kNone) {}

// Records can be invented, so those count that answered. But a step that any member took ends the wait: that member has
// seen all, or the swarm has begun long ago.
Gathering::Seen Gathering::see() const {
  Seen seen;
  size_t here = 0, preparing = 0;
  membership_.visit_alive([&](const Member& member) {
    const MemberMeta& meta = member.record.meta;
    if (meta.role != Role::kAgent) return;
    seen.begun |= meta.steps > 0 || meta.phase == Phase::kSettling || meta.phase == Phase::kFinished;
    if (holds_model(meta) && answered(member)) {
      ++seen.ready;
      add_name(seen.here, here, print_name(member.record));
    } else {
      add_name(seen.preparing, preparing, print_name(member.record));
    }
  });
  return seen;
}

void Gathering::look() {
  const Seen seen = see();
  const bool enough = seen.begun || seen.ready >= wait_for_;
  over_ = enough || clock_.now() >= until_;
  if (!over_) return say(seen);
  if (!enough) {
    spdlog::warn(
        "{} did not come back, as the swarm may have ended: this agent trains without them; take the model of a member "
        "that finished, or start them again",
        print_count(wait_for_ - seen.ready, "agent"));
  } else if (seen.begun) {
    spdlog::info("the swarm has begun: this agent begins too");
  } else {
    spdlog::info("{} are there: the first step begins", print_count(seen.ready, "agent"));
  }
}

void Gathering::say(const Seen& seen) {
  std::string text = fmt::format("waits for {} before the first step (swarm.wait_for: {}); here: this agent",
                                 print_count(wait_for_ - seen.ready, "more agent"), wait_for_);
  if (!seen.here.empty()) text += ", " + seen.here;
  if (!seen.preparing.empty()) text += "; getting ready: " + seen.preparing;
  if (until_ != TimePoint::max()) {
    text +=
        "; the others may have finished, so it waits " + print_duration(patience_) + " at most (--alone: not to wait)";
  }
  const TimePoint now = clock_.now();
  const bool again = text == said_;
  if (!said_.empty() && now < (again ? next_ : next_news_)) return;
  said_ = text;
  next_ = now + kEvery;
  next_news_ = now + kNewsEvery;
  spdlog::info("{}{}", text, again ? "; to need fewer, begin a swarm with --wait-for N and a new --state FOLDER" : "");
}

}  // namespace starling
