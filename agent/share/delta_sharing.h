// Sharing params: applies decided deltas, encodes, publishes a snapshot, begins an exchange.
#pragma once

#include <cstdint>
#include <memory>

#include "agent/share/shared_model.h"
#include "agent/share/sharing.h"
#include "gossip/worker.h"

namespace starling {

class DeltaSharing final : public Sharing {
 public:
  // `exchange` is null when the agent trains alone. All references outlive the object.
  DeltaSharing(SharedModel& model, Exchange* exchange, Worker& worker)
      : Sharing(exchange, false), model_(model), exchange_(exchange), worker_(worker) {}

  void share(uint64_t round, double mass, bool wait, Done done) override;
  void tick() override;
  void stop_retrying() override { retrying_ = false; }

  void begin_round_then(Next next) override;
  void apply_decided_then(Next next) override;
  void publish_nothing() override;
  // Applies nothing of what was decided. What it teaches the codec is kept: partners learn the same, and their next
  // payloads rely on it.
  void drop_decided() override;

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
  Done done_;
};

}  // namespace starling
