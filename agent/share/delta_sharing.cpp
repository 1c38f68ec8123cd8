#include "agent/share/delta_sharing.h"

#include <utility>

#include "kernels/check.h"

namespace starling {
namespace {

constexpr uint32_t kAttemptsMax = 3;   // a busy partner does not end the round

}  // namespace

void DeltaSharing::share(uint64_t round, double mass, bool wait, Done done) {
  STARLING_CHECK(exchange_ && !done_);
  wait_ = wait;
  done_ = std::move(done);
  auto decided = std::make_shared<Decided>(exchange_->take_decided());
  exchange_->retract();
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->number = ++snapshot_number_;
  snapshot->round = round;
  snapshot->mass = mass;
  auto encoded = std::make_shared<SharedModel::Encoded>();
  worker_.submit(
      [this, decided, snapshot, encoded] { *encoded = model_.apply_and_encode(*decided, snapshot.get()); },
      [this, snapshot, encoded] {
        if (!encoded->healthy) {
          finish(false);
          return;
        }
        if (encoded->params_rms >= 0) params_rms_ = encoded->params_rms;
        exchange_->publish(snapshot);
        attempts_ = 0;
        begin_exchange();
      });
}

void DeltaSharing::begin_exchange() {
  const bool begun = attempts_ < kAttemptsMax && exchange_->begin();
  ++attempts_;
  waiting_ = begun && wait_;
  if (!waiting_) finish(true);
}

void DeltaSharing::tick() {
  if (waiting_ && !exchange_->status().under_way) exchange_ended();
}

void DeltaSharing::exchange_ended() {
  waiting_ = false;
  auto decided = std::make_shared<Decided>(exchange_->take_decided());
  // Busy or failed: another partner may be free.
  const bool again = decided->deltas.empty() && exchange_->status().retries && attempts_ < kAttemptsMax;
  const auto next = [this, again] {
    if (again && retrying_) {
      begin_exchange();
    } else {
      finish(true);
    }
  };
  if (decided->deltas.empty() && decided->lessons.empty()) {
    next();
    return;
  }
  worker_.submit([this, decided] { model_.apply(*decided); }, next);
}

void DeltaSharing::finish(bool healthy) { std::exchange(done_, nullptr)(healthy); }

void DeltaSharing::begin_round_then(Next next) {
  if (model_.follows_rounds()) {
    worker_.submit([this] { model_.round_began(); }, std::move(next));
  } else {
    next();
  }
}

void DeltaSharing::apply_decided_then(Next next) {
  auto decided = std::make_shared<Decided>();
  if (exchange_) *decided = exchange_->take_decided();
  worker_.submit([this, decided] { model_.apply(*decided); }, std::move(next));
}

void DeltaSharing::publish_nothing() {
  if (exchange_) exchange_->publish(nullptr);
}

void DeltaSharing::drop_decided() {
  if (!exchange_) return;
  auto decided = std::make_shared<Decided>(exchange_->take_decided());
  decided->deltas.clear();
  if (!decided->lessons.empty()) worker_.submit([this, decided] { model_.apply(*decided); }, [] {});
}

}  // namespace starling
