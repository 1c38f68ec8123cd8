// Whom to probe next: round-robin over a shuffled list, so that each member is probed once a lap and nobody can tell
// when. A newcomer goes to a random place of the lap, a suspect to its front.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "gossip/membership/context.h"
#include "gossip/membership/member_table.h"

namespace starling {

class ProbeOrder {
 public:
  ProbeOrder(MembershipContext& context, const MemberTable& table) : context_(context), table_(table) {}

  void insert(const PeerId& peer);      // it has come alive
  void probe_soon(const PeerId& peer);  // somebody suspects it
  std::optional<PeerId> next();         // nullopt: there is nobody

 private:
  MembershipContext& context_;
  const MemberTable& table_;
  std::vector<PeerId> order_;
  size_t position_ = 0;
};

}  // namespace starling
