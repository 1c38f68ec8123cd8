// Sharing updates. At a boundary the drift of the steps joins the accumulators, arrived entries are applied, and the
// params become the replica R. Training that waited for the round goes on from that round's entries.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "agent/config/config.h"
#include "agent/share/final_slices.h"
#include "agent/share/plan_maker.h"
#include "agent/share/sharing.h"
#include "agent/share/update_model.h"
#include "gossip/clock.h"
#include "gossip/updates/update_exchange.h"
#include "gossip/worker.h"

namespace starling {

class UpdateSharing final : public Sharing {
 public:
  // Takes steps only after it caught up with the others' logs. With update_pipeline what is final is sent while
  // backward goes on. All references outlive the object.
  UpdateSharing(UpdateModel& model, UpdateExchange& exchange, PeerSampler& sampler, const PeerId& self, Worker& worker,
                const Clock& clock, const SwarmConfig& swarm);

  void share(uint64_t round, double mass, bool wait, Done done) override;
  void tick() override;
  void stop_waiting() override;
  void begin_round_then(Next next) override;
  std::function<bool(const FinalPart&)> begin_steps() override;
  std::span<float> landing() override { return model_.landing(); }
  void send_final(uint64_t round, double mass) override;
  TimePoint next_final() const override;
  void publish_nothing() override { group_.abandon(); }
  void apply_decided_then(Next next) override;
  void drop_decided() override { group_.drop_own_work(); }

  Duration late() const override { return late_; }
  bool gathering() override;
  bool others_have_begun() const override;
  bool catching_up() const override { return catching_up_; }
  bool holds_end_of_log() override;
  void settle(bool on) override { group_.settle(on); }
  bool agreed(size_t others) const override;

 private:
  void shared(bool waits);
  void look_at_progress();
  void look_at_step();
  void think();
  void finish();
  uint64_t log_length() const;  // of all slices

  UpdateModel& model_;
  UpdateGroup& group_;
  PeerSampler& sampler_;
  const PeerId self_;
  Worker& worker_;
  const Clock& clock_;
  const bool several_steps_;  // a round has, so that some can be left out
  bool waiting_ = false, stopped_ = false, catching_up_ = true;
  bool at_replica_ = false;  // training waited for the round, and x is its end's R
  Duration late_{};
  std::optional<TimePoint> began_;  // to share
  std::optional<TimePoint> gathers_since_;
  TimePoint roster_since_;
  uint64_t roster_ = 0;         // its hash, while members gather
  uint64_t log_length_ = 0;     // at the end of the last round
  uint32_t silent_rounds_ = 0;  // without any entry
  TimePoint asked_;             // in holds_end_of_log()
  Done done_;
  std::unique_ptr<FinalSlices> final_;  // null: nothing is sent before the boundary
  bool sending_ = false;                // the worker has slices that were final before
  std::unique_ptr<PlanMaker> planner_;  // null: nothing is merged, as where there is one slice
  TimePoint step_began_;
  bool planned_ = false;  // the round under way began with a step that was told of
};

}  // namespace starling
