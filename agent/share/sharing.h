// What a boundary does with what the swarm shares: take what came, submit the own, begin an exchange, and wait for its
// end unless it runs beside the steps. DeltaSharing does it for exchanges of params, UpdateSharing for the log of
// updates. Arithmetic goes to the worker; all calls on the control thread, while the trainer is idle.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "agent/train/trainer.h"
#include "gossip/exchange/exchange.h"
#include "kernels/projection.h"

namespace starling {

class Sharing {
 public:
  using Next = std::function<void()>;
  // Healthy is false if the params were not finite: then nothing of them was shared.
  using Done = std::function<void(bool healthy)>;
  virtual ~Sharing() = default;

  bool alone() const { return !machine_; }
  // An exchange that this agent began still runs beside the steps.
  bool under_way() const { return machine_ && machine_->status().under_way; }
  bool idle() const { return !machine_ || machine_->status().idle; }  // no peer waits for this agent any more
  // Until when an exchange begun by a peer uses the snapshot published last.
  std::optional<TimePoint> serving_until() const { return machine_ ? machine_->status().serving_until : std::nullopt; }
  std::vector<ExchangeReport> take_reports() {
    return machine_ ? machine_->take_reports() : std::vector<ExchangeReport>();
  }
  // Measured every few seconds; while settling, every tenth of one, and only since that began.
  double params_rms() const { return params_rms_; }  // 0: not measured yet
  // What the worker took for what was shared, since the last call: to choose its elements, where a codec sends some,
  // and for all else, which is applying what came and coding.
  Duration take_select_time() { return std::exchange(select_time_, Duration::zero()); }
  Duration take_encode_time() { return std::exchange(encode_time_, Duration::zero()); }
  // Of the params; nullopt: not measured yet, or no steps were taken before.
  const std::optional<Projection>& projection() const { return projection_; }
  // After share() the params are the swarm's replica: what is saved, evaluated and exported.
  bool holds_replica() const { return holds_replica_; }

  // Takes what was decided, shares the own and begins an exchange; with `wait` it ends before `done`.
  // REQUIRES: !alone().
  virtual void share(uint64_t round, double mass, bool wait, Done done) = 0;
  // How long the steps after the next share() will take, and a job before them. Both 0: no steps follow.
  virtual void expect_steps(Duration /*steps*/, Duration /*job*/) {}
  virtual void tick() = 0;  // an exchange that share() waits for may have ended
  virtual void stop_retrying() {}
  virtual void stop_waiting() {}  // share() ends without the exchange that it waits for

  virtual void begin_round_then(Next next) { next(); }  // steps follow
  // Sending while backward goes on. What the steps that begin now shall tell; empty: nothing.
  virtual std::function<bool(const FinalPart&)> begin_steps() { return {}; }
  virtual std::span<float> landing() { return {}; }  // LocalSteps::landing of those steps
  virtual void send_final(uint64_t, double) {}       // round and mass, as share(). The steps still go on
  virtual TimePoint next_final() const { return TimePoint::max(); }  // when send_final() has more, as far as known
  virtual void apply_decided_then(Next next) = 0;                    // takes what was decided, and shares nothing
  virtual void publish_nothing() {}                                  // no new exchange begins, own or a peer's
  // The params are discarded, and what belongs to them.
  virtual void drop_decided() = 0;

  // Of updates. How long the others have been taking the steps that begin now: so many fewer are left.
  virtual Duration late() const { return Duration::zero(); }
  // Before the swarm's first step: members that start together still find each other.
  virtual bool gathering() { return false; }
  virtual bool others_have_begun() const { return false; }  // to share what they learned
  // Steps would be lost, because this agent's replica is still old.
  virtual bool catching_up() const { return false; }
  // While the loop pauses and the others have ended: takes what their log has more. True: all of it is here.
  virtual bool holds_end_of_log() { return false; }
  // No steps follow: what was held back is submitted, and models are compared. Off: steps follow after all.
  virtual void settle(bool) {}
  virtual void leave_out_beyond(std::optional<Far>) {}  // Snapshot::far of what is shared from now on
  // Settling, and all members hold one replica and held nothing back. `others`: members that train or settle.
  virtual bool agreed(size_t) const { return false; }

 protected:
  Sharing(ExchangeMachine* machine, bool holds_replica) : machine_(machine), holds_replica_(holds_replica) {}
  double params_rms_ = 0;
  Duration select_time_{}, encode_time_{};
  std::optional<Projection> projection_;

 private:
  ExchangeMachine* machine_;  // null: the agent trains alone
  const bool holds_replica_;
};

}  // namespace starling
