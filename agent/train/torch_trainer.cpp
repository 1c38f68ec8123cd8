#include "agent/train/torch_trainer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "agent/data/order.h"
#include "agent/train/thread_tuner.h"
#include "agent/train/torch_backward.h"
#include "agent/train/torch_device.h"
#include "agent/train/torch_model.h"
#include "agent/train/torch_optimizer.h"
#include "agent/train/trainer_thread.h"
#include "kernels/cast.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr int64_t kEvaluationBatch = 500;
constexpr uint64_t kStateMagic = 0x3148435254524c53ull;  // "SLRTRCH1"

// Before the optimizer's own bytes in save_state().
struct StateHead {
  uint64_t magic;
  uint64_t param_count;
  uint64_t sample_count;
  uint64_t epoch, position;  // of the next sample
};

// One data set on the device, as bytes: a batch becomes floats when it is used.
struct DeviceData {
  at::Tensor images;  // uint8, samples x channels x height x width
  at::Tensor labels;  // int64
  int64_t count = 0;
};

// What the steps of one call add up to.
struct Tally {
  uint64_t steps = 0;
  double loss_sum = 0;
  bool finite = true;
  Duration forward{}, backward{};   // on the CPU alone: the calls of a GPU return before it has computed
};

// The padding behind a tensor is part of it.
size_t part_end(const ModelPlan& plan, size_t tensor) {
  return tensor + 1 < plan.slots.size() ? plan.slots[tensor + 1].offset : plan.param_count;
}

void check_fits(const Dataset& data, const ModelConfig& model, const std::string& which) {
  if (data.count() > 0 && data.shape != model.input) {
    throw std::runtime_error("the " + which +
                             " images have another size than swarm.model.input; change either");
  }
  STARLING_CHECK(data.pixels.size() == data.count() * data.sample_elements());
  std::vector<uint8_t> named = data.labels;
  if (model.kind == "lstm") named.insert(named.end(), data.pixels.begin(), data.pixels.end());   // it predicts them too
  for (const uint8_t label : named) {
    if (label < model.classes) continue;
    throw std::runtime_error("the " + which + " data hold label " + std::to_string(label) +
                             ", but the model has " + std::to_string(model.classes) +
                             " classes; raise swarm.model.classes");
  }
}

class TorchTrainer final : public Trainer {
 public:
  TorchTrainer(const TrainerOptions& options, Dataset train, Dataset test, std::function<void()> on_idle);
  ~TorchTrainer() override { leaving_ = true; }  // the thread's destructor then waits for one step at most

  std::vector<TrainerSection> sections() override;
  void params_changed() override {
    STARLING_CHECK(idle());
  }  // the tensors are views: there is nothing to copy
  void start_steps(const LocalSteps& steps) override;
  std::string tells_none_because() const override;
  void start_evaluation() override;
  TimePoint idle_at() const override { return thread_.idle() ? TimePoint::min() : TimePoint::max(); }
  StepReport take_steps() override;
  std::optional<Evaluation> take_evaluation() override;
  std::vector<std::byte> save_state() override;
  bool load_state(std::span<const std::byte> state) override;
  TrainerData data() const override { return {train_.count(), summarize(train_)}; }

 private:
  View view_of(const at::Tensor& flat) const;
  DeviceData upload(Dataset& data) const;
  void run_job(const std::function<void()>& job);
  void run_steps(const LocalSteps& steps);
  void pretend_until(TimePoint end) const;
  at::Tensor compute_gradient(const ConstView& correction, Tally& tally);
  void step_on_cpu(const LocalSteps& steps, Tally& tally);
  void cut_parts();
  void begin_parts(const LocalSteps& steps);
  void told_final(size_t tensor);
  bool step_part(size_t index);
  void end_parts();
  Tally steps_on_gpu(const LocalSteps& steps);
  Evaluation evaluate();

