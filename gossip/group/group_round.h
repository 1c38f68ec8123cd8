// One round of a group at one member: the members that it waits for, and its end. The object is used for one round
// after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "gossip/exchange/block_outcome.h"
#include "gossip/exchange/group_members.h"
#include "gossip/exchange/round_numbers.h"
#include "gossip/exchange/round_wait.h"
#include "gossip/group/group_blocks.h"
#include "gossip/group/options.h"

namespace starling {

class GroupRound {
 public:
  // All references must outlive the object. `codec` is used from worker jobs.
  GroupRound(const GroupOptions& options, double far, const Layout& layout, const Codec& codec, Worker& worker,
             const Clock& clock, Outbox& outbox, const RoundNumbers& numbers, OutcomeTally& outcomes,
             std::function<void(RoundEnd)> on_end);

  // REQUIRES: the previous round has ended. Its blocks that are still missing are settled now.
  void begin(const GroupMembers& members, uint64_t number, std::shared_ptr<const Snapshot> own);

  uint64_t number() const { return number_; }  // 0: none yet
  const GroupMembers& members() const { return members_; }
  bool open() const { return open_; }    // a member may still need blocks of it; a closed round sends none
  bool ended() const { return ended_; }  // for this agent: its delta is made

  bool fits(const RoundBlock& block, const SharedBytes& payload) const { return blocks_.fits(block, payload); }
  uint32_t window(const GroupMembers& members) const { return blocks_.streams().window(members); }

  // From other members. REQUIRES: the indices and phases are in range.
  void receive(size_t rank, const RoundBlock& block, const SharedBytes& payload);       // of this round
  void receive_late(size_t rank, const RoundBlock& block, const SharedBytes& payload);  // of the previous round
  void on_credit(size_t rank, const RoundCredit& credit);

  void stop_waiting(size_t rank);  // a block that still arrives before the end counts
  void stop_waiting_for_those_ahead();
  void stop_waiting_for_the_silent();
  void take_back_time() { wait_.take_back_time(); }
  void forget(const PeerId& peer);

  void tick();
  TimePoint next_deadline() const;
  Duration usual_duration() const { return wait_.usual(); }  // of the slower phase

 private:
  void try_end();
  void finish();
  void close();
  Duration credit_repeat() const { return wait_.first_wait() / kCreditRepeats; }

  static constexpr int kCreditRepeats = 8;  // per first deadline, while blocks are missing

  const Clock& clock_;
  OutcomeTally& outcomes_;
  std::function<void(RoundEnd)> on_end_;
  GroupBlocks blocks_;
  RoundWait wait_;
  GroupMembers members_;
  uint64_t number_ = 0;
  bool open_ = false, ended_ = true;
};

}  // namespace starling
