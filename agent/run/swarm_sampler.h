// Chooses the next partner: the graph or the group of the settings, applied to the agents that live now.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/config/config.h"
#include "agent/run/swarm_clock.h"
#include "gossip/clock.h"
#include "gossip/exchange/exchange.h"
#include "gossip/exchange/topology.h"
#include "gossip/membership/membership.h"
#include "gossip/rng.h"

namespace starling {

struct SwarmSamplerOptions {
  TopologySpec topology;
  uint32_t group_size = 0;               // group: at most so many agents, those that began first; 0: no group
  std::vector<std::string> group_names;  // not empty: of these alone
  bool finished_too = false;             // group: also members that have finished, until they leave
  bool settles_in_pairs = false;         // with those alone that settle too; exchanges go in rounds until then
};

// The swarm's settings as they apply to the agent called `name`. Throws std::runtime_error if they leave it no place.
SwarmSamplerOptions swarm_sampler_options(const SwarmConfig& swarm, const std::string& name);

class SwarmSampler final : public PeerSampler {
 public:
  SwarmSampler(const SwarmSamplerOptions& options, const Membership& membership, const SwarmClock& swarm_clock,
               const Clock& clock, uint64_t rng_seed);

  void set_round(uint64_t round) { round_ = round; }  // for graphs that change, and for choose()

  // While this agent settles and nobody trains, pairs draw anyone: one model is found sooner than along a graph. Where
  // exchanges go in rounds until then, they draw any other that settles. Named edges stay, since they may be the only
  // links.
  void settle(bool settling) { settling_ = settling; }

  // Of the living agents that train or settle, are our neighbors in the graph, and did not fail us within
  // kAvoidAfterFailure: the one met longest ago, among equals a random one. In a group: nobody.
  std::optional<PeerId> choose(const std::vector<PeerId>& except) override;
  void met(const PeerId& peer) override { met_at(peer, ++meetings_); }
  uint64_t last_met(const PeerId& peer) override;
  std::vector<PeerId> candidates() override;
  bool anyone() const override;
  // Metropolis-Hastings rows over the living, sorted by id; a mass counts at most kMassRatioMax times the median.
  std::vector<Participant> neighbors(uint64_t round) override;
  // The swarm's group. Of two agents with the same name the smaller id counts, so that a group is never larger than its
  // list. REQUIRES: group_size > 0.
  std::vector<Participant> group() override;
  bool pauses(const PeerId& peer) const override;
  // The group is full without this agent.
  bool outside_group();

  void failed(const PeerId& peer);
  void busy(const PeerId& peer, Duration free_in);  // not chosen until then, for kAvoidAfterFailure at most
  void succeeded(const PeerId& peer);

  std::string name_of(const PeerId& peer) const;  // empty: not known

 private:
  struct Rank {
    PeerId id;
    std::string name;
    double mass = 1;
    uint64_t generation = 0;
  };
  std::vector<Rank> ranks(size_t* own) const;  // living agents and ourselves, sorted by id
  std::vector<Rank> first_begun(std::vector<Rank> all) const;
  std::vector<PeerId> settlers();
  Counts counting() const;  // those with a silence that may keep this agent waiting
  void met_at(const PeerId& peer, uint64_t meeting);
  std::optional<PeerId> choose_among(const std::vector<PeerId>& peers);

  const SwarmSamplerOptions options_;
  const Membership& membership_;
  const SwarmClock& swarm_clock_;
  const Clock& clock_;
  Rng rng_;
  const TimePoint began_;
  std::unordered_map<PeerId, TimePoint> avoid_until_;
  uint64_t round_ = 0;
  bool settling_ = false;
  std::unordered_map<PeerId, uint64_t> last_met_;  // in meetings_
  uint64_t meetings_ = 0;
};

}  // namespace starling
