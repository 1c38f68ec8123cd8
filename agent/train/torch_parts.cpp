#include "agent/train/torch_parts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "agent/train/torch_backward.h"
#include "agent/train/torch_optimizer.h"
#include "kernels/cast.h"
#include "kernels/check.h"

namespace starling {
namespace {

// The padding behind a tensor is part of it.
size_t part_end(const ModelPlan& plan, size_t tensor) {
  return tensor + 1 < plan.slots.size() ? plan.slots[tensor + 1].offset : plan.param_count;
}

at::Tensor run_of(const at::Tensor& flat, size_t offset, size_t count) {
  return flat.narrow(0, static_cast<int64_t>(offset), static_cast<int64_t>(count));
}

ConstView view_of(const at::Tensor& flat) {
  return {flat.const_data_ptr<float>(), static_cast<size_t>(flat.numel()),
          flat.is_cuda() ? MemorySpace::kCuda : MemorySpace::kHost};
}

}  // namespace

at::Tensor not_finite(const at::Tensor& values) {
  const at::Tensor largest = at::linalg_vector_norm(values, std::numeric_limits<double>::infinity());
  return at::isfinite(largest).logical_not_().to(at::kFloat);
}

// One float after each part, and one after the loss: each is written once a step, so that a copy reads what was meant.
struct TorchParts::Verdicts {
  Verdicts(size_t parts, const at::TensorOptions& place) {
    const at::Tensor all = at::zeros({static_cast<int64_t>(parts + 2)}, place);
    for (size_t i = 0; i < parts + 2; ++i) each.push_back(run_of(all, i, 1));
  }
  void begin() { at_step = 0; }
  void add(const at::Tensor& bad) {
    at::maximum_out(each[at_step + 1], each[at_step], bad);
    ++at_step;
  }
  const at::Tensor& now() const { return each[at_step]; }

  std::vector<at::Tensor> each;  // the first is 0
  size_t at_step = 0;
};

TorchParts::TorchParts(const ModelPlan& plan, const std::vector<at::Tensor>& tensors, const at::Tensor& params,
                       const at::Tensor& grads, FlatGradients& gradients, TorchOptimizer& optimizer, const Clock& clock,
                       std::function<void()> wake)
    : plan_(plan),
      tensors_(tensors),
      params_(params),
      grads_(grads),
      optimizer_(optimizer),
      clock_(clock),
      wake_(std::move(wake)) {
  cut();
  gradients.tell_when_final([this](size_t tensor) { told_final(tensor); });
}

TorchParts::~TorchParts() = default;

// Small neighbors make one part: a part costs operations and a wake-up, and no slice that waits for it is smaller than
// kPartMin.
void TorchParts::cut() {
  constexpr size_t kPartMin = 16 * 1024;
  std::vector<size_t> ends;
  part_of_.resize(tensors_.size());
  for (size_t end = tensors_.size(); end > 0;) {  // in the order of backward
    Part part;
    for (part.first = end; part.first > 0 && part.count < kPartMin;) {
      part.offset = plan_.slots[--part.first].offset;
      part.count = part_end(plan_, end - 1) - part.offset;
    }
    part.tensors = end - part.first;
    std::fill_n(part_of_.begin() + static_cast<std::ptrdiff_t>(part.first), part.tensors, parts_.size());
    ends.insert(ends.begin(), part.offset + part.count);
    parts_.push_back(part);
    end = part.first;
  }
  if (!optimizer_.cut(ends)) parts_.clear();
}

void TorchParts::land_by(std::unique_ptr<CopyLane> lane, std::function<bool()> here) {
  here_ = std::move(here);
  copies_ = std::make_unique<PartCopies>(std::move(lane), count(), view_of(params_).space, clock_, wake_);
  verdicts_ = std::make_unique<Verdicts>(count(), params_.options());
}

void TorchParts::tell_none(std::string why) { tells_none_ = std::move(why); }

std::string TorchParts::early_send_blocked_reason() const {
  if (parts_.empty()) return "this optimizer steps all params at once";
  return copies_ ? copies_->stopped_because() : tells_none_;
}

bool TorchParts::begin(const LocalSteps& steps) {
  telling_ = nullptr;  // a step that failed left it
  if (!steps.on_final || !early_send_blocked_reason().empty()) return false;
  telling_ = &steps;
  finite_ = true;
  left_ = parts_.size();
  for (Part& part : parts_) part.left = part.tensors, part.stepped = false;
  if (!copies_) return true;
  STARLING_CHECK(steps.landing.size() == plan_.param_count);
  verdicts_->begin();
  copies_->begin_step(steps);
  return true;
}

void TorchParts::give_up() {
  if (std::exchange(telling_, nullptr) != nullptr && copies_) copies_->stop("a step failed");
}

// In the middle of backward, on its thread. Every layer that reads a tensor has a share in its gradient, so when this
// is final none of them reads it any more, and it is stepped where it lies.
void TorchParts::told_final(size_t tensor) {
  if (telling_ == nullptr) return;
  const size_t index = part_of_[tensor];
  Part& part = parts_[index];
  if (--part.left > 0) return;
  if (copies_) return tell_from_device(index);
  if (!step(index)) return;
  const bool look = telling_->on_final({part.offset, part.count, clock_.now()});
  if (look && left_ > 0) wake_();  // after the last part the step's end does, in a moment
}

// Params are stepped once a step and by this stream alone, and a step ends when all has landed: what is copied stays.
void TorchParts::tell_from_device(size_t index) {
  if (!here_()) return copies_->stop("LibTorch computes gradients on a stream of its own");  // the step's end steps it
  (void)step(index);
  const Part& part = parts_[index];
  copies_->copy(index, part.offset, view_of(run_of(params_, part.offset, part.count)), view_of(verdicts_->now()));
  copies_->tell_landed();
}

// False: nothing may be told of it, and no more is stepped. A device says so by its verdict.
bool TorchParts::step(size_t index) {
  Part& part = parts_[index];
  const at::Tensor* skip = nullptr;
  if (copies_) {
    verdicts_->add(not_finite(run_of(grads_, part.offset, part.count)));
    skip = &verdicts_->now();
  } else {
    const auto* const grads = static_cast<const std::byte*>(grads_.const_data_ptr());
    finite_ = finite_ && all_finite_f32(grads + part.offset * sizeof(float), part.count);
    if (!finite_) return false;
  }
  --left_;
  part.stepped = true;
  optimizer_.step_part(telling_->learning_rate, parts_.size() - 1 - index, skip);
  for (size_t i = 0; i < part.tensors; ++i) {  // a layer that still read one of them would throw now
    tensors_[part.first + i].unsafeGetTensorImpl()->bump_version();
  }
  return true;
}

// What backward did not reach has a gradient of zero, and momentum and decay all the same.
void TorchParts::step_rest() {
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (!parts_[i].stepped) (void)step(i);
  }
  telling_ = nullptr;
}

bool TorchParts::end(double loss) {
  finite_ = finite_ && std::isfinite(loss);
  step_rest();
  return finite_;
}

at::Tensor TorchParts::end(const at::Tensor& loss) {
  verdicts_->add(not_finite(loss));
  step_rest();
  return verdicts_->now();
}

void TorchParts::land_rest() { copies_->end_step(); }

}  // namespace starling
