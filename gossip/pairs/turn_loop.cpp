#include "gossip/pairs/turn_loop.h"

#include <algorithm>

namespace starling {
namespace {

// Up to kTurnsBeyond more than are due, of which kTurnsAhead count for the next boundary. By a schedule only those
// count that the schedule has there.
constexpr uint64_t kTurnsBeyond = 2, kTurnsAhead = 1;

}  // namespace

bool TurnLoop::begins(const Boundary& boundary) {
  if (boundary.number == number_) return false;
  number_ = boundary.number;
  attempts_ = 0;
  ended_ = false;
  return true;
}

bool TurnLoop::goes_on(const Boundary& boundary, const TurnFacts& facts) const {
  if (boundary.closing) return false;
  const uint64_t made = facts.turns - turns_before_;
  if (are_due(boundary, facts, made)) return attempts_ < facts.due + kAttemptsMax - 1;
  return facts.waiting > 0 && made < facts.due + kTurnsBeyond;
}

// What a schedule says holds for the boundary in which this agent published last.
bool TurnLoop::are_due(const Boundary& boundary, const TurnFacts& facts, uint64_t made) const {
  if (!boundary.published) return made < facts.due;
  return made + facts.rested < facts.due || facts.slots_open > 0;
}

Due TurnLoop::end(const Boundary& boundary, const TurnFacts& facts) {
  ended_ = true;
  const uint64_t spent = std::min(turns_before_ + facts.due, facts.turns);
  if (facts.ahead) {
    turns_before_ = facts.turns - (boundary.published ? *facts.ahead : 0);
  } else {
    turns_before_ = std::max(spent, facts.turns - std::min(facts.turns, kTurnsAhead));
  }
  return boundary.steps > facts.wait_max && !boundary.closing ? Due::kPublishForSteps : Due::kApply;
}

}  // namespace starling
