// One round of a group at one member: sends and receives the blocks of both phases, and decides when the round ends.
// The object is used for one round after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "gossip/exchange/block_outcome.h"
#include "gossip/exchange/block_owner.h"
#include "gossip/exchange/group_averages.h"
#include "gossip/exchange/group_members.h"
#include "gossip/exchange/group_streams.h"
#include "gossip/exchange/options.h"
#include "gossip/exchange/round_numbers.h"
#include "gossip/exchange/round_times.h"

namespace starling {

// How a round ended for this agent. There is no delta if no block of another member counted.
struct RoundEnd {
  ExchangeReport report;
  bool whole = false;              // every block of both phases arrived in time
  std::optional<Delta> delta;
};

class GroupRound {
 public:
  // All references must outlive the object. `codec` is used from worker jobs.
  GroupRound(const GroupOptions& options, const Layout& layout, const Codec& codec, Worker& worker, const Clock& clock,
             Outbox& outbox, const RoundNumbers& numbers, OutcomeTally& outcomes, std::function<void(RoundEnd)> on_end);

  // REQUIRES: the previous round has ended. Its blocks that are still missing are settled now.
  void begin(const GroupMembers& members, uint64_t number, std::shared_ptr<const Snapshot> own);

  uint64_t number() const { return number_; }        // 0: none yet
  const GroupMembers& members() const { return members_; }
  bool open() const { return open_; }                // a member may still need blocks of it; a closed round sends none
  bool ended() const { return ended_; }              // for this agent: its delta is made

  bool fits(const RoundBlock& block, const SharedBytes& payload) const {
    return payload.size <= payload_bytes_max_[block.index];
  }
  uint32_t window(const GroupMembers& members) const { return streams_.window(members); }

  // From other members. REQUIRES: the indices and phases are in range.
  void receive(size_t rank, const RoundBlock& block, const SharedBytes& payload);        // of this round
  void receive_late(size_t rank, const RoundBlock& block, const SharedBytes& payload);   // of the previous round
  void on_credit(size_t rank, const RoundCredit& credit);

  void stop_waiting(size_t rank);        // a block that still arrives before the end counts
  void stop_waiting_for_those_ahead();
  void stop_waiting_for_the_silent();
  void take_back_time();                 // ends an extension of the first deadline once the others have caught up
  void forget(const PeerId& peer);

  void tick();
  TimePoint next_deadline() const;
  Duration usual_duration() const { return times_.usual(); }   // of the slower phase

 private:
  void give_contributions(const Snapshot& own);
  bool injected_loss(size_t rank, const RoundBlock& block) const;
  bool ahead_of_most() const;
  void pass_first();
  void pass_second();
  void repeat_credits();
  void on_averaged(uint32_t index, const AverageJob& job);
  size_t jobs() const { return owner_.jobs() + averages_.jobs(); }
  void try_end();
  void finish();
  void close();

  static constexpr int kCreditRepeats = 8;           // per first deadline, while blocks are missing

  const GroupOptions options_;
  const Layout& layout_;
  const Clock& clock_;
  const RoundNumbers& numbers_;
  OutcomeTally& outcomes_;
  std::function<void(RoundEnd)> on_end_;
  const std::vector<size_t> payload_bytes_max_;      // by block
  BlockOwner owner_;
  GroupAverages averages_;
  GroupStreams streams_;
  RoundTimes times_;
  GroupMembers members_;
  uint64_t number_ = 0;
  bool open_ = false, ended_ = true;
  TimePoint credit_repeat_at_ = TimePoint::max();
};

}  // namespace starling
