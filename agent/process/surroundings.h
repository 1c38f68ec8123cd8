// What the network and the machine do to a running agent: another address, a sleep, lost packets, and a number of an
// earlier life that is too high.
#pragma once

#include <map>
#include <string>

#include "agent/observe/trouble_notice.h"
#include "agent/process/address_watch.h"
#include "agent/process/state_folder.h"
#include "agent/run/agent.h"
#include "gossip/clock.h"

namespace starling {

class Surroundings {
 public:
  // The references outlive the object. `again`: the agent has begun again lately.
  Surroundings(Agent& agent, const StatePlace& place, AddressWatch& addresses, const Clock& clock, bool again);

  void tick();
  // The agent leaves, to begin again with a higher generation, which is stored.
  bool begins_again() const { return !begins_again_because_.empty(); }
  // And why, with the remedy.
  const std::string& begins_again_because() const { return begins_again_because_; }

 private:
  void move(const AddressChange& change);
  void store(const Endpoint& address);
  void look_at_packets();
  void begin_again();

  Agent& agent_;
  const StatePlace& place_;
  AddressWatch& addresses_;
  const Clock& clock_;
  TroubleNotice notice_;
  const TimePoint may_begin_again_;
  TimePoint next_, next_doubt_;
  std::map<std::string, uint32_t> heard_at_;  // host -> times that its stuck packet was sent, when it was heard
  std::string begins_again_because_;
};

}  // namespace starling
