// What an agent does to its own model beside steps and exchanges: a correction of its gradients, an outer step, noise
// before sharing. A null rule does none of it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/view.h"

namespace starling {

// One call at a time, while the trainer is idle: jobs of the worker, but for correction(). The view is always that of
// the section "params".
class LocalRule {
 public:
  virtual ~LocalRule() = default;

  virtual void round_began(ConstView params) = 0;   // the round's steps start from these
  // Of the round that began last: added to the gradient of each of its steps; count 0: nothing. It stays in place and
  // as it is until the next round begins. Control thread.
  virtual ConstView correction() const = 0;
  virtual void after_mix(View params) = 0;          // what exchanges decided was just added
  virtual void before_share(View params) = 0;       // what it leaves here is encoded

  // Of a checkpoint. load() returns false and changes nothing if the bytes do not fit this rule.
  virtual std::vector<std::byte> save() const = 0;
  [[nodiscard]] virtual bool load(std::span<const std::byte> saved) = 0;
};

}  // namespace starling
