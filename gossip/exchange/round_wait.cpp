#include "gossip/exchange/round_wait.h"

namespace starling {

void RoundWait::begin(const GroupMembers& members, uint64_t round) {
  members_ = members;
  round_ = round;
  times_.begin(clock_.now());
}

std::vector<size_t> RoundWait::ahead() const {
  std::vector<size_t> ranks;
  const bool behind = numbers_.median(members_, round_) > round_;
  for (size_t rank = 0; rank < members_.count(); ++rank) {
    if (rank != members_.self && (behind || numbers_.seen(members_, rank) > round_)) ranks.push_back(rank);
  }
  return ranks;
}

// A member that sent nothing in a whole round may be dead, and the membership takes seconds to be sure. Until it is
// heard again, waiting for it would cost every member two deadlines per round. Two members that own no block exchange
// nothing: such silence says nothing.
std::vector<size_t> RoundWait::silent(size_t blocks) const {
  const auto owned_one = [&](size_t rank) { return members_.first_block(rank, round_ - 1) < blocks; };
  std::vector<size_t> ranks;
  for (size_t rank = 0; rank < members_.count(); ++rank) {
    const uint64_t heard = numbers_.seen(members_, rank);
    if (rank == members_.self || heard == 0 || heard + 1 >= round_) continue;
    if (owned_one(rank) || owned_one(members_.self)) ranks.push_back(rank);
  }
  return ranks;
}

// If every round ends by deadline, a member that is ahead stays ahead: it sees all other blocks as late even though the
// links are fast enough. So it extends its first deadline once.
bool RoundWait::first_ends() {
  if (!times_.first_due(clock_.now())) return false;
  if (!times_.may_extend() || !ahead_of_most()) return true;
  times_.extend();
  return false;
}

// True: the median of the members' rounds is known and earlier than this round.
bool RoundWait::ahead_of_most() const {
  const uint64_t median = numbers_.median(members_, round_);
  return median > 0 && median < round_;
}

void RoundWait::take_back_time() {
  if (!times_.may_extend() && !ahead_of_most()) times_.take_back(clock_.now());
}

}  // namespace starling
