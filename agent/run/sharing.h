// What a boundary does with the exchange: apply decided deltas, encode, publish, begin an exchange, and wait for its
// end unless it runs beside the steps. Arithmetic goes to the worker; all calls on the control thread, while the
// trainer is idle.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "agent/run/shared_model.h"
#include "gossip/clock.h"
#include "gossip/exchange/exchange.h"
#include "gossip/worker.h"

namespace starling {

class Sharing {
 public:
  // `exchange` is null when the agent trains alone.
  Sharing(SharedModel& model, Exchange* exchange, Worker& worker)
      : model_(model), exchange_(exchange), worker_(worker) {}

  bool alone() const { return !exchange_; }

  // An exchange that this agent began still runs beside the steps.
  bool under_way() const { return exchange_ && exchange_->status().under_way; }
  // Until when an exchange begun by a peer uses the snapshot published last.
  std::optional<TimePoint> serving_until() const;

  // Applies what was decided, publishes a snapshot and begins an exchange; with `wait` it ends before `done`. Healthy
  // is false if the params are not finite: then nothing is published. REQUIRES: !alone().
  using Done = std::function<void(bool healthy)>;
  void share(uint64_t round, double mass, bool wait, Done done);
  void tick();                       // an exchange that share() waits for may have ended
  void stop_retrying() { retrying_ = false; }

  void begin_round_then(std::function<void()> next);   // steps follow
  void apply_decided_then(std::function<void()> next);
  void publish_nothing();            // no new exchange begins, own or a peer's
  // Applies nothing of what was decided, because it belongs to params that are discarded. What it teaches the codec is
  // kept: partners learn the same, and their next payloads rely on it.
  void drop_decided();
  bool idle() const { return !exchange_ || exchange_->status().idle; }   // no peer waits for this agent any more

  std::vector<ExchangeReport> take_reports();
  double params_rms() const { return params_rms_; }   // 0: not measured yet

 private:
  void begin_exchange();
  void exchange_ended();
  void finish(bool healthy);

  SharedModel& model_;
  Exchange* exchange_;
  Worker& worker_;
  bool wait_ = false, waiting_ = false, retrying_ = true;
  uint32_t attempts_ = 0;            // with the snapshot published last
  uint64_t snapshot_number_ = 0;
  double params_rms_ = 0;
  Done done_;
};

}  // namespace starling
