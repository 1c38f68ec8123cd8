// Sharing params: at a boundary it does what the exchange says is due. It applies decided deltas, encodes, publishes a
// snapshot, waits.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "agent/share/drift_watch.h"
#include "agent/share/shared_model.h"
#include "agent/share/sharing.h"
#include "gossip/clock.h"
#include "gossip/worker.h"

namespace starling {

class DeltaSharing final : public Sharing {
 public:
  // `exchange` is null when the agent trains alone. `watches_drift`: snapshots say how far the steps moved the params,
  // which costs time, else 0. All references outlive the object.
  DeltaSharing(SharedModel& model, Exchange* exchange, Worker& worker, const Clock& clock, bool watches_drift)
      : Sharing(exchange, false),
        model_(model),
        exchange_(exchange),
        worker_(worker),
        clock_(clock),
        drift_(clock, watches_drift) {}

  void share(uint64_t round, double mass, bool wait, Done done) override;
  void expect_steps(Duration steps, Duration job) override {
    boundary_.steps = steps + job;
    job_ = job;
  }
  void tick() override;
  void settle(bool on) override;
  void leave_out_beyond(std::optional<Far> distance) override { far_ = distance; }
  void stop_retrying() override { boundary_.closing = true; }
  void stop_waiting() override;

  void begin_round_then(Next next) override;
  void apply_decided_then(Next next) override;
  void publish_nothing() override;
  // Applies nothing of what was decided. What it teaches the codec is kept: partners learn the same, and their next
  // payloads rely on it.
  void drop_decided() override;

 private:
  void go_on();
  void encode(bool steps_follow);
  void apply();
  void apply_on_worker(std::shared_ptr<Decided> decided, Next next);
  std::shared_ptr<Decided> take_decided();
  void finish(bool healthy);

  SharedModel& model_;
  Exchange* exchange_;
  Worker& worker_;
  const Clock& clock_;
  DriftWatch drift_;
  bool waiting_ = false;
  uint64_t snapshot_number_ = 0, round_ = 0;
  double mass_ = 1;
  Boundary boundary_;  // the last one
  Duration job_{};     // before the steps that follow
  bool settling_ = false;
  std::optional<Far> far_;                     // as Snapshot says
  TimePoint next_measure_ = TimePoint::min();  // of the params' size and projection
  // Of the early deltas (Delta::early): the last one that was taken, and the last one that went with discarded params.
  uint64_t early_taken_ = 0, early_discarded_ = 0;
  Done done_;
};

}  // namespace starling
