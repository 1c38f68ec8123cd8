// When backward has ended with each tensor: LibTorch's hooks, which run once a gradient is whole and stored.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace at {
class Tensor;
}

namespace starling {

// From now on `on_final(i)` is called in each backward when the gradient of tensor i is final, on the thread that
// computes it: for tensors in host memory, the one that called backward(). A tensor that several layers share is final
// once, after the last of them. What backward does not reach is not told.
// REQUIRES: the tensors are leaves that require gradients, and `on_final` outlives their last backward.
void tell_when_final(const std::vector<at::Tensor>& tensors, const std::function<void(size_t tensor)>& on_final);

}  // namespace starling
