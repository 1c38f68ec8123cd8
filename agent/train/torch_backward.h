// A backward that writes each gradient into its place in a flat buffer, once: nothing is zeroed before, or added. Of a
// large layer that saves two passes over it, and a fresh copy of it for each step.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace at {
class Tensor;
}

namespace starling {

// x times the transposed weight, plus bias, for x of two dimensions. Takes the weight's grad(), if there is one, as the
// memory in which backward computes its gradient; FlatGradients then finds it in its place.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// Between two calls of backward() the grad() of each tensor is its place.
class FlatGradients {
 public:
  // REQUIRES: the tensors are leaves that require gradients and outlive the object; places[i] has the shape of
  // tensors[i], and no other tensor's memory.
  FlatGradients(const std::vector<at::Tensor>& tensors, std::vector<at::Tensor> places);
  FlatGradients(const FlatGradients&) = delete;

  // From now on `on_final(i)` is called in each backward when the gradient of tensor i is in its place, on the thread
  // that computes it: for tensors in host memory, the one that called backward(). A tensor that several layers share is
  // final once, after the last of them. What backward does not reach is not told, and its gradient is zero.
  void tell_when_final(std::function<void(size_t tensor)> on_final) { on_final_ = std::move(on_final); }

  // Throws what LibTorch and `on_final` throw; the places then hold anything.
  void backward(const at::Tensor& loss);

 private:
  class Hook;

  void take(size_t tensor);

  const std::vector<at::Tensor>& tensors_;
  const std::vector<at::Tensor> places_;
  std::function<void(size_t)> on_final_ = [](size_t) {};
};

}  // namespace starling
