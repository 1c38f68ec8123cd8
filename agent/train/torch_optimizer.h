// Optimizers over one flat buffer: a single fused pass per step, whatever the number of tensors.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "agent/train/options.h"

namespace at {
class Tensor;
}

namespace starling {

class TorchOptimizer {
 public:
  virtual ~TorchOptimizer() = default;

  // `skip` (may be null): a one-element float tensor on the device of the params; if it holds 1, nothing changes.
  virtual void step(double learning_rate, const at::Tensor* skip) = 0;
  // From now on step_part() can make the same step for one part of the elements alone. `ends`: of the parts, ascending,
  // the last one of all. False: this optimizer cannot.
  [[nodiscard]] virtual bool cut(const std::vector<size_t>& ends);
  virtual void step_part(double learning_rate, size_t part, const at::Tensor* skip);  // REQUIRES: cut()
  virtual const at::Tensor* momentum() const = 0;  // flat; null: this optimizer has none to share
  // All but momentum(), in host memory. REQUIRES: whole floats before it. Throws std::bad_alloc.
  virtual void append_state(std::vector<std::byte>& to) const = 0;
  // False, and nothing changed: the bytes are not this optimizer's state.
  [[nodiscard]] virtual bool load_state(std::span<const std::byte> state) = 0;
};

// Holds references to both buffers (flat, float, of equal size and device). Throws std::runtime_error:
// unknown kind, a number out of range.
std::unique_ptr<TorchOptimizer> make_torch_optimizer(const OptimizerConfig& config, const at::Tensor& params,
                                                     const at::Tensor& grads);

}  // namespace starling
