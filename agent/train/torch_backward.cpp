#include "agent/train/torch_backward.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>

#include "kernels/check.h"

namespace starling {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// As LibTorch's own, to the bit, but for where the weight's gradient lies.
class LinearInPlace final : public torch::autograd::Function<LinearInPlace> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const at::Tensor& place) {
    context->save_for_backward({x, weight});
    context->saved_data["place"] = place;
    return at::linear(x, weight, bias);
  }

  static variable_list backward(AutogradContext* context, const variable_list& outputs) {
    const at::Tensor& gradient = outputs[0];
    const variable_list saved = context->get_saved_variables();
    at::Tensor of_x;
    if (context->needs_input_grad(0)) of_x = gradient.mm(saved[1]);
    // LibTorch takes a gradient as it is only where nothing else refers to the tensor.
    at::Tensor of_weight = context->saved_data["place"].toTensor().detach();
    at::mm_out(of_weight, gradient.t(), saved[0]);
    return {of_x, of_weight, gradient.sum(0), at::Tensor()};
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!at::GradMode::is_enabled() || !weight.grad().defined()) return at::linear(x, weight, bias);
  const at::Tensor place = std::exchange(weight.mutable_grad(), {});  // a second layer would write over it
  return LinearInPlace::apply(x, weight, bias, place);
}

class FlatGradients::Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(FlatGradients& gradients, size_t tensor) : gradients_(gradients), tensor_(tensor) {}
  void operator()(const at::Tensor&) override { gradients_.take(tensor_); }

 private:
  FlatGradients& gradients_;
  const size_t tensor_;
};

FlatGradients::FlatGradients(const std::vector<at::Tensor>& tensors, std::vector<at::Tensor> places)
    : tensors_(tensors), places_(std::move(places)) {
  STARLING_CHECK(tensors_.size() == places_.size());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    tensors_[i].mutable_grad() = places_[i];
    torch::autograd::impl::set_post_acc_grad_hooks(tensors_[i], std::make_unique<Hook>(*this, i));
  }
}

void FlatGradients::take(size_t tensor) {
  at::Tensor& found = tensors_[tensor].mutable_grad();
  if (found.const_data_ptr() != places_[tensor].const_data_ptr()) {
    const at::NoGradGuard no_grad;
    places_[tensor].copy_(found);
  }
  found = places_[tensor];
  on_final_(tensor);
}

void FlatGradients::backward(const at::Tensor& loss) {
  for (const at::Tensor& tensor : tensors_) tensor.mutable_grad().reset();
  loss.backward();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].grad().defined()) continue;
    places_[i].zero_();
    tensors_[i].mutable_grad() = places_[i];
  }
}

}  // namespace starling
