#include "agent/train/torch_trainer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "agent/data/order.h"
#include "agent/train/thread_tuner.h"
#include "agent/train/torch_backward.h"
#include "agent/train/torch_device.h"
#include "agent/train/torch_evaluation.h"
#include "agent/train/torch_model.h"
#include "agent/train/torch_optimizer.h"
#include "agent/train/torch_parts.h"
#include "agent/train/trainer_thread.h"
#include "kernels/cast.h"
#include "kernels/check.h"

namespace starling {
namespace {

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
  Duration forward{}, backward{};  // on the CPU alone: the calls of a GPU return before it has computed
};

void check_fits(const Dataset& data, const ModelConfig& model, const std::string& which) {
  if (data.count() > 0 && data.shape != model.input) {
    throw std::runtime_error("the " + which + " images have another size than swarm.model.input; change either");
  }
  STARLING_CHECK(data.pixels.size() == data.count() * data.sample_elements());
  std::vector<const std::vector<uint8_t>*> predicted = {&data.labels};
  if (model.kind == "lstm") predicted.push_back(&data.pixels);
  for (const std::vector<uint8_t>* bytes : predicted) {
    const auto label = std::find_if(bytes->begin(), bytes->end(), [&](uint8_t byte) { return byte >= model.classes; });
    if (label == bytes->end()) continue;
    throw std::runtime_error("the " + which + " data hold label " + std::to_string(*label) + ", but the model has " +
                             std::to_string(model.classes) +
                             " classes; use other data, or begin a swarm with more swarm.model.classes");
  }
}

class TorchTrainer final : public Trainer {
 public:
  TorchTrainer(const TrainerOptions& options, Dataset train, Dataset test, std::function<void()> on_idle,
               const MakeCopyLane& make_lane);
  ~TorchTrainer() override { leaving_ = true; }  // the thread's destructor then waits for one step at most

  std::vector<TrainerSection> sections() override;
  void params_changed() override;
  void draw_genesis() override;
  void start_steps(const LocalSteps& steps) override;
  std::string early_send_blocked_reason() const override;
  void start_evaluation() override;
  TimePoint idle_at() const override { return thread_.idle() ? TimePoint::min() : TimePoint::max(); }
  StepReport take_steps() override;
  std::optional<Evaluation> take_evaluation() override;
  std::vector<std::byte> save_state() override;
  bool load_state(std::span<const std::byte> state) override;
  TrainerData data() const override {
    return {train_.count(), summarize(train_), train_.classes, count_labels(train_), adaptive_};
  }

 private:
  View view_of(const at::Tensor& flat) const;
  DeviceData upload(Dataset& data) const;
  void run_job(const std::function<void()>& job);
  void run_steps(const LocalSteps& steps);
  bool ends_early(const LocalSteps& steps, uint64_t taken) const;
  void pretend_until(TimePoint end, const LocalSteps& steps) const;
  at::Tensor compute_gradient(const ConstView& correction, Tally& tally);
  void step_on_cpu(const LocalSteps& steps, Tally& tally);
  Tally steps_on_device(const LocalSteps& steps);
  void land_parts(const MakeCopyLane& make_lane);

