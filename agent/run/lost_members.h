// Members that were in the swarm as its training ended, and were given up, or began another life, before they told that
// they agree. A model that was trained to the end is then missing, and its agent may yet go on with it. Not where that
// machine says that nobody listens at its port: then the process is gone.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "bootstrap/path_found.h"
#include "gossip/membership/membership.h"

namespace starling {

class LostMembers {
 public:
  // The membership outlives the object. `find_path` may be empty.
  LostMembers(const Membership& membership, FindPath find_path)
      : membership_(membership), find_path_(std::move(find_path)) {}

  // `training_ended`: of the swarm, as far as this agent knows. A member given up earlier was none at the end;
  // nor was one that never answered this agent, which may be invented.
  void look(const MemberEvent& event, bool training_ended);

  void forget() { names_.clear(); }  // the training goes on

  // Without those that take part again, have left politely, are gone, or had finished with a model that `agrees`.
  struct Missed {
    size_t dead = 0, joining = 0;  // joining: in another life, which does not take part yet
    size_t unknown = 0;            // dead, and it is not found out yet whether the process is gone
    std::string name;              // of one of them, a dead one if there is one
  };
  Missed missed(const std::function<bool(const MemberMeta&)>& agrees) const;

 private:
  const Membership& membership_;
  const FindPath find_path_;
  std::map<PeerId, std::string> names_;
};

}  // namespace starling
