// The training side's seam. A trainer owns the model, its optimizer and its data; it runs local steps on its own thread
// (and CUDA stream) and is silent in between. Params and momentum lie in flat buffers that the model's tensors view.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gossip/clock.h"
#include "kernels/view.h"

namespace starling {

struct StepReport {
  uint64_t steps = 0;
  uint64_t samples = 0;
  double mean_loss = 0;        // over these steps
  bool finite = true;          // false: loss or gradient was NaN or infinite; the remaining steps were not run
  Duration compute_time{};
};

struct Evaluation {
  double accuracy = 0;         // of 1
  double loss = 0;
  uint64_t samples = 0;        // 0: there is nothing to evaluate on
};

class Trainer {
 public:
  virtual ~Trainer() = default;

  // All but idle() REQUIRE idle(). The views stay valid and in place for the trainer's life; whoever holds the idle
  // trainer may read and write them, and calls params_changed() after writing.
  virtual View params() = 0;
  virtual View momentum() = 0;   // count 0: nothing that could ride along
  virtual void params_changed() = 0;

  virtual void start_steps(uint32_t count, double learning_rate) = 0;  // returns at once
  virtual void start_evaluation() = 0;                                 // returns at once
  virtual bool idle() const = 0;                                       // from any thread
  // When it will be idle, where that is known beforehand; a trainer with a thread of its own wakes its owner instead.
  virtual TimePoint idle_at() const { return TimePoint::max(); }
  virtual StepReport take_steps() = 0;                                 // of the last start_steps
  virtual std::optional<Evaluation> take_evaluation() = 0;             // of the last start_evaluation

  // Everything but params and momentum: other optimizer state, rng state, place in the data. load_state returns false
  // and changes nothing if the bytes do not fit this trainer.
  virtual std::vector<std::byte> save_state() = 0;
  virtual bool load_state(std::span<const std::byte> state) = 0;

  virtual uint64_t data_size() const = 0;          // training samples held here
  virtual std::string data_summary() const = 0;    // for people: "1213 samples, labels 0 1 2"
};

}  // namespace starling
