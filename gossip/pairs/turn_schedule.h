// The next partner of an agent by turns, where all may meet each other. Two agents that propose to each other at the
// same time are both free after one latency (turn_admission.h). Partners chosen independently rarely do that, and most
// of a step goes to asking busy agents. So all derive the partners from the same sorted ids and the same boundary
// number. Agents i and j meet where i + j equals a number of the slot, modulo the number of agents. As many slots in a
// row as the binary logarithm of n bring every agent the mean of all, exactly if n is a power of two.
//
// A boundary has one or more slots. A proposal names its slot. An agent in an earlier slot lets it wait: slots only
// grow along such waiting, so it closes no ring.
//
// Each agent counts boundaries for itself. An agent that hears of a boundary two ahead goes there at its next one, and
// asks nobody before that: its partners are in later slots and would answer BUSY. So all counts agree after a few
// exchanges. A peer may move this agent about as often as most others do, so a liar moves nobody for long.
//
// In a schedule all wait for each other, so different speeds and lost frames cost more than among random partners. An
// agent with partners that often answer late pauses its schedule, and says so. While most pause, all do. In the slots
// of a partner that let a turn end undecided this agent rests: waiting for it would keep the others waiting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "gossip/peer.h"

namespace starling {

class TurnSchedule {
 public:
  // A slot is boundary * kSlots + which of its slots. The last one says that this agent has paused its schedule; older
  // programs say the last but one before they have met anybody by theirs.
  static constexpr uint64_t kSlots = 8, kSlotsMax = 6, kPauses = 7;
  static constexpr uint64_t kMovesFree = 2;
  static constexpr uint32_t kWindow = 8, kLateFree = 1;      // partners asked; those of them that may be late
  static constexpr uint32_t kBadWindows = 3;                 // in a row, and there is no schedule
  static constexpr uint64_t kPause = 16, kDoublingsMax = 8;  // boundaries without one
  static constexpr uint64_t kHeldTrue = 64;                  // that a peer pauses, up to a multiple of this boundary
  static constexpr uint64_t kBarredMax = 4, kExplains = 2;   // turns that one let end undecided in a row

  explicit TurnSchedule(const PeerId& self) : self_(self) {}

  // The slots after which each of so many agents has the mean of all, or nearly.
  static uint64_t slots_to_mix(size_t agents);

  // This agent has passed so many boundaries since the last call, and `slots` exchanges are due at this one. `others`:
  // the peers that this agent may meet, and that may meet each other, sorted. Empty: there is no schedule.
  void begin(uint64_t boundaries, uint64_t slots, std::vector<PeerId> others);

  bool on() const { return on_; }  // at this boundary
  uint64_t slots() const { return slots_; }
  uint64_t slot() const;                  // where this agent is: the first open one of this boundary, or its last
  uint64_t open() const;                  // slots of this boundary that are neither settled nor tried
  uint64_t rests() const;                 // slots of this boundary in which this agent meets nobody
  std::optional<PeerId> partner() const;  // in slot(); nullopt: none is open
  void tried();                           // slot() is not open any more
  void rest();                            // likewise, and this agent meets nobody in it
  uint64_t ahead() const;                 // slots of the next boundary that are settled

  // Whether this is the peer's slot, of this boundary or the next, and still to be settled.
  bool expects(const PeerId& peer, uint64_t slot) const;
  bool reckons_alike(const PeerId& peer, uint64_t slot) const;  // whether it may say so of its slot, wherever that is
  void mixed(const PeerId& peer, uint64_t slot);  // an exchange with the peer was applied; slot: its proposer's
  void heard(const PeerId& peer, uint64_t slot);  // the peer is there
  void answered(bool in_time);                    // by the partner that was asked
  void came_to_nothing();                         // with the partner that was asked: this agent rests in that slot
  // An exchange with the peer, which this agent began or not. Not decided: by the peer's doing. `untried`: it never
  // decided one of that kind (fair_share.h).
  void ended(const PeerId& peer, bool initiated, bool decided, bool untried);

 private:
  struct Barred {
    uint64_t times = 0, until = 0;  // until: a boundary
  };
  std::optional<PeerId> partner_in(uint64_t slot) const;
  std::optional<PeerId> meets_in(uint64_t slot) const;  // the peer to be asked there
  bool barred(const std::map<PeerId, Barred>& rows, const PeerId& peer) const;
  void skip_closed();
  bool may_move(const PeerId& peer) const;
  void pause();
  bool most_pause() const;
  bool pauses() const { return boundary_ < paused_until_ || ids_.size() < 2; }

  const PeerId self_;
  std::vector<PeerId> ids_;                       // sorted, this agent among them
  size_t own_ = 0;                                // its index
  uint64_t boundary_ = 0, slots_ = 1, next_ = 1;  // next_: of slots_, the first that may be open
  uint64_t rested_ = 0;                           // slots of this boundary, by rest()
  std::set<uint64_t> settled_;                    // slots of this boundary and the next
  uint64_t ahead_ = 0;                            // the boundary to go to
  std::map<PeerId, uint64_t> moved_;              // how often a peer moved this agent
  bool on_ = false;
  uint32_t asked_ = 0, late_ = 0, bad_windows_ = 0;
  uint64_t paused_until_ = 0, doublings_ = 0;
  std::map<PeerId, uint64_t> pausing_;                 // peers that said so last, and the boundary that it holds until
  std::map<PeerId, Barred> not_asked_, not_expected_;  // as they let our exchanges end, and theirs
};

}  // namespace starling
