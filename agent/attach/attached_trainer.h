// The seam's other side: the trainer is the caller's loop, on the caller's thread, and its buffers are the caller's.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "agent/attach/handover.h"
#include "agent/train/trainer.h"

namespace starling {

struct AttachedMemory {
  View params, momentum;         // as many elements; momentum of count 0: there is none
  size_t state_from = SIZE_MAX;  // as TrainerSection says
};

class AttachedTrainer final : public Trainer {
 public:
  // `handover` outlives the object.
  AttachedTrainer(const AttachedMemory& memory, TrainerData data, Handover& handover)
      : memory_(memory), data_(std::move(data)), handover_(handover) {}

  std::vector<TrainerSection> sections() override {
    std::vector<TrainerSection> all = {{"params", SectionKind::kMixed, memory_.params, memory_.state_from}};
    if (memory_.momentum.count > 0) all.push_back({"momentum", SectionKind::kLocal, memory_.momentum});
    return all;
  }
  void params_changed() override {}
  void start_steps(const LocalSteps& steps) override { handover_.give(steps); }
  std::string early_send_blocked_reason() const override { return "the loop is its caller's own"; }
  void start_evaluation() override {}  // the loop evaluates when it likes, and reports
  bool has_evaluation() const override { return handover_.has_evaluation(); }
  TimePoint idle_at() const override { return handover_.with_agent() ? TimePoint::min() : TimePoint::max(); }
  TimePoint last_step() const override { return handover_.last_step(); }
  bool takes_more_steps() const override { return !handover_.over(); }
  StepReport take_steps() override { return handover_.take(); }
  std::optional<Evaluation> take_evaluation() override { return handover_.take_evaluation(); }
  std::vector<std::byte> save_state() override { return handover_.ask_for_state(); }
  bool load_state(std::span<const std::byte> state) override {
    handover_.restore(state);
    return true;
  }
  TrainerData data() const override { return data_; }

 private:
  const AttachedMemory memory_;
  const TrainerData data_;
  Handover& handover_;
};

}  // namespace starling
