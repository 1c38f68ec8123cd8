// How far apart the swarm's models are, as their projections in the members' records tell (kernels/projection.h).
#pragma once

#include <algorithm>
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
  size_t members = 0;  // others that count, and train, settle or have finished
  size_t unknown = 0;  // of those, records without a projection
  // Rms distances over this agent's rms params. nullopt: no projection is known.
  std::optional<double> to_mean;   // from this model to the mean of all models, this one's too
  std::optional<double> farthest;  // of another's model from this one
  // Each of them; infinitely far where its record has no projection. Members that have neither told one nor answered
  // are left out: invented ids would widen what a lying partner may do.
  std::vector<Apart> others;
  std::string farthest_name;  // of that agent, or its id where it has no name
  std::string unknown_name;   // of one with no projection in its record, likewise
};

// Of that member's model from the own one, over `own_rms`. nullopt: its record has no projection. `own_rms` > 0.
std::optional<double> distance_to(const MemberMeta& meta, const Projection& own, double own_rms);
// `own_rms` > 0.
Agreement look_at_agreement(const Membership& membership, const Projection& own, double own_rms,
                            const Counts& counts = answered);

// Models may be so many times as far apart as projections tell: estimates, some time old, or chosen by a liar.
inline constexpr double kMayBeFarther = 3;

struct OthersModel {
  Projection theirs, own;
  double within = 0;  // rms: so far from `theirs` may lie what donors send

  double apart() const { return std::max(2 * within, projected_distance(theirs, own)); }
};

// A member's model with which more than half of all members agree: none lies farther from it than `near`, rms.
// Nullopt: there is none, or the own model is no farther from such a one than `far`: exchanges bring it there.
std::optional<OthersModel> model_of_most(const Membership& membership, const Projection& own, double near, double far,
                                         const Counts& counts);
// The same of the other members alone, which have ended with it, and however near the own model is.
std::optional<OthersModel> model_of_others(const Membership& membership, const Projection& own, double near,
                                           const Counts& counts);

}  // namespace starling
