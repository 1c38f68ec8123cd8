// Members that were in the swarm as its training ended, and were given up, or began another life, before they told that
// they agree. A model that was trained to the end is then missing, and its agent may yet go on with it.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "gossip/membership/membership.h"

namespace starling {

class LostMembers {
 public:
  explicit LostMembers(const Membership& membership) : membership_(membership) {}  // which outlives the object

  // `training_ended`: of the swarm, as far as this agent knows. A member given up earlier was none at the end;
  // nor was one that never answered this agent, which may be invented.
  void look(const MemberEvent& event, bool training_ended);

  void forget() { names_.clear(); }  // the training goes on

  // Without those that take part again, have left politely, or had finished with a model that `agrees`.
  struct Missed {
    size_t dead = 0, joining = 0;  // joining: in another life, which does not take part yet
    std::string name;              // of one of them, a dead one if there is one
  };
  Missed missed(const std::function<bool(const MemberMeta&)>& agrees) const;

 private:
  const Membership& membership_;
  std::map<PeerId, std::string> names_;
};

}  // namespace starling
