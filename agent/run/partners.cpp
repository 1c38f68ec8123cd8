#include "agent/run/partners.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace starling {
namespace {

constexpr Duration kAvoidAfterFailure = std::chrono::seconds(1);

template <typename T>
T median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Partners::Partners(const Membership& membership, const Clock& clock, uint64_t rng_seed)
    : membership_(membership), clock_(clock), rng_(rng_seed) {}

std::vector<const PeerRecord*> Partners::candidates() const {
  std::vector<const PeerRecord*> agents;
  membership_.visit_alive([&](const Member& member) {
    const MemberMeta& meta = member.record.meta;
    const bool takes_part = meta.phase == Phase::kTraining || meta.phase == Phase::kSettling;
    if (meta.role == Role::kAgent && takes_part) agents.push_back(&member.record);
  });
  return agents;
}

std::vector<Partners::Rank> Partners::ranks(size_t* own) const {
  const PeerRecord& self = membership_.self();
  std::vector<Rank> all{{self.id, self.meta.name, self.meta.mass}};
  for (const PeerRecord* agent : candidates()) all.push_back({agent->id, agent->meta.name, agent->meta.mass});
  std::sort(all.begin(), all.end(), [](const Rank& a, const Rank& b) { return a.id < b.id; });
  const double most = kMassRatioMax * median_mass(self.meta.mass);
  for (Rank& rank : all) rank.mass = std::min(rank.mass, most);
  *own = static_cast<size_t>(
      std::find_if(all.begin(), all.end(), [&](const Rank& rank) { return rank.id == self.id; }) - all.begin());
  return all;
}

std::optional<PeerId> Partners::choose_among(const std::vector<PeerId>& peers) {
  const TimePoint now = clock_.now();
  std::vector<PeerId> free;
  for (const PeerId& peer : peers) {
    const auto avoided = avoid_until_.find(peer);
    if (avoided == avoid_until_.end() || now >= avoided->second) free.push_back(peer);
  }
  if (free.empty()) return std::nullopt;
  return free[rng_.below(static_cast<uint32_t>(free.size()))];
}

std::optional<PeerId> Partners::choose() {
  std::vector<PeerId> peers;
  if (group_size_ > 0) {
    const std::vector<Participant> inside = group();
    for (const PeerRecord* agent : candidates()) {
      const bool own_group = std::any_of(inside.begin(), inside.end(),
                                         [&](const Participant& one) { return one.peer == agent->id; });
      if (!own_group) peers.push_back(agent->id);
    }
  } else if (topology_.kind == TopologyKind::kMatching) {   // whoever is free: no need to agree on the pairs
    for (const PeerRecord* agent : candidates()) peers.push_back(agent->id);
  } else {
    for (const Participant& neighbor : neighbors(round_)) peers.push_back(neighbor.peer);
  }
  return choose_among(peers);
}

std::vector<Participant> Partners::neighbors(uint64_t round) {
  size_t own;
  const std::vector<Rank> all = ranks(&own);
  std::vector<std::string> names;
  for (const Rank& rank : all) names.push_back(rank.name);
  const Graph graph = make_graph(topology_, all.size(), round, names);
  std::vector<Participant> row;
  for (uint32_t j : graph.neighbors[own]) {
    row.push_back({all[j].id, edge_weight(graph.degree(own), all[own].mass, graph.degree(j), all[j].mass)});
  }
  return row;
}

std::vector<Participant> Partners::group() {
  size_t own;
  const std::vector<Rank> all = ranks(&own);
  if (!group_names_.empty()) return named_group(all);
  const size_t size = group_size_ > 0 ? group_size_ : kGroupMax;
  const size_t groups = (all.size() + size - 1) / size;
  const size_t mine = own * groups / all.size();
  std::vector<Participant> members;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i * groups / all.size() == mine) members.push_back({all[i].id, all[i].mass});
  }
  return members;
}

std::vector<Participant> Partners::named_group(const std::vector<Rank>& all) const {
  std::vector<std::string> free = group_names_;
  std::vector<Participant> members;
  for (const Rank& rank : all) {
    if (std::erase(free, rank.name) > 0) members.push_back({rank.id, rank.mass});
  }
  return members;
}

void Partners::failed(const PeerId& peer) { busy(peer, kAvoidAfterFailure); }

void Partners::busy(const PeerId& peer, Duration free_in) {
  if (avoid_until_.size() > kMembersMax) avoid_until_.clear();
  avoid_until_[peer] = clock_.now() + std::min(free_in, kAvoidAfterFailure);
}

void Partners::succeeded(const PeerId& peer) { avoid_until_.erase(peer); }

uint64_t Partners::swarm_steps(uint64_t own_steps) {
  std::vector<uint64_t> steps{own_steps};
  for (const PeerRecord* agent : candidates()) steps.push_back(agent->meta.steps);
  swarm_steps_ = std::max(swarm_steps_, median(std::move(steps)));
  return swarm_steps_;
}

double Partners::median_mass(double own_mass) const {
  std::vector<double> masses{own_mass};
  for (const PeerRecord* agent : candidates()) masses.push_back(agent->meta.mass);
  return median(std::move(masses));
}

double Partners::median_rate(double own_steps_per_s) const {
  std::vector<double> rates;
  if (own_steps_per_s > 0) rates.push_back(own_steps_per_s);
  for (const PeerRecord* agent : candidates()) {
    if (agent->meta.steps_per_s > 0) rates.push_back(static_cast<double>(agent->meta.steps_per_s));
  }
  return rates.empty() ? 0 : median(std::move(rates));
}

size_t Partners::training_count() const {
  const std::vector<const PeerRecord*> agents = candidates();
  return static_cast<size_t>(std::count_if(agents.begin(), agents.end(), [](const PeerRecord* agent) {
    return agent->meta.phase == Phase::kTraining;
  }));
}

size_t Partners::candidate_count() const { return candidates().size(); }

}  // namespace starling
