// Groups joined by pairs, for swarms larger than one group. Most rounds are group rounds; in every `pairs_every`th
// round an agent exchanges with an agent of another group instead. The pair rounds follow from the group's round
// numbers, on which its members agree, so no member waits in a group round for one that is in a pair.
//
// Groups number their rounds independently, so a proposal usually arrives while the acceptor is in a group round. The
// snapshot of a group round therefore also serves one foreign proposal, at the full offer. This is stable: the group's
// average replaces the agent's own deviation, and the pair adds at most minus half of it. In a pair round there is no
// average, so the snapshot serves two exchanges at the full offer, of which one may be the own: groups in step propose
// all at once, and a snapshot that served one alone would refuse nearly everybody.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "gossip/exchange/group.h"
#include "gossip/exchange/joined.h"
#include "gossip/exchange/pairwise.h"
#include "kernels/check.h"

namespace starling {

class GroupsWithPairs final : public Exchange {
 public:
  // REQUIRES: pairs_every > 1; sampler.choose({}) returns an agent outside the group, or nullopt.
  GroupsWithPairs(std::unique_ptr<Group> group, std::unique_ptr<Pairwise> pairs, uint64_t pairs_every,
                  PeerSampler& sampler)
      : group_(std::move(group)), pairs_(std::move(pairs)), pairs_every_(pairs_every), sampler_(sampler) {
    STARLING_CHECK(pairs_every_ > 1);
  }

  void publish(std::shared_ptr<const Snapshot> snapshot) override {
    if (snapshot != nullptr && snapshot->settling && !snapshot->far) snapshot = nullptr;
    in_pairs_ = snapshot != nullptr && pairs_are_due(*snapshot);
    if (in_pairs_) {
      group_->publish(nullptr);
      pairs_->serve(std::move(snapshot), 2);
    } else {
      group_->publish(snapshot);
      pairs_->serve(std::move(snapshot), 1);
    }
  }
  void retract() override {
    group_->retract();
    pairs_->retract();
  }
  bool begin() override { return in_pairs_ ? pairs_->begin() : group_->begin(); }
  void handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message,
              const SharedBytes& payload) override {
    Exchange& exchange = is_of_rounds(message) ? static_cast<Exchange&>(*group_) : *pairs_;
    exchange.handle(from, generation, message, payload);
  }
  void tick() override {
    group_->tick();
    pairs_->tick();
  }
  TimePoint next_deadline() const override { return std::min(group_->next_deadline(), pairs_->next_deadline()); }
  void forget(const PeerId& peer, uint64_t generation) override {
    group_->forget(peer, generation);
    pairs_->forget(peer, generation);
  }
  Decided take_decided() override { return joined(group_->take_decided(), pairs_->take_decided()); }
  std::vector<ExchangeReport> take_reports() override {
    return joined(group_->take_reports(), pairs_->take_reports());
  }
  ExchangeStatus status() const override {
    const ExchangeStatus group = group_->status(), pairs = pairs_->status();
    ExchangeStatus status = group;
    status.under_way = under_way();
    status.idle = idle();
    status.retries = in_pairs_;
    status.usual_duration = std::max(group.usual_duration, pairs.usual_duration);
    status.serving_until = std::max(group.serving_until, pairs.serving_until);   // nullopt is the least
    status.block_tally += pairs.block_tally;
    status.pairs = pairs.pairs;
    status.doubts_parked = pairs.doubts_parked;
    return status;
  }

  bool under_way() const { return pairs_->under_way() || group_->under_way(); }
  bool idle() const { return group_->idle() && pairs_->idle(); }
  BlockTally block_tally() const { return status().block_tally; }

 private:
  // Settling is in pairs alone, as of all exchanges in rounds (settles_in_pairs.h).
  bool pairs_are_due(const Snapshot& snapshot) {
    if (snapshot.settling) return true;
    const uint64_t round = group_->round();
    const bool due = round % (pairs_every_ - 1) == 0 && round != paired_after_ && sampler_.choose({}).has_value();
    if (due) paired_after_ = round;
    return due;
  }

  std::unique_ptr<Group> group_;
  std::unique_ptr<Pairwise> pairs_;
  uint64_t pairs_every_;
  PeerSampler& sampler_;
  uint64_t paired_after_ = 0;   // the group's round after which the last pair round came
  bool in_pairs_ = false;
};

}  // namespace starling
