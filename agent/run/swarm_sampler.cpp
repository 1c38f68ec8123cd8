#include "agent/run/swarm_sampler.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "agent/share/make_exchange.h"
#include "gossip/limits.h"

namespace starling {
namespace {

constexpr Duration kAvoidAfterFailure = std::chrono::seconds(1);

// Refuses an agent that the graph does not name: it would have no neighbor.
void refuse_island(const TopologySpec& topology, const std::string& name) {
  if (topology.kind != TopologyKind::kFile) return;
  const bool named = std::any_of(topology.edges.begin(), topology.edges.end(),
                                 [&](const auto& edge) { return edge.first == name || edge.second == name; });
  if (named) return;
  throw std::runtime_error("no edge of swarm.topology.edges names this agent, '" + name +
                           "': start it with the --name of one of them, or let the swarm take another topology");
}

void refuse_outsider(const std::vector<std::string>& members, const std::string& name) {
  if (members.empty() || std::find(members.begin(), members.end(), name) != members.end()) return;
  throw std::runtime_error("swarm.exchange.members does not name this agent, '" + name +
                           "': start it with the --name of one of them, or let the swarm leave the list empty");
}

}  // namespace

SwarmSamplerOptions swarm_sampler_options(const SwarmConfig& swarm, const std::string& name) {
  SwarmSamplerOptions options;
  options.topology = swarm.topology;
  options.topology.rng_seed = swarm.rng_seed;
  refuse_island(options.topology, name);
  options.settles_in_pairs = settles_in_pairs(swarm);
  if (swarm.exchange.kind == ExchangeKind::kGroup) {
    refuse_outsider(swarm.exchange.members, name);
    options.group_size = members_max(swarm.exchange);
    options.group_names = swarm.exchange.members;
    options.finished_too = shares_updates(swarm.exchange);  // they give what they hold
  }
  return options;
}

SwarmSampler::SwarmSampler(const SwarmSamplerOptions& options, const Membership& membership,
                           const SwarmClock& swarm_clock, const Clock& clock, uint64_t rng_seed)
    : options_(options),
      membership_(membership),
      swarm_clock_(swarm_clock),
      clock_(clock),
      rng_(rng_seed),
      began_(clock.now()) {}

std::string SwarmSampler::name_of(const PeerId& peer) const {
  const Member* member = membership_.find(peer);
  return member ? member->record.meta.name : "";
}

// Agents that start together know each other before any has answered.
Counts SwarmSampler::counting() const { return starling::counting(began_, clock_.now()); }

std::vector<SwarmSampler::Rank> SwarmSampler::ranks(size_t* own) const {
  const PeerRecord& self = membership_.self();
  std::vector<Rank> all{{self.id, self.meta.name, self.meta.mass, self.version.generation}};
  const Counts counts = counting();
  membership_.visit_alive([&](const Member& member) {
    const PeerRecord& agent = member.record;
    const bool in = takes_part(agent.meta) || (options_.finished_too && has_finished(agent.meta));
    if (in && counts(member)) all.push_back({agent.id, agent.meta.name, agent.meta.mass, agent.version.generation});
  });
  std::sort(all.begin(), all.end(), [](const Rank& a, const Rank& b) { return a.id < b.id; });
  const double most = kMassRatioMax * swarm_clock_.median_mass(self.meta.mass);
  for (Rank& rank : all) rank.mass = std::min(rank.mass, most);
  *own = static_cast<size_t>(
      std::find_if(all.begin(), all.end(), [&](const Rank& rank) { return rank.id == self.id; }) - all.begin());
  return all;
}

bool SwarmSampler::pauses(const PeerId& peer) const {
  const Member* member = membership_.find(peer);
  return member != nullptr && answered(*member) && member->record.meta.role == Role::kAgent &&
         member->record.meta.pause != Pause::kNone;
}

std::optional<PeerId> SwarmSampler::choose_among(const std::vector<PeerId>& peers) {
  const TimePoint now = clock_.now();
  uint64_t longest_ago = UINT64_MAX;
  std::vector<PeerId> met_then;
  for (const PeerId& peer : peers) {
    const auto avoided = avoid_until_.find(peer);
    if (avoided != avoid_until_.end() && now < avoided->second) continue;
    const uint64_t met = last_met(peer);
    if (met < longest_ago) met_then.clear();
    longest_ago = std::min(longest_ago, met);
    if (met == longest_ago) met_then.push_back(peer);
  }
  if (met_then.empty()) return std::nullopt;
  return met_then[rng_.below(static_cast<uint32_t>(met_then.size()))];
}

// A newcomer counts as met at a random one of the last meetings. As one never met, it would be asked by all at once.
uint64_t SwarmSampler::last_met(const PeerId& peer) {
  const auto known = last_met_.find(peer);
  if (known != last_met_.end()) return known->second;
  if (meetings_ == 0) return 0;
  const uint64_t ago = rng_.below(static_cast<uint32_t>(std::max<size_t>(1, candidates().size())));
  met_at(peer, meetings_ > ago ? meetings_ - ago : 0);
  return last_met_[peer];
}

void SwarmSampler::met_at(const PeerId& peer, uint64_t meeting) {
  if (last_met_.size() > kMembersMax) last_met_.clear();
  last_met_[peer] = meeting;
}

// Neighbors in a graph have other candidates than this agent has.
bool SwarmSampler::anyone() const {
  const bool named_edges = options_.group_size == 0 && options_.topology.kind == TopologyKind::kFile;
  if (settling_ && options_.settles_in_pairs) return !named_edges;
  if (options_.group_size > 0) return false;
  if (options_.topology.kind == TopologyKind::kMatching) return true;
  return settling_ && options_.topology.kind != TopologyKind::kFile && swarm_clock_.tally().training == 0;
}

std::vector<PeerId> SwarmSampler::candidates() {
  if (settling_ && options_.settles_in_pairs) return settlers();
  std::vector<PeerId> peers;
  if (options_.group_size > 0) return peers;
  if (anyone()) {
    for (const PeerRecord* agent : agents_taking_part(membership_, counting())) peers.push_back(agent->id);
  } else {
    for (const Participant& neighbor : neighbors(round_)) peers.push_back(neighbor.peer);
  }
  return peers;
}

std::vector<PeerId> SwarmSampler::settlers() {
  std::vector<PeerId> peers;
  for (const PeerRecord* agent : agents_taking_part(membership_, counting())) {
    if (agent->meta.phase == Phase::kSettling) peers.push_back(agent->id);
  }
  if (options_.group_size > 0 || options_.topology.kind != TopologyKind::kFile) return peers;
  const std::vector<Participant> linked = neighbors(round_);
  std::erase_if(peers, [&](const PeerId& peer) {
    return std::none_of(linked.begin(), linked.end(), [&](const Participant& one) { return one.peer == peer; });
  });
  return peers;
}

std::optional<PeerId> SwarmSampler::choose(const std::vector<PeerId>& except) {
  std::vector<PeerId> peers = candidates(), out = except;  // both may be nearly all members
  std::sort(out.begin(), out.end());
  std::erase_if(peers, [&](const PeerId& peer) { return std::binary_search(out.begin(), out.end(), peer); });
  return choose_among(peers);
}

std::vector<Participant> SwarmSampler::neighbors(uint64_t round) {
  size_t own;
  const std::vector<Rank> all = ranks(&own);
  std::vector<std::string> names;
  for (const Rank& rank : all) names.push_back(rank.name);
  const Graph graph = make_graph(options_.topology, all.size(), round, names);
  std::vector<Participant> row;
  for (uint32_t j : graph.neighbors[own]) {
    const double weight = edge_weight(graph.degree(own), all[own].mass, graph.degree(j), all[j].mass);
    row.push_back({all[j].id, weight, all[j].mass});
  }
  return row;
}

std::vector<Participant> SwarmSampler::group() {
  size_t own;
  std::vector<Participant> members;
  for (const Rank& rank : first_begun(ranks(&own))) members.push_back({rank.id, rank.mass});
  return members;
}

bool SwarmSampler::outside_group() {
  if (options_.group_size == 0) return false;
  const std::vector<Participant> members = group();
  const PeerId& self = membership_.self().id;
  return std::none_of(members.begin(), members.end(), [&](const Participant& one) { return one.peer == self; });
}

// A member that began earlier never leaves the group because another came.
std::vector<SwarmSampler::Rank> SwarmSampler::first_begun(std::vector<Rank> all) const {
  std::vector<std::string> free = options_.group_names;
  if (!free.empty()) std::erase_if(all, [&](const Rank& rank) { return std::erase(free, rank.name) == 0; });
  if (all.size() <= options_.group_size) return all;
  std::sort(all.begin(), all.end(),
            [](const Rank& a, const Rank& b) { return std::pair(a.generation, a.id) < std::pair(b.generation, b.id); });
  all.resize(options_.group_size);
  std::sort(all.begin(), all.end(), [](const Rank& a, const Rank& b) { return a.id < b.id; });
  return all;
}

void SwarmSampler::failed(const PeerId& peer) { busy(peer, kAvoidAfterFailure); }

void SwarmSampler::busy(const PeerId& peer, Duration free_in) {
  if (avoid_until_.size() > kMembersMax) avoid_until_.clear();
  avoid_until_[peer] = clock_.now() + std::min(free_in, kAvoidAfterFailure);
}

void SwarmSampler::succeeded(const PeerId& peer) { avoid_until_.erase(peer); }

}  // namespace starling
