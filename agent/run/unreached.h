// Names the members that this agent and they cannot reach each other, though others can, or though a connection is
// taken: with both addresses, and what to open. Or that a membership has ended, and how it is renewed.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "agent/observe/trouble_notice.h"
#include "bootstrap/path_found.h"
#include "gossip/clock.h"
#include "gossip/membership/membership.h"

namespace starling {

class Unreached {
 public:
  // The references outlive the object. Without `find_path` nothing is said. `ended`: the member's membership, for which
  // this agent turns it away.
  Unreached(const Membership& membership, const Clock& clock, FindPath find_path,
            std::function<bool(const PeerId& member)> ended)
      : membership_(membership),
        clock_(clock),
        find_path_(std::move(find_path)),
        ended_(std::move(ended)),
        notice_(clock) {}

  void look();  // about once a second

 private:
  std::string describe(const Member& member) const;  // empty: its path is not known yet, or it is gone

  const Membership& membership_;
  const Clock& clock_;
  const FindPath find_path_;
  const std::function<bool(const PeerId& member)> ended_;
  TroubleNotice notice_;
};

}  // namespace starling
