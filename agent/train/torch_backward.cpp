#include "agent/train/torch_backward.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>

namespace starling {
namespace {

class FinalHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  FinalHook(size_t tensor, const std::function<void(size_t)>& on_final) : tensor_(tensor), on_final_(on_final) {}
  void operator()(const at::Tensor&) override { on_final_(tensor_); }

 private:
  const size_t tensor_;
  const std::function<void(size_t)>& on_final_;
};

}  // namespace

void tell_when_final(const std::vector<at::Tensor>& tensors, const std::function<void(size_t tensor)>& on_final) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    torch::autograd::impl::set_post_acc_grad_hooks(tensors[i], std::make_unique<FinalHook>(i, on_final));
  }
}

}  // namespace starling
