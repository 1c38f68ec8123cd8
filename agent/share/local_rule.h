// What an agent does to its own model besides steps and exchanges: correct its gradients, take an outer step, add noise
// before sharing. Without a rule (null) it does none of these.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/view.h"

namespace starling {

// One call at a time, while the trainer is idle: in worker jobs, except correction(). The view is always that of
// the section "params".
class LocalRule {
 public:
  virtual ~LocalRule() = default;

  virtual void round_began(ConstView params) = 0;  // the round's steps start from these
  // Added to the gradient of each step of the current round; count 0: nothing. Neither moves nor changes until the next
  // round begins. Control thread.
  virtual ConstView correction() const = 0;
  virtual void after_mix(View params) = 0;     // the decided deltas were just added
  virtual void before_share(View params) = 0;  // the values left here are encoded

  // State for checkpoints. load() returns false and changes nothing if the bytes do not fit this rule.
  virtual std::vector<std::byte> save() const = 0;
  [[nodiscard]] virtual bool load(std::span<const std::byte> saved) = 0;
};

}  // namespace starling
