// How far apart the swarm's models are, as their projections in the members' records tell (kernels/projection.h).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "agent/run/swarm_clock.h"
#include "gossip/exchange/snapshot.h"
#include "gossip/membership/membership.h"
#include "kernels/projection.h"

namespace starling {

struct Agreement {
  size_t members = 0;             // others that count, and train, settle or have finished
  size_t unknown = 0;             // of those, whose record has no projection
  // Rms distances over this agent's rms params. nullopt: nobody's projection is known.
  std::optional<double> to_mean;  // from this model to the mean of all models, this one's too
  std::optional<double> farthest; // of another's model from this one
  // Each of them; infinitely far where its record has no projection. Not those that have neither told one nor answered:
  // whoever invents ids would widen what a lying partner may do.
  std::vector<Apart> others;
  std::string farthest_name;      // of whose it is, or its id where it has no name
  std::string unknown_name;       // of one whose record has no projection, likewise
};

// Of that member's model from the own one, over `own_rms`. nullopt: its record has no projection. `own_rms` > 0.
std::optional<double> distance_to(const MemberMeta& meta, const Projection& own, double own_rms);
// `own_rms` > 0.
Agreement look_at_agreement(const Membership& membership, const Projection& own, double own_rms,
                            const Counts& counts = answered);

}  // namespace starling
