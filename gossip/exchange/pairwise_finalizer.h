// An exchange in rounds, which settles in pairs. Groups and neighborhoods conserve sum(mass * params) in whole rounds
// only. Members begin to settle one after the other, so what one has counted of another, the other may never get back.
// Pairs apply both halves or none, with any partner. They have seen nobody train, so the snapshots say which models are
// far; until they do, nothing is shared.
#pragma once

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "gossip/exchange/exchange.h"
#include "gossip/exchange/snapshot.h"
#include "gossip/net/message.h"

namespace starling {

// The others are of pairs.
inline bool is_of_rounds(const ExchangeMessage& message) {
  return std::holds_alternative<RoundBlock>(message) || std::holds_alternative<RoundCredit>(message);
}

template <typename T>
std::vector<T> joined(std::vector<T> first, std::vector<T> second) {
  first.insert(first.end(), std::make_move_iterator(second.begin()), std::make_move_iterator(second.end()));
  return first;
}

inline Decided joined(Decided first, Decided second) {
  return {joined(std::move(first.deltas), std::move(second.deltas)),
          joined(std::move(first.lessons), std::move(second.lessons))};
}

class PairwiseFinalizer final : public Exchange {
 public:
  PairwiseFinalizer(std::unique_ptr<Exchange> rounds, std::unique_ptr<Exchange> pairs)
      : rounds_(std::move(rounds)), pairs_(std::move(pairs)) {}

  void publish(std::shared_ptr<const Snapshot> snapshot) override {
    if (snapshot != nullptr) in_pairs_ = snapshot->settling && snapshot->far;
    if (snapshot != nullptr && snapshot->settling && !snapshot->far) snapshot = nullptr;
    resting().publish(nullptr);
    active().publish(std::move(snapshot));
  }
  Due next(const Boundary& boundary) override { return active().next(boundary); }
  void handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message,
              const SharedBytes& payload) override {
    (is_of_rounds(message) ? rounds_ : pairs_)->handle(from, generation, message, payload);
  }
  void tick() override {
    rounds_->tick();
    pairs_->tick();
  }
  TimePoint next_deadline() const override { return std::min(rounds_->next_deadline(), pairs_->next_deadline()); }
  void forget(const PeerId& peer, uint64_t generation) override {
    rounds_->forget(peer, generation);
    pairs_->forget(peer, generation);
  }
  void lost(const PeerId& peer) override {
    rounds_->lost(peer);
    pairs_->lost(peer);
  }
  Decided take_decided() override { return joined(rounds_->take_decided(), pairs_->take_decided()); }
  std::vector<ExchangeReport> take_reports() override {
    return joined(rounds_->take_reports(), pairs_->take_reports());
  }
  // Blocks are those due in rounds, so that pairs hide none that was missed; the rest is of the one that shares now.
  ExchangeStatus status() const override {
    const ExchangeStatus rounds = rounds_->status(), pairs = pairs_->status();
    ExchangeStatus status = in_pairs_ ? pairs : rounds;
    status.under_way = rounds.under_way || pairs.under_way;
    status.idle = rounds.idle && pairs.idle;
    status.in_rounds = rounds.in_rounds;
    status.block_tally = rounds.block_tally;
    return status;
  }

 private:
  Exchange& active() { return in_pairs_ ? *pairs_ : *rounds_; }
  Exchange& resting() { return in_pairs_ ? *rounds_ : *pairs_; }

  std::unique_ptr<Exchange> rounds_, pairs_;
  bool in_pairs_ = false;
};

}  // namespace starling