  const SteadyClock clock_;
  const ModelConfig model_;
  const Duration step_time_;  // that a step takes at least
  Dataset train_, test_;      // on the CPU the tensors of the device data view these bytes
  const ModelPlan plan_;
  const bool adaptive_;
  const uint64_t swarm_rng_seed_;
  bool params_set_ = false;
  TorchDevice device_;
  const bool on_device_;              // verdicts stay on it, and what is told of lands; in tests that may be the CPU
  std::optional<ThreadTuner> tuner_;  // of CPU threads that nobody has fixed
  at::Tensor params_, grads_;         // flat
  std::vector<at::Tensor> tensors_;   // views into params_
  std::unique_ptr<FlatGradients> gradients_;  // theirs, views into grads_
  std::unique_ptr<TorchOptimizer> optimizer_;
  DeviceData train_data_, test_data_;
  DatasetOrder order_;
  std::vector<int64_t> batch_;  // indices of the samples of one step
  std::unique_ptr<TorchParts> parts_;
  StepReport report_;
  std::optional<Evaluation> evaluation_;
  std::atomic<bool> leaving_ = false;
  TrainerThread thread_;  // last: ends before what it works on
};

Dataset require_data(Dataset train, const ModelConfig& model) {
  if (train.count() == 0) {
    throw std::runtime_error(
        "there are no training samples; set agent.data.path to a folder or file with data, or to `generated`");
  }
  check_fits(train, model, "training");
  return train;
}

TorchTrainer::TorchTrainer(const TrainerOptions& options, Dataset train, Dataset test, std::function<void()> on_idle,
                           const MakeCopyLane& make_lane)
    : model_(options.model),
      step_time_(from_seconds(1e-3 * options.compute_ms)),
      train_(require_data(std::move(train), options.model)),
      test_(std::move(test)),
      plan_(plan_model(options.model)),
      adaptive_(options.optimizer.kind == "adamw"),
      swarm_rng_seed_(options.swarm_rng_seed),
      device_(options.device, options.threads),
      on_device_(device_.is_cuda() || make_lane),
      order_(train_.count(), options.swarm_rng_seed, options.shard),
      batch_(options.batch),
      thread_(std::move(on_idle)) {
  check_fits(test_, model_, "test");
  if (batch_.empty()) throw std::runtime_error("a batch of 0 samples; set agent.batch or swarm.batch to at least 1");
  device_.enter();
  if (options.threads == 0 && !device_.is_cuda()) tuner_.emplace(static_cast<uint32_t>(at::get_num_threads()));
  const auto place = at::TensorOptions(at::kFloat).device(device_.is_cuda() ? at::kCUDA : at::kCPU);
  params_ = at::empty({static_cast<int64_t>(plan_.param_count)}, place);
  grads_ = at::zeros_like(params_);
  tensors_ = slot_views(plan_, params_);
  for (const at::Tensor& tensor : tensors_) tensor.requires_grad_(true);
  gradients_ = std::make_unique<FlatGradients>(tensors_, slot_views(plan_, grads_));
  optimizer_ = make_torch_optimizer(options.optimizer, params_, grads_);
  parts_ = std::make_unique<TorchParts>(plan_, tensors_, params_, grads_, *gradients_, *optimizer_, clock_,
                                        [this] { thread_.wake_owner(); });
  if (on_device_) land_parts(make_lane);
  train_data_ = upload(train_);
  test_data_ = upload(test_);
  device_.synchronize();
  if (!options.draw_later) draw_genesis();
}

void TorchTrainer::params_changed() {
  STARLING_CHECK(idle());  // the tensors are views: there is nothing to copy
  params_set_ = true;
}

void TorchTrainer::draw_genesis() {
  STARLING_CHECK(idle());
  if (std::exchange(params_set_, true)) return;
  const auto draw = [this](float* params) {
    starling::draw_genesis(plan_, swarm_rng_seed_, {params, plan_.param_count});
  };
  if (!device_.is_cuda()) return draw(params_.mutable_data_ptr<float>());
  const at::Tensor drawn = at::empty(params_.sizes(), at::kFloat);
  draw(drawn.mutable_data_ptr<float>());
  run_job([&] { params_.copy_(drawn); });
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
  } catch (...) {
    rethrow_torch_failure();
  }
}

void TorchTrainer::start_steps(const LocalSteps& steps) {
  STARLING_CHECK(!steps.on_final || (steps.count == 1 && steps.correction.count == 0));
  STARLING_CHECK(steps.correction.count == 0 || steps.correction.count == plan_.param_count);
  thread_.start([steps, this] { run_job([&] { run_steps(steps); }); });
}

void TorchTrainer::start_evaluation() {
  thread_.start([this] {
    run_job([this] {
      evaluation_ = evaluate_batches(model_, tensors_, test_data_.images, test_data_.labels, leaving_, nullptr);
    });
  });
}

std::string TorchTrainer::early_send_blocked_reason() const { return parts_->early_send_blocked_reason(); }

// A GPU that gives no stream or no pinned memory for this computes all the same.
void TorchTrainer::land_parts(const MakeCopyLane& make_lane) {
  if (parts_->count() == 0) return;
  try {
    auto lane = make_lane ? make_lane(parts_->count()) : make_copy_lane(device_.native_stream(), parts_->count());
    if (!lane) return parts_->tell_none("this program was built without CUDA");
    parts_->land_by(std::move(lane), [this] { return device_.entered(); });
  } catch (const c10::Error& error) {
    parts_->tell_none(std::string("LibTorch does not name its stream: ") + error.what_without_backtrace());
  } catch (const DeviceFailure& failure) {
    parts_->tell_none(failure.what());
  }
}

bool TorchTrainer::ends_early(const LocalSteps& steps, uint64_t taken) const {
  return leaving_ || (taken > 0 && steps.stop && steps.stop());
}