  const ModelConfig model_;
  const Duration step_time_;       // that a step takes at least
  Dataset train_, test_;           // on the CPU the tensors of the device data view these bytes
  const ModelPlan plan_;
  TorchDevice device_;
  std::optional<ThreadTuner> tuner_;   // of CPU threads that nobody has fixed
  at::Tensor params_, grads_;      // flat
  std::vector<at::Tensor> tensors_;  // views into params_, whose gradients are views into grads_
  std::unique_ptr<TorchOptimizer> optimizer_;
  DeviceData train_data_, test_data_;
  DatasetOrder order_;
  std::vector<int64_t> batch_;     // indices of the samples of one step
  // What is stepped and told of together: tensors that are neighbors.
  struct Part {
    size_t first = 0, tensors = 0;       // of tensors_
    size_t offset = 0, count = 0;        // of elements
    size_t left = 0;                     // tensors that are not final yet in this step
  };
  std::vector<Part> parts_;              // empty: a step tells nothing
  std::vector<size_t> part_of_;          // by tensor
  const LocalSteps* telling_ = nullptr;  // the step that tells what is final; null: none does now
  bool parts_finite_ = true;             // of this step
  size_t parts_left_ = 0;                // not stepped yet
  std::function<void(size_t)> on_final_ = [this](size_t tensor) { told_final(tensor); };
  StepReport report_;
  std::optional<Evaluation> evaluation_;
  std::atomic<bool> leaving_ = false;
  TrainerThread thread_;           // last: ends before what it works on
};

Dataset require_data(Dataset train, const ModelConfig& model) {
  if (train.count() == 0) {
    throw std::runtime_error("there are no training samples; set agent.data.path to a folder with IDX, CIFAR-10 "
                             "or text files, or to `generated`");
  }
  check_fits(train, model, "training");
  return train;
}

TorchTrainer::TorchTrainer(const TrainerOptions& options, Dataset train, Dataset test, std::function<void()> on_idle)
    : model_(options.model),
      step_time_(from_seconds(1e-3 * options.compute_ms)),
      train_(require_data(std::move(train), options.model)),
      test_(std::move(test)),
      plan_(plan_model(options.model)),
      device_(options.device, options.threads),
      order_(train_.count(), options.swarm_rng_seed, options.shard),
      batch_(options.batch),
      thread_(std::move(on_idle)) {
  check_fits(test_, model_, "test");
  if (batch_.empty())
    throw std::runtime_error("a batch of 0 samples; set agent.batch or swarm.batch to at least 1");
  device_.enter();
  if (options.threads == 0 && !device_.is_cuda()) tuner_.emplace(static_cast<uint32_t>(at::get_num_threads()));
  std::vector<float> genesis = draw_genesis(plan_, options.swarm_rng_seed);
  const auto place = at::TensorOptions(at::kFloat).device(device_.is_cuda() ? at::kCUDA : at::kCPU);
  params_ = at::empty({static_cast<int64_t>(plan_.param_count)}, place);
  params_.copy_(at::from_blob(genesis.data(), params_.sizes(), at::kFloat));
  grads_ = at::zeros_like(params_);
  tensors_ = slot_views(plan_, params_);
  const std::vector<at::Tensor> grad_views = slot_views(plan_, grads_);
  for (size_t i = 0; i < tensors_.size(); ++i) {
    tensors_[i].requires_grad_(true);
    tensors_[i].mutable_grad() = grad_views[i];
  }
  optimizer_ = make_torch_optimizer(options.optimizer, params_, grads_);
  if (!device_.is_cuda()) {
    cut_parts();
    tell_when_final(tensors_, on_final_);
  }
  train_data_ = upload(train_);
  test_data_ = upload(test_);
  device_.synchronize();
}

View TorchTrainer::view_of(const at::Tensor& flat) const {
  return {flat.mutable_data_ptr<float>(), static_cast<size_t>(flat.numel()),
          device_.is_cuda() ? MemorySpace::kCuda : MemorySpace::kHost};
}

std::vector<TrainerSection> TorchTrainer::sections() {
  STARLING_CHECK(idle());
  std::vector<TrainerSection> sections = {{"params", SectionKind::kMixed, view_of(params_)}};
  if (const at::Tensor* momentum = optimizer_->momentum()) {
    sections.push_back({"momentum", SectionKind::kLocal, view_of(*momentum)});
  }
  return sections;
}

