#include "agent/share/delta_sharing.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "kernels/check.h"

namespace starling {
namespace {

constexpr uint32_t kAttemptsMax = 3;   // a busy partner does not end the round
// Pairs by turns: between two rounds' steps so many exchanges are due, whoever began them. Serving who waits costs no
// time, since their blocks are here: so up to kTurnsBeyond more, of which kTurnsAhead count for the next steps. Before
// those this agent need not propose. By a schedule only those count that the schedule has there.
constexpr uint64_t kTurnsBeyond = 2, kTurnsAhead = 1;

constexpr Duration kMeasureEvery = std::chrono::seconds(3), kMeasureSettling = std::chrono::milliseconds(100);

}  // namespace

// What was measured before the last steps says nothing of where this agent settles.
void DeltaSharing::settle() {
  settling_ = true;
  projection_.reset();
  next_measure_ = TimePoint::min();
}

void DeltaSharing::share(uint64_t round, double mass, bool wait, Done done) {
  STARLING_CHECK(exchange_ && !done_);
  wait_ = wait;
  done_ = std::move(done);
  round_ = round;
  mass_ = mass;
  attempts_ = 0;
  ++boundary_;
  const ExchangeStatus status = exchange_->status();
  if (!status.by_turns) return encode_then(std::nullopt, [this] { begin_exchange(); });
  exchange_->retract();
  waiting_ = status.under_way;   // a peer's exchange, which used the payload before
  if (!waiting_) take_turns();
}

void DeltaSharing::encode_then(std::optional<Duration> next_in, std::function<void()> next) {
  const std::shared_ptr<Decided> decided = take_decided();
  exchange_->retract();
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->number = ++snapshot_number_;
  snapshot->round = round_;
  snapshot->boundary = boundary_;
  snapshot->mass = mass_;
  snapshot->settling = settling_;
  if (settling_) snapshot->far = far_;
  auto encoded = std::make_shared<SharedModel::Encoded>();
  auto took = std::make_shared<Duration>();
  const bool due = clock_.now() >= next_measure_;
  // Before the first steps all agents hold the genesis: that would say for seconds that they agree.
  const bool trained = round_ > 0 || settling_;
  const bool measure = due || (trained && !projection_);
  worker_.submit(
      [this, decided, snapshot, encoded, took, measure] {
        const TimePoint began = clock_.now();
        drift_.after_steps(model_.params());
        snapshot->drift = drift_.drift();
        *encoded = model_.apply_and_encode(*decided, snapshot.get(), measure);
        drift_.before_steps(model_.params());
        *took = clock_.now() - began;
      },
      [this, snapshot, encoded, took, due, trained, next_in, next = std::move(next)] {
        encode_time_ += *took;
        if (due) {   // two of its passes; of a large model they may not take much of the agent's time
          const Duration every = settling_ ? kMeasureSettling : kMeasureEvery;
          next_measure_ = clock_.now() + std::max(every, (settling_ ? 5 : 100) * *took);
        }
        if (!encoded->healthy) {
          finish(false);
          return;
        }
        if (encoded->params_rms >= 0) params_rms_ = encoded->params_rms;
        if (encoded->projection && trained) projection_ = encoded->projection;
        if (next_in) snapshot->next_at = clock_.now() + *next_in;
        exchange_->publish(snapshot);
        published_ = boundary_;
        next();
      });
}

void DeltaSharing::begin_exchange() {
  const bool begun = attempts_ < kAttemptsMax && exchange_->begin();
  ++attempts_;
  waiting_ = begun && wait_;
  if (!waiting_) finish(true);
}

void DeltaSharing::tick() {
  if (!waiting_) return;
  const ExchangeStatus status = exchange_->status();
  if (status.under_way) return;
  waiting_ = false;
  if (status.by_turns) {
    take_turns();
  } else {
    exchange_ended();
  }
}

void DeltaSharing::exchange_ended() {
  const std::shared_ptr<Decided> decided = take_decided();
  // Busy or failed: another partner may be free.
  const bool again = decided->deltas.empty() && exchange_->status().retries && attempts_ < kAttemptsMax;
  apply_then(decided, [this, again] {
    if (again && retrying_) {
      begin_exchange();
    } else {
      finish(true);
    }
  });
}

void DeltaSharing::take_turns() {
  const ExchangeStatus status = exchange_->status();
  const uint64_t made = status.turns - turns_before_;
  const bool none_waits = status.waiting == 0 || made >= status.turns_due + kTurnsBeyond;
  const bool enough = turns_are_due(status, made) ? attempts_ >= status.turns_due + kAttemptsMax - 1 : none_waits;
  if (enough || !retrying_) return end_turns();
  if (!status.fresh) return encode_then(std::nullopt, [this] { take_turns(); });
  ++attempts_;
  waiting_ = exchange_->begin();
  if (!waiting_) return end_turns();
  tick();   // a peer that waited may be served already
}

// What a schedule says holds for the boundary in which this agent published last.
bool DeltaSharing::turns_are_due(const ExchangeStatus& status, uint64_t made) const {
  if (published_ != boundary_) return made < status.turns_due;
  return made + status.turns_rested < status.turns_due || status.slots_open > 0;
}

// The state moves from now on, so whoever asks waits. Steps that take too long to wait for leave a payload behind.
void DeltaSharing::end_turns() {
  exchange_->retract();
  const ExchangeStatus status = exchange_->status();
  const uint64_t spent = std::min(turns_before_ + status.turns_due, status.turns);
  if (status.turns_ahead) {
    turns_before_ = status.turns - (published_ == boundary_ ? *status.turns_ahead : 0);
  } else {
    turns_before_ = std::max(spent, status.turns - std::min(status.turns, kTurnsAhead));
  }
  if (steps_ > status.wait_max && retrying_) return encode_then(steps_, [this] { finish(true); });
  apply_then(take_decided(), [this] { finish(true); });
}

void DeltaSharing::apply_then(std::shared_ptr<Decided> decided, std::function<void()> next) {
  if (decided->deltas.empty() && decided->lessons.empty()) {
    next();
    return;
  }
  apply_on_worker(decided, std::move(next));
}

void DeltaSharing::apply_on_worker(std::shared_ptr<Decided> decided, Next next) {
  worker_.submit(
      [this, decided] {
        drift_.after_steps(model_.params());
        model_.apply(*decided);
        drift_.before_steps(model_.params());
      },
      std::move(next));
}

// A delta that undoes one of params since discarded has nothing to undo.
std::shared_ptr<Decided> DeltaSharing::take_decided() {
  auto decided = std::make_shared<Decided>(exchange_->take_decided());
  std::erase_if(decided->deltas, [this](const Delta& delta) {
    return delta.taken_back != 0 && delta.taken_back <= discarded_number_;
  });
  return decided;
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
  if (exchange_) decided = take_decided();
  apply_on_worker(decided, std::move(next));
}

void DeltaSharing::publish_nothing() {
  if (exchange_) exchange_->publish(nullptr);
}

void DeltaSharing::drop_decided() {
  if (!exchange_) return;
  discarded_number_ = snapshot_number_;
  settling_ = false;
  auto decided = std::make_shared<Decided>(exchange_->take_decided());
  decided->deltas.clear();
  worker_.submit(
      [this, decided] {
        drift_.discarded();
        model_.apply(*decided);
      },
      [] {});
}

}  // namespace starling
