// The options of updates in a group, and its members.
#pragma once

#include <cstdint>
#include <optional>

#include "compression/outer_rule.h"
#include "gossip/exchange/exchange.h"
#include "gossip/exchange/group_members.h"
#include "gossip/limits.h"

namespace starling {

inline constexpr uint64_t kUpdateRoundMax = 1ull << 62;  // no honest count of rounds reaches it, and + 1 cannot wrap

struct UpdateGroupOptions {
  PeerId self;
  uint64_t generation = 0;  // of this process; greater than that of every earlier one
  Duration deadline_min{}, deadline_max{};
  OuterRule outer;
  float first_norm_max = 1e30f;  // an entry's norm, while there are no eight entries to compare it with
  bool last_first = false;       // slices are handed in from the last one to the first, as backward ends; the
                                 //   same at all members, whose credits follow that order
  bool merge = false;            // slices that the log's plan joins travel together (update_plan.h)
  double inject_loss = 0;        // for experiments: this part of contributions, entries and pulls is lost on
  uint64_t rng_seed = 0;         //   receive, by a hash of (rng_seed, round, sender, receiver, slice, kind)
};

// nullopt: this agent is in no group of 1 to kUpdateMembersMax members.
inline std::optional<GroupMembers> update_members(PeerSampler& sampler, const PeerId& self) {
  return group_members(sampler.group(), self, {1, kUpdateMembersMax});
}

}  // namespace starling