DeviceData TorchTrainer::upload(Dataset& data) const {
  const auto place = device_.is_cuda() ? at::kCUDA : at::kCPU;
  const int64_t count = static_cast<int64_t>(data.count());
  std::vector<int64_t> shape = model_.input;
  shape.insert(shape.begin(), count);
  DeviceData uploaded;
  uploaded.images = at::from_blob(data.pixels.data(), shape, at::kByte).to(place);
  uploaded.labels = at::from_blob(data.labels.data(), {count}, at::kByte).to(at::kLong).to(place);
  uploaded.count = count;
  if (device_.is_cuda()) data.pixels = {};  // the GPU has its own
  return uploaded;
}

// On the trainer thread, or on whichever holds the idle trainer.
void TorchTrainer::run_job(const std::function<void()>& job) {
  try {
    device_.enter();
    job();
    device_.synchronize();  // an idle trainer's params do not change any more
  } catch (const c10::Error& error) {
    rethrow_torch_error(error);
  }
}

void TorchTrainer::start_steps(const LocalSteps& steps) {
  STARLING_CHECK(!steps.on_final || (steps.count == 1 && steps.correction.count == 0));
  STARLING_CHECK(steps.correction.count == 0 || steps.correction.count == plan_.param_count);
  thread_.start([steps, this] { run_job([&] { run_steps(steps); }); });
}

void TorchTrainer::start_evaluation() {
  thread_.start([this] { run_job([this] { evaluation_ = evaluate(); }); });
}

std::string TorchTrainer::tells_none_because() const {
  if (device_.is_cuda()) return "this agent computes on a GPU, which is not asked when a layer's gradient is complete";
  return parts_.empty() ? "this optimizer steps all params at once" : "";
}

void TorchTrainer::run_steps(const LocalSteps& steps) {
  const SteadyClock clock;
  const TimePoint start = clock.now();
  Tally tally;
  if (device_.is_cuda()) {
    tally = steps_on_gpu(steps);
  } else {
    while (tally.steps < steps.count && tally.finite && !leaving_) step_on_cpu(steps, tally);
  }
  if (tuner_) {
    tuner_->took(tally.steps, clock.now() - start, clock.now());
    device_.use_threads(tuner_->threads());
  }
  pretend_until(start + static_cast<int64_t>(tally.steps) * step_time_);
  report_ = {.steps = tally.steps, .samples = tally.steps * batch_.size(),
             .mean_loss = tally.steps > 0 ? tally.loss_sum / static_cast<double>(tally.steps) : 0,
             .finite = tally.finite, .compute_time = clock.now() - start, .forward_time = tally.forward,
             .backward_time = tally.backward, .threads = tuner_ ? tuner_->chosen() : 0};
}

// A slower machine than this one: many agents on a few processors then wait side by side instead of for each other.
// In short naps, as whoever ends the trainer waits for this thread.
void TorchTrainer::pretend_until(TimePoint end) const {
  constexpr Duration kNap = std::chrono::milliseconds(20);
  const SteadyClock clock;
  for (Duration left = end - clock.now(); left > Duration::zero() && !leaving_; left = end - clock.now()) {
    std::this_thread::sleep_for(std::min(left, kNap));
  }
}

// Leaves the gradient of one batch in grads_, corrected. Returns the loss.
at::Tensor TorchTrainer::compute_gradient(const ConstView& correction, Tally& tally) {
  const SteadyClock clock;
  order_.next(batch_);
  at::Tensor rows = at::from_blob(batch_.data(), {static_cast<int64_t>(batch_.size())}, at::kLong);
  if (device_.is_cuda()) rows = rows.to(at::kCUDA);
  const at::Tensor images = train_data_.images.index_select(0, rows);
  const at::Tensor wanted = targets(model_, images, train_data_.labels.index_select(0, rows));
  grads_.zero_();  // in place: a gradient that is set to none would lose its place in the flat buffer
  const TimePoint began = clock.now();
  const at::Tensor loss = at::cross_entropy_loss(forward(model_, tensors_, images), wanted);
  const TimePoint half = clock.now();
  loss.backward();
  if (!device_.is_cuda()) {
    tally.forward += half - began;
    tally.backward += clock.now() - half;
  }
  if (correction.count > 0) {
    grads_.add_(at::from_blob(const_cast<float*>(correction.data), grads_.sizes(), grads_.options()));
  }
  return loss.detach();
}

