// How a replica of the model takes an entry: the same arithmetic at every member, so that equal logs make equal
// replicas. With values e of the entry:
//   plain      R += (rate * factor) * e
//   Nesterov   v = factor * e;  m = momentum * m + v;  R += rate * (v + momentum * m)
// in fp32, one rounding by each operation, no fused multiply-add. The second is the outer step of DiLoCo (Douillard et
// al. 2023, arXiv:2311.08105), in the form of Sutskever et al. 2013 ("On the importance of initialization and momentum
// in deep learning") that optimizers use. A round without an entry is no step: m stays.
#pragma once

#include <limits>
#include <span>

#include "compression/update_codec.h"

namespace starling {

struct OuterRule {
  float momentum = 0;  // 0: plain, and there is no m; at least 0, below 1
  float rate = 1;      // above 0

  bool has_momentum() const { return momentum > 0; }
};

// How far from zero the values of R and m may be: no magnitude is larger. Unknown until the first entry is applied.
// While an entry cannot carry them out of a float's range, no pass over all values has to ask whether it does.
struct OuterReach { double params = std::numeric_limits<double>::infinity(), momentum = params; };

class SliceMath;

// Applies one entry of a slice to its params R and its momentum m, where `math` has them. `factor`: 1, or less for an
// entry that counts at less than its full size. `norm`: of the entry's values, or more. False, and nothing is changed,
// if a value of R or m would not be finite: the same on every member, whatever its `reach` is.
// REQUIRES: the entry passed check(kEntry) for params.size() elements; momentum.size() == params.size() where the rule
// has momentum, else 0; both finite. `reach` was made by the calls before for the same R and m, or is new.
[[nodiscard]] bool apply_entry(const SliceMath& math, const OuterRule& rule, const UpdateCodec& codec, float factor,
                               Bytes entry, double norm, std::span<float> params, std::span<float> momentum,
                               OuterReach* reach);

}  // namespace starling
