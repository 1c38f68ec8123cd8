// The order of probes: round-robin over a shuffled list, so that each member is probed once per lap at an unpredictable
// time. A newcomer is inserted at a random place of the lap, a suspect at its front.
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

  void insert(const PeerId& peer);      // a member that has become alive
  void probe_soon(const PeerId& peer);  // a member that has become suspect
  std::optional<PeerId> next();         // nullopt: there is no member to probe

 private:
  void make_room();

  MembershipContext& context_;
  const MemberTable& table_;
  std::vector<PeerId> order_;
  size_t position_ = 0;
};

}  // namespace starling
