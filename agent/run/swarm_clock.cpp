#include "agent/run/swarm_clock.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "gossip/limits.h"

namespace starling {
namespace {

constexpr double kProgressMax = 4;                         // of a member, in units of the own or the median one
constexpr double kOverdue = 1.5;                           // of the own steps between a member's last two tellings
constexpr Duration kRateWindow = std::chrono::seconds(5);  // a forged record is refuted sooner
constexpr Duration kFounding = std::chrono::seconds(10);   // who is met so early is no newer than this agent
constexpr Duration kKnownAfter = std::chrono::minutes(1);
constexpr Duration kForgottenAfter = std::chrono::minutes(1);  // unseen; it may only have been suspected

// The lower one of two: with one other member, that one alone must not decide.
template <typename T>
T median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double within_ratio(double claimed, double own) {
  return own > 0 ? std::clamp(claimed, own / kRateRatioMax, own * kRateRatioMax) : claimed;
}

template <typename Use>
void visit_proven(const Membership& membership, const Use& use) {
  membership.visit_alive([&](const Member& member) {
    if (member.proven && takes_part(member.record.meta)) use(member.record);
  });
}

bool has_ended(const MemberMeta& meta) {
  return has_finished(meta) || (meta.role == Role::kAgent && meta.phase == Phase::kSettling);
}

bool is_to_train(const MemberMeta& meta) {
  return meta.role == Role::kAgent && meta.pause == Pause::kNone &&
         (meta.phase == Phase::kTraining || meta.phase == Phase::kSick);
}

}  // namespace

bool holds_model(const MemberMeta& meta) { return meta.role == Role::kAgent && meta.phase != Phase::kJoining; }

bool has_finished(const MemberMeta& meta) { return meta.role == Role::kAgent && meta.phase == Phase::kFinished; }

std::vector<const PeerRecord*> agents_taking_part(const Membership& membership, const Counts& counts) {
  std::vector<const PeerRecord*> agents;
  membership.visit_alive([&](const Member& member) {
    if (counts(member) && takes_part(member.record.meta)) agents.push_back(&member.record);
  });
  return agents;
}

// Of a member that trains: the steps it has taken since it told of some, by its pace between the last two times. None
// before: it may not have begun. One that stands still tells nothing new, so this ends soon after the next record is
// due. One that settles has seen the end of the run, maybe some steps too early, and holds nobody back.
double SwarmClock::steps_since(const PeerRecord& agent, Claim& claim) const {
  const auto own = static_cast<double>(own_steps_), theirs = static_cast<double>(agent.meta.steps);
  if (theirs != claim.told) {
    const double between = own - claim.own_then;
    if (claim.told >= 0 && between > 0) {
      claim.own_between = between;
      claim.pace = std::clamp((theirs - claim.told) / between, 0.0, kProgressMax);
    }
    claim.told = theirs;
    claim.own_then = own;
  }
  if (!is_to_train(agent.meta)) return std::max(0.0, own - theirs);
  return claim.pace * std::clamp(own - claim.own_then, 0.0, kOverdue * claim.own_between);
}

SwarmClock::Claim& SwarmClock::look_at(const PeerRecord& agent, size_t& next) {
  while (next < claims_.size() && claims_[next].peer < agent.id) ++next;
  if (next == claims_.size() || claims_[next].peer != agent.id) {
    claims_.insert(claims_.begin() + static_cast<std::ptrdiff_t>(next), {agent.id, {}});
  }
  Claim& claim = claims_[next].claim;
  if (claim.generation != agent.version.generation) {
    const double first = std::min(static_cast<double>(agent.meta.steps), static_cast<double>(steps_));
    claim = {.generation = agent.version.generation, .first = clock_.now(), .counted = first};
  }
  claim.last = clock_.now();
  return claim;
}

bool SwarmClock::known(const Claim& claim) const {
  return claim.first <= began_ + kFounding || clock_.now() - claim.first >= kKnownAfter;
}

void SwarmClock::visit_known(const std::function<void(const PeerRecord&)>& visit) const {
  auto row = claims_.begin();
  visit_proven(membership_, [&](const PeerRecord& agent) {
    while (row != claims_.end() && row->peer < agent.id) ++row;
    const bool counts = row != claims_.end() && row->peer == agent.id &&
                        row->claim.generation == agent.version.generation && known(row->claim);
    if (counts || !begun_) visit(agent);
  });
}

double SwarmClock::progress_ratio(double own_steps_per_s) const {
  if (!(own_steps_per_s > 0)) return 1;
  std::vector<double> rates{own_steps_per_s};
  for (const Row& row : claims_) {
    if (known(row.claim) && row.claim.rate > 0) rates.push_back(row.claim.rate);
  }
  return std::clamp(median(std::move(rates)) / own_steps_per_s, 1.0, kRateRatioMax);
}

uint64_t SwarmClock::steps(uint64_t own_steps, double own_steps_per_s, bool in_step) {
  const TimePoint now = clock_.now();
  if (!std::exchange(begun_, true)) {
    began_ = window_began_ = now;
    steps_ = own_steps_ = own_steps;  // the first claims count at most as this agent's start
  }
  const bool new_window = now - window_began_ >= kRateWindow;
  if (new_window) window_began_ = now;
  const double progress =
      std::exchange(paused_, 0) + (own_steps > own_steps_ ? static_cast<double>(own_steps - own_steps_) : 0);
  const double most = kProgressMax * progress_ratio(own_steps_per_s) * progress;
  own_steps_ = own_steps;

  std::vector<uint64_t> steps{own_steps};
  size_t next = 0;
  visit_proven(membership_, [&](const PeerRecord& agent) {
    Claim& claim = look_at(agent, next);
    const auto rate = static_cast<double>(agent.meta.steps_per_s);
    claim.least_rate = claim.least_rate == 0 ? rate : std::min(claim.least_rate, rate);
    if (new_window) claim.rate = std::exchange(claim.least_rate, 0);
    const bool silent = claim.own_between == 0;  // what it tells first counts at once, up to the own steps until then
    const double since = in_step ? 0 : steps_since(agent, claim);
    const double room = silent ? std::max(most, claim.own_between) : most;
    claim.counted = std::min(static_cast<double>(agent.meta.steps) + since, claim.counted + room);
    steps.push_back(static_cast<uint64_t>(claim.counted));
  });
  std::erase_if(claims_, [&](const Row& row) { return now - row.claim.last > kForgottenAfter; });
  steps_ = std::max(steps_, median(std::move(steps)));
  return steps_;
}

double SwarmClock::median_mass(double own_mass) const {
  std::vector<double> masses{own_mass};
  visit_known([&](const PeerRecord& agent) { masses.push_back(within_ratio(agent.meta.mass, own_mass)); });
  return median(std::move(masses));
}

double SwarmClock::median_rate(double own_steps_per_s) const {
  std::vector<double> rates;
  if (own_steps_per_s > 0) rates.push_back(own_steps_per_s);
  visit_known([&](const PeerRecord& agent) {
    const auto claimed = static_cast<double>(agent.meta.steps_per_s);
    if (claimed > 0) rates.push_back(within_ratio(claimed, own_steps_per_s));
  });
  return rates.empty() ? 0 : median(std::move(rates));
}

SwarmClock::Tally SwarmClock::tally(const Counts& counts) const {
  Tally found;
  const PeerRecord* to_train = nullptr;
  membership_.visit_alive([&](const Member& member) {
    const MemberMeta& meta = member.record.meta;
    if (!counts(member)) return;
    found.training += takes_part(meta) && meta.phase == Phase::kTraining;
    found.taking_part += takes_part(meta);
    found.ended += has_ended(meta);
    found.miss_the_end += meta.role == Role::kAgent && meta.pause == Pause::kPaused;
    if (!is_to_train(meta)) return;
    ++found.to_train;
    to_train = &member.record;
  });
  if (to_train != nullptr) found.one_to_train = print_name(*to_train);
  return found;
}

}  // namespace starling
