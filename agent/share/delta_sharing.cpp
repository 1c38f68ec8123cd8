#include "agent/share/delta_sharing.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "kernels/check.h"

namespace starling {
namespace {

constexpr Duration kMeasureEvery = std::chrono::seconds(3), kMeasureSettling = std::chrono::milliseconds(100);

}  // namespace

// What was measured before the last steps says nothing of where this agent settles.
void DeltaSharing::settle(bool on) {
  settling_ = on;
  if (!on) return;
  projection_.reset();
  next_measure_ = TimePoint::min();
}

void DeltaSharing::share(uint64_t round, double mass, bool wait, Done done) {
  STARLING_CHECK(exchange_ && !done_);
  done_ = std::move(done);
  round_ = round;
  mass_ = mass;
  ++boundary_.number;
  boundary_.waits = wait;
  boundary_.published = boundary_.mixed = false;
  go_on();
}

void DeltaSharing::go_on() {
  switch (exchange_->next(boundary_)) {
    case Due::kWait: waiting_ = true; return;
    case Due::kPublish: return encode(false);
    case Due::kPublishForSteps: return encode(true);
    case Due::kApply: return apply();
    case Due::kSteps: return finish(true);
  }
}

void DeltaSharing::encode(bool steps_follow) {
  const std::shared_ptr<Decided> decided = take_decided();
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->number = ++snapshot_number_;
  snapshot->round = round_;
  snapshot->boundary = boundary_.number;
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
      [this, snapshot, encoded, took, due, trained, steps_follow] {
        encode_time_ += *took;
        if (due) {  // two of its passes; of a large model they may not take much of the agent's time
          const Duration every = settling_ ? kMeasureSettling : kMeasureEvery;
          next_measure_ = clock_.now() + std::max(every, (settling_ ? 5 : 100) * *took);
        }
        if (!encoded->healthy) {
          finish(false);
          return;
        }
        if (encoded->params_rms >= 0) params_rms_ = encoded->params_rms;
        if (encoded->projection && trained) projection_ = encoded->projection;
        if (steps_follow) {
          snapshot->next_at = clock_.now() + boundary_.steps;
          snapshot->job = job_;
        }
        exchange_->publish(snapshot);
        boundary_.published = true;
        go_on();
      });
}

void DeltaSharing::tick() {
  if (!waiting_ || exchange_->status().under_way) return;
  waiting_ = false;
  go_on();
}

void DeltaSharing::stop_waiting() {
  if (std::exchange(waiting_, false)) finish(true);
}

void DeltaSharing::apply() {
  const std::shared_ptr<Decided> decided = take_decided();
  boundary_.mixed = !decided->deltas.empty();
  if (decided->deltas.empty() && decided->lessons.empty()) return go_on();
  apply_on_worker(decided, [this] { go_on(); });
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
  for (const Delta& delta : decided->deltas) early_taken_ = std::max(early_taken_, delta.early);
  std::erase_if(decided->deltas,
                [this](const Delta& delta) { return delta.taken_back != 0 && delta.taken_back <= early_discarded_; });
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
  settling_ = false;
  const std::shared_ptr<Decided> decided = take_decided();
  early_discarded_ = early_taken_;
  decided->deltas.clear();
  worker_.submit(
      [this, decided] {
        drift_.discarded();
        model_.apply(*decided);
      },
      [] {});
}

}  // namespace starling
