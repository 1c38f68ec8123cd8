#include "agent/partners.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace starling {
namespace {

constexpr Duration kAvoidAfterFailure = std::chrono::seconds(1);

template <typename T>
T median(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

double choose_mass(const std::string& weight, double steps_per_s, uint64_t data_size, double before) {
  if (weight == "equal") return 1;
  if (!(steps_per_s > 0)) return before;
  const double share = weight == "data" ? std::max<double>(1, static_cast<double>(data_size)) : 1;
  const double exact = share / steps_per_s;
  if (before > 0 && exact < before * 1.5 && before < exact * 1.5) return before;
  return std::exp2(std::round(2 * std::log2(exact)) / 2);
}

Partners::Partners(const Membership& membership, const Clock& clock, uint64_t rng_seed)
    : membership_(membership), clock_(clock), rng_(rng_seed) {}

std::vector<Member> Partners::candidates() const {
  std::vector<Member> agents = membership_.alive();
  std::erase_if(agents, [](const Member& member) {
    const MemberMeta& meta = member.record.meta;
    return meta.role != Role::kAgent || (meta.phase != Phase::kTraining && meta.phase != Phase::kSettling);
  });
  return agents;
}

std::optional<PeerId> Partners::choose() {
  std::vector<Member> agents = candidates();
  const TimePoint now = clock_.now();
  std::erase_if(agents, [&](const Member& member) {
    const auto avoided = avoid_until_.find(member.record.id);
    return avoided != avoid_until_.end() && now < avoided->second;
  });
  if (agents.empty()) return std::nullopt;
  return agents[rng_.below(static_cast<uint32_t>(agents.size()))].record.id;
}

void Partners::failed(const PeerId& peer) {
  if (avoid_until_.size() > kMembersMax) avoid_until_.clear();
  avoid_until_[peer] = clock_.now() + kAvoidAfterFailure;
}

void Partners::succeeded(const PeerId& peer) { avoid_until_.erase(peer); }

uint64_t Partners::swarm_steps(uint64_t own_steps) {
  std::vector<uint64_t> steps{own_steps};
  for (const Member& member : candidates()) steps.push_back(member.record.meta.steps);
  swarm_steps_ = std::max(swarm_steps_, median(std::move(steps)));
  return swarm_steps_;
}

double Partners::median_mass(double own_mass) const {
  std::vector<double> masses{own_mass};
  for (const Member& member : candidates()) masses.push_back(member.record.meta.mass);
  return median(std::move(masses));
}

size_t Partners::training_count() const {
  const std::vector<Member> agents = candidates();
  return static_cast<size_t>(std::count_if(agents.begin(), agents.end(), [](const Member& member) {
    return member.record.meta.phase == Phase::kTraining;
  }));
}

size_t Partners::candidate_count() const { return candidates().size(); }

}  // namespace starling