void TorchTrainer::run_steps(const LocalSteps& steps) {
  const TimePoint start = clock_.now();
  Tally tally;
  if (on_device_) {
    try {
      tally = steps_on_device(steps);
    } catch (...) {
      parts_->give_up();
      throw;
    }
  } else {
    while (tally.steps < steps.count && tally.finite && !ends_early(steps, tally.steps)) step_on_cpu(steps, tally);
  }
  if (tuner_) {
    tuner_->took(tally.steps, clock_.now() - start, clock_.now());
    device_.use_threads(tuner_->threads());
  }
  pretend_until(start + static_cast<int64_t>(tally.steps) * step_time_, steps);
  report_ = {.steps = tally.steps,
             .samples = tally.steps * batch_.size(),
             .mean_loss = tally.steps > 0 ? tally.loss_sum / static_cast<double>(tally.steps) : 0,
             .finite = tally.finite,
             .compute_time = clock_.now() - start,
             .forward_time = tally.forward,
             .backward_time = tally.backward,
             .threads = tuner_ ? tuner_->chosen() : 0};
}

// A slower machine than this one: many agents on a few processors then wait side by side instead of for each other.
// In short naps, as whoever ends the trainer waits for this thread.
void TorchTrainer::pretend_until(TimePoint end, const LocalSteps& steps) const {
  constexpr Duration kNap = std::chrono::milliseconds(20);
  for (Duration left = end - clock_.now(); left > Duration::zero(); left = end - clock_.now()) {
    if (ends_early(steps, steps.count)) return;
    std::this_thread::sleep_for(std::min(left, kNap));
  }
}

// Leaves the gradient of one batch in grads_, corrected. Returns the loss.
at::Tensor TorchTrainer::compute_gradient(const ConstView& correction, Tally& tally) {
  order_.next(batch_);
  at::Tensor rows = at::from_blob(batch_.data(), {static_cast<int64_t>(batch_.size())}, at::kLong);
  if (device_.is_cuda()) rows = rows.to(at::kCUDA);
  const at::Tensor images = train_data_.images.index_select(0, rows);
  const at::Tensor wanted = targets(model_, images, train_data_.labels.index_select(0, rows));
  const TimePoint began = clock_.now();
  const at::Tensor loss = at::cross_entropy_loss(forward(model_, tensors_, images), wanted);
  const TimePoint half = clock_.now();
  gradients_->backward(loss);
  if (!device_.is_cuda()) {
    tally.forward += half - began;
    tally.backward += clock_.now() - half;
  }
  if (correction.count > 0) {
    grads_.add_(at::from_blob(const_cast<float*>(correction.data), grads_.sizes(), grads_.options()));
  }
  return loss.detach();
}

const std::byte* bytes_of(const at::Tensor& flat) { return static_cast<const std::byte*>(flat.const_data_ptr()); }

void TorchTrainer::step_on_cpu(const LocalSteps& steps, Tally& tally) {
  const bool in_parts = parts_->begin(steps);
  const double loss = compute_gradient(steps.correction, tally).item<float>();
  if (in_parts) {
    tally.finite = parts_->end(loss);
  } else {
    tally.finite = std::isfinite(loss) && all_finite_f32(bytes_of(grads_), plan_.param_count);
    if (tally.finite) optimizer_->step(steps.learning_rate, nullptr);
  }
  if (!tally.finite) return;
  tally.loss_sum += loss;
  ++tally.steps;
}

// Never waits for the device between two steps: the verdict "not finite" stays there and disables all later steps.
Tally TorchTrainer::steps_on_device(const LocalSteps& steps) {
  Tally tally;
  const at::Tensor bad = at::zeros({1}, params_.options()), applied = at::zeros_like(bad),
                   loss_sum = at::zeros_like(bad);
  const bool in_parts = parts_->begin(steps);
  for (uint32_t i = 0; i < steps.count && !ends_early(steps, i); ++i) {
    const at::Tensor loss = compute_gradient(steps.correction, tally);
    if (in_parts) {
      bad.copy_(parts_->end(loss));
    } else {
      bad.copy_(at::max(bad, at::max(not_finite(loss), not_finite(grads_))));
      optimizer_->step(steps.learning_rate, &bad);
    }
    applied.add_(1 - bad);
    loss_sum.add_(at::where(bad > 0, at::zeros_like(bad), loss));
  }
  if (in_parts) parts_->land_rest();
  const at::Tensor results = at::cat({bad, applied, loss_sum}).cpu();
  const float* values = results.const_data_ptr<float>();
  tally.steps = static_cast<uint64_t>(values[1]);
  tally.loss_sum = values[2];
  tally.finite = values[0] == 0;
  return tally;
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
  const DatasetOrder::Place place = order_.place();
  const StateHead head{kStateMagic, plan_.param_count, train_.count(), place.epoch, place.position};
  std::vector<std::byte> state(sizeof head);
  std::memcpy(state.data(), &head, sizeof head);
  run_job([&] { optimizer_->append_state(state); });
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
                                            std::function<void()> on_idle, const MakeCopyLane& make_lane) {
  try {
    return std::make_unique<TorchTrainer>(options, std::move(train), std::move(test), std::move(on_idle), make_lane);
  } catch (...) {
    rethrow_torch_failure();
  }
}

}  // namespace starling
