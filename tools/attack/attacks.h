// What a stranger may do to a swarm, by name. Each attack is a few ids and one act, done so many times a second.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tools/attack/stranger.h"

namespace starling {

// What an attack works with. Kept alive by the caller.
struct Siege {
  Stranger& stranger;
  std::vector<PeerId> ids;               // as many as the attack wants
  std::vector<SharedBytes> zeros, huge;  // blocks of the swarm's layout: fp32 zeros, and 1e6 each
  uint64_t acts = 0;                     // so far

  const PeerId& next_id() const { return ids[acts % ids.size()]; }
  // Members take turns, and so do ids: with both counts alike one id would always meet one member.
  const PeerRecord& next_member() const;
};

struct Attack {
  const char* name;
  const char* does;
  size_t ids;      // its own
  bool joins;      // as members that say they train
  uint64_t steps;  // that they claim
  double rate;     // acts a second
  std::function<void(Siege&)> act;
  std::function<void(Siege&, const FrameHeader&, const Message&)> answer;  // to what comes back; may be null
};

const std::vector<Attack>& attacks();
const Attack* find_attack(const std::string& name);  // nullptr: there is none

}  // namespace starling