const std::byte* bytes_of(const at::Tensor& flat) { return static_cast<const std::byte*>(flat.const_data_ptr()); }

// Small neighbors make one part: a part costs operations and a wake-up, and no slice that waits for it is smaller than
// kPartMin.
void TorchTrainer::cut_parts() {
  constexpr size_t kPartMin = 16 * 1024;
  std::vector<size_t> ends;
  part_of_.resize(tensors_.size());
  for (size_t end = tensors_.size(); end > 0;) {   // in the order of backward
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
  if (!optimizer_->cut(ends)) parts_.clear();
}

void TorchTrainer::begin_parts(const LocalSteps& steps) {
  telling_ = &steps;
  parts_finite_ = true;
  parts_left_ = parts_.size();
  for (Part& part : parts_) part.left = part.tensors;
}

// In the middle of backward, on its thread. Every layer that reads a tensor has a share in its gradient, so when this
// is final none of them reads it any more, and it is stepped where it lies.
void TorchTrainer::told_final(size_t tensor) {
  if (telling_ == nullptr) return;
  Part& part = parts_[part_of_[tensor]];
  if (--part.left > 0 || !step_part(part_of_[tensor])) return;
  const SteadyClock clock;
  const bool look = telling_->on_final({part.offset, part.count, clock.now()});
  if (look && parts_left_ > 0) thread_.wake_owner();   // after the last part the step's end does, in a moment
}

// False: nothing may be told of it, and no more is stepped.
bool TorchTrainer::step_part(size_t index) {
  const Part& part = parts_[index];
  parts_finite_ = parts_finite_ && all_finite_f32(bytes_of(grads_) + part.offset * sizeof(float), part.count);
  if (!parts_finite_) return false;
  --parts_left_;
  optimizer_->step_part(telling_->learning_rate, parts_.size() - 1 - index);
  for (size_t i = 0; i < part.tensors; ++i) {   // a layer that still read one of them would throw now
    tensors_[part.first + i].unsafeGetTensorImpl()->bump_version();
  }
  return true;
}

// What backward did not reach has a gradient of zero, and momentum and decay all the same.
void TorchTrainer::end_parts() {
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].left > 0) (void)step_part(i);
  }
  telling_ = nullptr;
}

void TorchTrainer::step_on_cpu(const LocalSteps& steps, Tally& tally) {
  const bool in_parts = steps.on_final && !parts_.empty();
  telling_ = nullptr;   // a step that failed left it
  if (in_parts) begin_parts(steps);
  const double loss = compute_gradient(steps.correction, tally).item<float>();
  if (in_parts) {
    parts_finite_ = parts_finite_ && std::isfinite(loss);
    end_parts();
    tally.finite = parts_finite_;
  } else {
    tally.finite = std::isfinite(loss) && all_finite_f32(bytes_of(grads_), plan_.param_count);
    if (tally.finite) optimizer_->step(steps.learning_rate, nullptr);
  }
  if (!tally.finite) return;
  tally.loss_sum += loss;
  ++tally.steps;
}

