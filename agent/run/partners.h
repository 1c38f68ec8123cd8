// Whom to exchange with next, and what the living members say of the swarm: its clock and its masses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "gossip/clock.h"
#include "gossip/exchange/exchange.h"
#include "gossip/exchange/group.h"
#include "gossip/exchange/topology.h"
#include "gossip/limits.h"
#include "gossip/membership/membership.h"
#include "gossip/rng.h"

namespace starling {

class Partners final : public Company {
 public:
  Partners(const Membership& membership, const Clock& clock, uint64_t rng_seed);

  // Before that everybody is joined to everybody.
  void set_topology(const TopologySpec& topology) { topology_ = topology; }
  void set_groups(uint32_t group_size) { group_size_ = group_size; }
  void set_group(std::vector<std::string> names) { group_names_ = std::move(names); }   // one, of these alone
  void set_round(uint64_t round) { round_ = round; }   // for graphs that change, and for choose()

  // A random living agent that trains or settles, is joined to us and did not fail us within kAvoidAfterFailure.
  // Where there are groups: somebody of another one.
  std::optional<PeerId> choose() override;
  // Metropolis-Hastings rows over the living, sorted by id; a mass counts at most kMassRatioMax times the median.
  std::vector<Participant> neighbors(uint64_t round) override;
  // This agent's group: the sorted living agents cut into runs of like size, or those named. Of two with the same name
  // the smaller id counts: so that nobody makes a group larger than its list.
  std::vector<Participant> group() override;
  void failed(const PeerId& peer);
  void busy(const PeerId& peer, Duration free_in);   // chosen no more until then, for kAvoidAfterFailure at most
  void succeeded(const PeerId& peer);

  // Median steps over living agents and ourselves; never runs backwards.
  uint64_t swarm_steps(uint64_t own_steps);
  double median_mass(double own_mass) const;
  double median_rate(double own_steps_per_s) const;   // over those that know theirs; 0: nobody does
  size_t training_count() const;     // living agents still in phase training
  size_t candidate_count() const;    // living agents that could be chosen, avoided ones included

 private:
  struct Rank {
    PeerId id;
    std::string name;
    double mass = 1;
  };
  std::vector<const PeerRecord*> candidates() const;   // of the membership: to be used at once
  std::vector<Rank> ranks(size_t* own) const;   // living agents and ourselves, sorted by id
  std::vector<Participant> named_group(const std::vector<Rank>& all) const;
  std::optional<PeerId> choose_among(const std::vector<PeerId>& peers);
  const Membership& membership_;
  const Clock& clock_;
  Rng rng_;
  std::unordered_map<PeerId, TimePoint> avoid_until_;
  uint64_t swarm_steps_ = 0, round_ = 0;
  TopologySpec topology_;
  uint32_t group_size_ = 0;          // 0: no groups
  std::vector<std::string> group_names_;   // empty: the groups are of everybody
};

}  // namespace starling
