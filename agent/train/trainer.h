// The training side's seam. A trainer owns the model, its optimizer and its data; it runs local steps on its own thread
// (and CUDA stream) and does nothing in between. Its values lie in sections, flat buffers under the model's tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "gossip/clock.h"
#include "kernels/view.h"

namespace starling {

// How a section takes part in exchanges.
enum class SectionKind {
  kMixed,     // params: mixed with others', as values or as changes, whichever the swarm shares
  kAveraged,  // state of the model that is no param, such as a running mean: always mixed as values
  kLocal,     // optimizer state: not shared, unless the settings carry it
  kFrozen,    // never changes and is the same at every agent: never shared
};

struct TrainerSection {
  std::string name;
  SectionKind kind = SectionKind::kMixed;
  View view;
  size_t state_from = SIZE_MAX;  // of kMixed: the elements from here on are state as of kAveraged
};

// A run of params that are as the step leaves them while backward still computes others. They may be read until the
// trainer's next steps, in the section "params" or, if that lies on a device, in LocalSteps::landing.
struct FinalPart {
  size_t offset = 0, count = 0;  // in elements
  TimePoint at{};                // since when; a trainer on virtual time may say it beforehand
};

struct LocalSteps {
  uint32_t count = 1;
  double learning_rate = 0;
  // Added to the gradient of each step, where params are; count 0: none. Stays readable until the trainer is idle.
  ConstView correction;
  // Of one step without correction: called for each part as it becomes final, on the trainer's thread. If it returns
  // true, that thread wakes the trainer's owner, as it does when the step has ended. No part is told twice; what
  // backward never reaches, or is not finite, is not told. A trainer that cannot say (with AdamW) tells of none, and
  // early_send_blocked_reason() says why. Empty: not wanted. If the step is then not finite, what was told has been
  // stepped all the same, momentum too: a caller that asks for parts takes the params from elsewhere.
  std::function<bool(const FinalPart&)> on_final{};
  // With on_final and params on a device: host memory for all of them, where each part lies when it is told of.
  // Nothing is written there when the steps have ended. Pinned, or the copies hold up the steps (FloatMemory).
  std::span<float> landing{};
  // Asked between two steps, on the trainer's thread: true ends these steps early. Empty: never. A trainer that
  // computes all of them at once need not ask.
  std::function<bool()> stop{};
};

struct StepReport {
  uint64_t steps = 0;
  uint64_t samples = 0;
  double mean_loss = 0;  // over these steps
  bool finite = true;    // false: loss or gradient was NaN or infinite; the remaining steps were not run
  Duration compute_time{};
  Duration forward_time{}, backward_time{};  // of compute_time; zero: not measured, as on a GPU
  uint32_t threads = 0;  // that the trainer has chosen by trial, this one or the next; 0: it chooses none
};

struct Evaluation {
  double accuracy = 0;  // of 1
  double loss = 0;
  uint64_t samples = 0;  // 0: there is nothing to evaluate on
};

struct TrainerData {
  uint64_t samples = 0;                // to train on, held here
  std::string summary;                 // for people: "1213 samples, labels 0 1 2"
  std::vector<std::string> classes{};  // by label, where the data name them; else empty
  std::vector<uint64_t> labels{};      // samples by label; empty: not known
  bool adaptive = false;               // the optimizer scales the steps of each element, as Adam does
};

class StateMissing : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Trainer {
 public:
  virtual ~Trainer() = default;

  // All but idle_at(), last_step() and idle() REQUIRE idle(). The first section is "params", kMixed. The views stay
  // valid and in place for the trainer's life; the holder of the idle trainer may read and write them, and calls
  // params_changed() after writing.
  virtual std::vector<TrainerSection> sections() = 0;
  virtual void params_changed() = 0;

  // Makes params that nobody has set the swarm's first ones. Else, and in a trainer that begins with them, a no-op.
  virtual void draw_genesis() {}

  virtual void start_steps(const LocalSteps& steps) = 0;  // returns at once
  // Why its steps tell LocalSteps::on_final of no part, or no more, for people; empty: they tell.
  virtual std::string early_send_blocked_reason() const { return {}; }
  virtual void start_evaluation() = 0;  // returns at once
  // A loop of its own has judged the model, and take_evaluation() has not been called since.
  virtual bool has_evaluation() const { return false; }
  // From any thread. TimePoint::min(): it is idle. TimePoint::max(): the end is not known beforehand, and the trainer
  // wakes its owner.
  virtual TimePoint idle_at() const = 0;
  // From any thread. Of steps that a loop of its own takes: when it took the last one, or was given its turn.
  // TimePoint::max(): the trainer takes them itself, or none are due.
  virtual TimePoint last_step() const { return TimePoint::max(); }
  // False: a loop of its own was told that the run is over.
  virtual bool takes_more_steps() const { return true; }
  virtual StepReport take_steps() = 0;                      // of the last start_steps
  virtual std::optional<Evaluation> take_evaluation() = 0;  // of the last start_evaluation

  // Everything but the sections "params" and "momentum": other sections, other optimizer state, rng state, place in
  // the data. load_state returns false and changes nothing if the bytes do not fit this trainer. With other data than
  // the bytes were saved with, they fit, and the epoch begins anew.
  virtual std::vector<std::byte> save_state() = 0;  // throws StateMissing if it cannot be had now
  virtual bool load_state(std::span<const std::byte> state) = 0;

  virtual TrainerData data() const = 0;

  bool idle() const { return idle_at() == TimePoint::min(); }
  View section(std::string_view name) {  // count 0: there is none
    for (const TrainerSection& one : sections()) {
      if (one.name == name) return one.view;
    }
    return {};
  }
  View params() { return section("params"); }
  View momentum() { return section("momentum"); }
};

}  // namespace starling