// Never waits for the GPU between two steps: the verdict "not finite" stays on the GPU and disables all later steps.
Tally TorchTrainer::steps_on_gpu(const LocalSteps& steps) {
  const auto place = at::TensorOptions(at::kFloat).device(at::kCUDA);
  Tally tally;
  const at::Tensor bad = at::zeros({1}, place), applied = at::zeros({1}, place),
                   loss_sum = at::zeros({1}, place);
  for (uint32_t i = 0; i < steps.count && !leaving_; ++i) {
    const at::Tensor loss = compute_gradient(steps.correction, tally);
    const at::Tensor largest = at::linalg_vector_norm(grads_, std::numeric_limits<double>::infinity());
    bad.copy_(
        at::max(bad, at::isfinite(loss).logical_and_(at::isfinite(largest)).logical_not_().to(at::kFloat)));
    optimizer_->step(steps.learning_rate, &bad);
    applied.add_(1 - bad);
    loss_sum.add_(at::where(bad > 0, at::zeros_like(bad), loss));
  }
  const at::Tensor results = at::cat({bad, applied, loss_sum}).cpu();
  const float* values = results.const_data_ptr<float>();
  tally.steps = static_cast<uint64_t>(values[1]);
  tally.loss_sum = values[2];
  tally.finite = values[0] == 0;
  return tally;
}

Evaluation TorchTrainer::evaluate() {
  const at::NoGradGuard no_grad;
  Evaluation result;
  if (test_data_.count == 0) return result;
  double correct = 0, loss_sum = 0, predictions = 0;
  for (int64_t first = 0; first < test_data_.count && !leaving_; first += kEvaluationBatch) {
    const int64_t count = std::min(kEvaluationBatch, test_data_.count - first);
    const at::Tensor images = test_data_.images.narrow(0, first, count);
    const at::Tensor wanted = targets(model_, images, test_data_.labels.narrow(0, first, count));
    const at::Tensor scores = forward(model_, tensors_, images);
    loss_sum += at::cross_entropy_loss(scores, wanted, {}, at::Reduction::Sum).item<float>();
    correct += static_cast<double>(scores.argmax(1).eq(wanted).sum().item<int64_t>());
    predictions += static_cast<double>(wanted.numel());
    result.samples += static_cast<uint64_t>(count);
  }
  if (result.samples == 0) return result;
  result.accuracy = correct / predictions;
  result.loss = loss_sum / predictions;
  return result;
}

StepReport TorchTrainer::take_steps() {
  thread_.rethrow_failure();
  return report_;
}

std::optional<Evaluation> TorchTrainer::take_evaluation() {
  thread_.rethrow_failure();
  return std::exchange(evaluation_, std::nullopt);
}

std::vector<std::byte> TorchTrainer::save_state() {
  STARLING_CHECK(idle());
  std::vector<std::byte> optimizer_state;
  run_job([&] { optimizer_state = optimizer_->save_state(); });
  const DatasetOrder::Place place = order_.place();
  const StateHead head{kStateMagic, plan_.param_count, train_.count(), place.epoch, place.position};
  std::vector<std::byte> state(sizeof head + optimizer_state.size());
  std::memcpy(state.data(), &head, sizeof head);
  std::copy(optimizer_state.begin(), optimizer_state.end(), state.begin() + sizeof head);
  return state;
}

bool TorchTrainer::load_state(std::span<const std::byte> state) {
  STARLING_CHECK(idle());
  StateHead head;
  if (state.size() < sizeof head) return false;
  std::memcpy(&head, state.data(), sizeof head);
  if (head.magic != kStateMagic || head.param_count != plan_.param_count || head.position >= head.sample_count) {
    return false;
  }
  bool loaded = false;
  run_job([&] { loaded = optimizer_->load_state(state.subspan(sizeof head)); });
  if (!loaded) return false;
  // A place among other samples means nothing: the epoch begins anew.
  const bool same_data = head.sample_count == train_.count();
  STARLING_CHECK(order_.set_place({head.epoch, same_data ? head.position : 0}));
  return true;
}

}  // namespace

std::unique_ptr<Trainer> make_torch_trainer(const TrainerOptions& options, Dataset train, Dataset test,
                                            std::function<void()> on_idle) {
  try {
    return std::make_unique<TorchTrainer>(options, std::move(train), std::move(test), std::move(on_idle));
  } catch (const c10::Error& error) {
    rethrow_torch_error(error);
  }
}

}  // namespace starling
