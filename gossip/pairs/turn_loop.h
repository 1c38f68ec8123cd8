// How many exchanges an agent makes by turns at one boundary: as many as are due, initiated or accepted. Waiting peers
// are served beyond that, since their blocks are here and serving them takes no time. Some of these count for the next
// boundary.
#pragma once

#include <cstdint>
#include <optional>

#include "gossip/clock.h"
#include "gossip/exchange/boundary.h"

namespace starling {

// What the loop decides by.
struct TurnFacts {
  uint64_t turns = 0;    // exchanges that this agent has applied, initiated or accepted
  uint64_t due = 1;      // of them at a boundary
  uint64_t waiting = 0;  // proposals that wait for a turn and may have one
  // Of the schedule (turn_schedule.h), since the last publish(): partners that are not asked yet, slots without an
  // exchange, exchanges of the next boundary that are made. `ahead` is nullopt without a schedule.
  uint64_t slots_open = 0, rested = 0;
  std::optional<uint64_t> ahead;
  Duration wait_max{};  // peers cannot wait for steps that take longer than this
};

class TurnLoop {
 public:
  // True: a new boundary begins.
  bool begins(const Boundary& boundary);
  bool ended() const { return ended_; }
  // Whether another exchange is to be made, with an attempt of this agent's or by serving a peer.
  bool goes_on(const Boundary& boundary, const TurnFacts& facts) const;
  void tried() { ++attempts_; }
  // Due::kPublishForSteps: a payload is left behind for peers that ask during the steps.
  Due end(const Boundary& boundary, const TurnFacts& facts);

 private:
  bool are_due(const Boundary& boundary, const TurnFacts& facts, uint64_t made) const;

  uint64_t number_ = 0;        // of the boundary
  uint64_t turns_before_ = 0;  // exchanges that count for earlier boundaries
  uint32_t attempts_ = 0;
  bool ended_ = false;
};

}  // namespace starling
