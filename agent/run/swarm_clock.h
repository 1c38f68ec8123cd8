// The swarm as a whole, from its living members' records: median steps, rate and mass. Records are claims. So only
// members count that answered this agent with a random number of its own, each claim is bounded by what this agent
// knows itself, and of an even number the lower middle one counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bootstrap/peer_troubles.h"
#include "gossip/clock.h"
#include "gossip/membership/membership.h"
#include "gossip/membership/taking_part.h"

namespace starling {

bool holds_model(const MemberMeta& meta);   // an agent with a model of its own, whatever it does with it
bool has_finished(const MemberMeta& meta);  // an agent that has, and stays for the others
// Which members count. Records can be invented, so those do that answered. Where a link is cut, what others say of an
// answer counts too: members of a group must reckon with the same ones.
using Counts = std::function<bool(const Member&)>;
inline bool answered(const Member& member) { return member.ever_answered; }
inline bool everybody(const Member&) { return true; }
inline constexpr Duration kTimeToAnswer = std::chrono::seconds(3);  // through others, and a frame may be lost
// Since `began` nobody can have answered before: everybody counts until all had the time to.
inline Counts counting(TimePoint began, TimePoint now) { return now < began + kTimeToAnswer ? everybody : answered; }

// Living agents that train or settle, without this one. The pointers are into the membership: use them at once.
std::vector<const PeerRecord*> agents_taking_part(const Membership& membership, const Counts& counts);

class SwarmClock {
 public:
  SwarmClock(const Membership& membership, const Clock& clock) : membership_(membership), clock_(clock) {}

  // Median steps over this agent and the proven ones that take part; never runs backwards. What a member claims first
  // counts at most as the clock. Later claims count at most as four times this agent's own progress, or that of the
  // median member that is known for long. Alone, or with a slower one: the slower one's.
  // Records are old by up to seconds, so a member's steps since then are reckoned from its pace beside the own one; not
  // where all take the same rounds (`in_step`).
  uint64_t steps(uint64_t own_steps, double own_steps_per_s, bool in_step = false);
  void paused(double steps) { paused_ += steps; }  // so many more this agent would have taken without a pause
  // Over this agent and those that it has known for a while: any number of newcomers may claim what they like, and one
  // agent's mass must not move away from the others'. Until steps() is called, all that are proven count.
  double median_mass(double own_mass) const;
  double median_rate(double own_steps_per_s) const;  // over the agents that know theirs; 0: none does

  // What the other members that count are doing.
  struct Tally {
    size_t training = 0;       // in this phase
    size_t taking_part = 0;    // train or settle
    size_t ended = 0;          // settle or have finished
    size_t to_train = 0;       // train, or are sick and will again
    size_t miss_the_end = 0;   // pause, and do not hold the model that the run ended with
    std::string one_to_train;  // the name of one of them; empty: there is none
  };
  Tally tally(const Counts& counts = answered) const;

 private:
  // What this agent makes of one process of a member.
  struct Claim {
    uint64_t generation = 0;
    TimePoint first;                   // seen
    double counted = 0;                // steps
    double rate = 0, least_rate = 0;   // steps a second: the least of the last window, and of this one so far
    double told = -1;                  // steps, by the last record that told others; negative: none did
    double own_then = 0;               // this agent's, when that came
    double own_between = 0, pace = 0;  // and since the one before; its steps for one of these. 0: not known
    TimePoint last;                    // seen
  };
  struct Row {
    PeerId peer;
    Claim claim;
  };
  // The agent's own, from the row `next` on, to which it moves that.
  Claim& look_at(const PeerRecord& agent, size_t& next);
  double steps_since(const PeerRecord& agent, Claim& claim) const;
  bool known(const Claim& claim) const;  // met at the start, or for long
  void visit_known(const std::function<void(const PeerRecord&)>& visit) const;
  double progress_ratio(double own_steps_per_s) const;  // of a member's progress that counts, to the own one

  const Membership& membership_;
  const Clock& clock_;
  std::vector<Row> claims_;  // by id, as membership_ shows its members: one walk goes along both
  TimePoint began_, window_began_;
  bool begun_ = false;
  uint64_t steps_ = 0, own_steps_ = 0;
  double paused_ = 0;
};

}  // namespace starling
