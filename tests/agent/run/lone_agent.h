// What the parts of the round machine need of an agent that trains a small quadratic alone.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "agent/run/checkpoint_jobs.h"
#include "agent/run/rounds.h"
#include "agent/run/stepping.h"
#include "agent/share/shared_model.h"
#include "agent/train/quadratic_trainer.h"
#include "gossip/membership/membership.h"
#include "gossip/net/outbox.h"
#include "gossip/worker.h"
#include "tests/support/fake_clock.h"

namespace starling {

class LoneAgent : private Outbox, private StateKeeper {
 protected:
  LoneAgent() { swarm_.optimizer.learning_rate = 0.01; }

  Stepping make_stepping() { return Stepping(swarm_, *trainer_, model_, swarm_clock_, clock_); }
  CheckpointJobs make_checkpoints() {
    return {*this, *trainer_, model_, membership_, worker_, worker_, clock_, events_, [] {}};
  }
  // Saves at every boundary.
  Rounds make_rounds(Sharing& sharing) {
    const RoundsOptions options{swarm_, std::chrono::nanoseconds(1), Duration::zero(), [] {}};
    return Rounds(options, *trainer_, model_, sharing, sampler_, membership_, swarm_clock_, *this, worker_, worker_,
                  clock_, events_);
  }
  bool take_steps(Stepping& steps, uint32_t count) {
    steps.begin(count);
    return steps.take();
  }

  struct NoObserver final : Observer {
    void on(const Event&) override {}
  };

  static TrainerOptions small() {
    TrainerOptions options;
    options.model.dimension = 8;
    return options;
  }

  FakeClock clock_;
  SwarmConfig swarm_;
  NoObserver events_;
  InlineWorker worker_;
  std::unique_ptr<QuadraticTrainer> trainer_ = make_quadratic_trainer(small(), 1, clock_);
  SharedModel model_{*trainer_, shared_sections(*trainer_, false), make_codec(CodecKind::kFp32, MemorySpace::kHost),
                     64,        make_source(SourceKind::kParams),  nullptr};
  std::optional<Progress> stored_;   // what restore() finds
  std::vector<uint64_t> saved_;      // steps
  std::vector<float> saved_params_;  // the first of each save

 private:
  void send(const PeerId&, const Message&, SharedBytes) override {}
  void send(const PeerAddress&, const Message&, SharedBytes) override {}

  SaveResult save(const Progress& progress, Trainer& trainer, std::span<const std::byte>, bool) override {
    saved_.push_back(progress.steps);
    saved_params_.push_back(trainer.params().data[0]);
    return {};
  }
  bool restore(Progress* progress, Trainer&, std::vector<std::byte>*) override {
    if (stored_) *progress = *stored_;
    return stored_.has_value();
  }
  std::shared_ptr<const ModelFile> model() const override { return nullptr; }

  static PeerRecord record() {
    PeerRecord own;
    own.id.bytes.fill(1);
    return own;
  }

 protected:
  Membership membership_{{}, record(), clock_, *this, 1, 1};

 private:
  SwarmClock swarm_clock_{membership_, clock_};
  SwarmSampler sampler_{{}, membership_, swarm_clock_, clock_, 1};
};

}  // namespace starling
