#include "agent/run/swarm_clock.h"

#include <algorithm>
#include <utility>

namespace starling {
namespace {

template <typename T>
T median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

bool takes_part(const MemberMeta& meta) {
  return meta.role == Role::kAgent && (meta.phase == Phase::kTraining || meta.phase == Phase::kSettling);
}

bool has_finished(const MemberMeta& meta) { return meta.role == Role::kAgent && meta.phase == Phase::kFinished; }

std::vector<const PeerRecord*> agents_taking_part(const Membership& membership) {
  std::vector<const PeerRecord*> agents;
  membership.visit_alive([&](const Member& member) {
    if (takes_part(member.record.meta)) agents.push_back(&member.record);
  });
  return agents;
}

uint64_t SwarmClock::steps(uint64_t own_steps) {
  std::vector<uint64_t> steps{own_steps};
  for (const PeerRecord* agent : agents_taking_part(membership_)) steps.push_back(agent->meta.steps);
  steps_ = std::max(steps_, median(std::move(steps)));
  return steps_;
}

double SwarmClock::median_mass(double own_mass) const {
  std::vector<double> masses{own_mass};
  for (const PeerRecord* agent : agents_taking_part(membership_)) masses.push_back(agent->meta.mass);
  return median(std::move(masses));
}

double SwarmClock::median_rate(double own_steps_per_s) const {
  std::vector<double> rates;
  if (own_steps_per_s > 0) rates.push_back(own_steps_per_s);
  for (const PeerRecord* agent : agents_taking_part(membership_)) {
    if (agent->meta.steps_per_s > 0) rates.push_back(static_cast<double>(agent->meta.steps_per_s));
  }
  return rates.empty() ? 0 : median(std::move(rates));
}

bool SwarmClock::some_ended() const {
  bool some = false;
  membership_.visit_alive([&](const Member& member) {
    const MemberMeta& meta = member.record.meta;
    some = some || has_finished(meta) || (meta.role == Role::kAgent && meta.phase == Phase::kSettling);
  });
  return some;
}

size_t SwarmClock::training_count() const {
  const std::vector<const PeerRecord*> agents = agents_taking_part(membership_);
  return static_cast<size_t>(std::count_if(agents.begin(), agents.end(), [](const PeerRecord* agent) {
    return agent->meta.phase == Phase::kTraining;
  }));
}

}  // namespace starling
