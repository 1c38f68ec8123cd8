// A step in parts: neighboring tensors are stepped together as soon as backward has ended with them, and are told of.
// For LibTorch's trainer; where its params lie on a device, each part is told of once it has landed in host memory.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/train/model_plan.h"
#include "agent/train/part_copies.h"
#include "agent/train/trainer.h"

namespace at {
class Tensor;
}

namespace starling {

class FlatGradients;
class TorchOptimizer;

// One float where the values are: 0 if all of them are finite, else 1.
at::Tensor not_finite(const at::Tensor& values);

class TorchParts {
 public:
  // Both tensors are flat, of equal size and place; `tensors` are the params' views by slot. `gradients` tell of their
  // ends, and are not used after the object. `wake` wakes the trainer's owner. Optimizer and clock outlive the object.
  TorchParts(const ModelPlan& plan, const std::vector<at::Tensor>& tensors, const at::Tensor& params,
             const at::Tensor& grads, FlatGradients& gradients, TorchOptimizer& optimizer, const Clock& clock,
             std::function<void()> wake);
  ~TorchParts();

  size_t count() const { return parts_.size(); }  // 0: the optimizer steps all params at once
  // The params lie on a device: from now on what is told of has landed by this lane, which has count() tickets.
  // `here`: whether the calling thread's operations go to the stream that the lane waits for. Throws
  // DeviceFailure.
  void land_by(std::unique_ptr<CopyLane> lane, std::function<bool()> here);
  void tell_none(std::string why);  // for good
  // As Trainer has it.
  std::string early_send_blocked_reason() const;

  // Before each step, whatever it tells. False: it tells of nothing, and is to be stepped as a whole.
  [[nodiscard]] bool begin(const LocalSteps& steps);
  void give_up();  // the step threw: then nothing is under way any more
  // The step's end; false: the loss or a gradient was not finite.
  bool end(double loss);
  // On a device: the same as one float of it, 0 if all was finite; nothing has to end for that. Then land_rest() tells
  // of what still is under way.
  at::Tensor end(const at::Tensor& loss);
  void land_rest();

 private:
  struct Part {
    size_t first = 0, tensors = 0;  // of tensors_
    size_t offset = 0, count = 0;   // of elements
    size_t left = 0;                // tensors that are not final yet in this step
    bool stepped = false;           // in this step
  };
  struct Verdicts;

  void cut();
  void told_final(size_t tensor);
  void tell_from_device(size_t index);
  bool step(size_t index);
  void step_rest();

  const ModelPlan plan_;
  const std::vector<at::Tensor>& tensors_;
  const at::Tensor &params_, &grads_;
  TorchOptimizer& optimizer_;
  const Clock& clock_;
  const std::function<void()> wake_;
  std::vector<Part> parts_;              // in the order of backward
  std::vector<size_t> part_of_;          // by tensor
  const LocalSteps* telling_ = nullptr;  // the step that tells what is final; null: none does now
  bool finite_ = true;                   // of this step, on the host
  size_t left_ = 0;                      // parts that are not stepped yet
  std::function<bool()> here_;
  std::unique_ptr<PartCopies> copies_;  // null: the params lie in host memory, or nothing is told
  std::unique_ptr<Verdicts> verdicts_;  // of this step, on a device
  std::string tells_none_;
};

}  // namespace starling
