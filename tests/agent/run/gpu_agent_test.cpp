// Two agents of one swarm, the params of one on the emulated GPU, the other's on the CPU; and what becomes of them when
// the GPU is lost or full. All is the agent's own but the trainer, which stands where LibTorch's does.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "agent/process/device_fallback.h"
#include "agent/run/agent.h"
#include "agent/state/file_keeper.h"
#include "agent/train/part_copies.h"
#include "agent/train/quadratic_trainer.h"
#include "emulation.h"
#include "gossip/sim/virtual_network.h"
#include "gossip/updates/update_replicas.h"
#include "gossip/worker.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/vector_ops.h"
#include "kernels/device_failure.h"
#include "kernels/transfer.h"
#include "tests/agent/state/planned_file_ops.h"
#include "tests/support/log_text.h"

namespace starling {
namespace {

constexpr uint64_t kDimension = 600;  // a few blocks

ExchangeConfig by_pairs(CodecKind codec, Overlap overlap = Overlap::kAuto) {
  return {.codec = codec, .block = 256, .overlap = overlap};
}

ExchangeConfig in_a_group(SourceKind source, UpdateOptions update = {}) {
  ExchangeConfig exchange{
      .source = source, .kind = ExchangeKind::kGroup, .codec = CodecKind::kFp32, .block = 256, .update = update};
  if (source == SourceKind::kGradients) exchange.overlap = Overlap::kOff;  // all else is refused
  return exchange;
}

// Whose copies work so many times, counting each call; -1: always.
class BreakableLane final : public CopyLane {
 public:
  BreakableLane(std::unique_ptr<CopyLane> whole, int calls) : whole_(std::move(whole)), calls_(calls) {}
  void begin(size_t ticket, std::span<const CopyPiece> pieces) override { count(), whole_->begin(ticket, pieces); }
  bool landed(size_t ticket) override { return count(), whole_->landed(ticket); }
  void wait(size_t ticket) override { count(), whole_->wait(ticket); }

 private:
  void count() {
    if (calls_ == 0) throw std::runtime_error("the lane is broken");
    if (calls_ > 0) --calls_;
  }
  std::unique_ptr<CopyLane> whole_;
  int calls_;
};

#define EXPECT_SAYS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

// A quadratic like QuadraticTrainer's, with params and steps on the GPU: x += rate * (target - x). What a checkpoint
// keeps of the one can be read by the other. A step that tells of its parts computes one with each call of go_on().
class GpuTrainer final : public Trainer {
 public:
  GpuTrainer(const TrainerOptions& options, float target, Clock& clock)
      : dimension_(options.model.dimension), on_cpu_(make_quadratic_trainer(options, 1, clock)) {
    write(params_, quadratic_genesis({.dimension = dimension_}, options.swarm_rng_seed));
    write(target_, std::vector<float>(dimension_, target));
    cuda::zero_async(bad_.reserve(sizeof(float)), sizeof(float), stream_.handle());
    stream_.wait();
  }
  void tell_of_parts(Clock& clock, int calls_until_lane_breaks) {
    auto lane = std::make_unique<BreakableLane>(make_copy_lane(stream_.handle(), kParts), calls_until_lane_breaks);
    copies_.emplace(std::move(lane), kParts, MemorySpace::kCuda, clock, [] {});
  }

  std::vector<TrainerSection> sections() override { return {{"params", SectionKind::kMixed, view(params_)}}; }
  void params_changed() override {}
  void start_steps(const LocalSteps& steps) override {
    report_ = {.steps = steps.count, .samples = steps.count};
    failure_ = nullptr;
    if (loses_gpu_) emulation::machine.work_until_loss = 0;
    if (copies_ && steps.on_final && copies_->stopped_because().empty()) {
      telling_ = steps;
      parts_left_ = kParts;
      copies_->begin_step(*telling_);
      return;
    }
    keep_failure([&] {
      for (uint32_t i = 0; i < steps.count; ++i) step(0, dimension_, steps.learning_rate);
      stream_.wait();
    });
  }
  void go_on() {
    if (!telling_) return;
    keep_failure([this] {
      if (parts_left_ > 0) return step_part(--parts_left_);
      copies_->end_step();
      stream_.wait();
      std::vector<float> left(dimension_);
      copy_to_host(view(params_), left.data());
      const bool all_told = copies_->stopped_because().empty();
      if (all_told) {
        EXPECT_EQ(std::memcmp(left.data(), telling_->landing.data(), dimension_ * sizeof(float)), 0) << "to the bit";
      }
      telling_.reset();
    });
    if (failure_) telling_.reset();
  }
  std::string early_send_blocked_reason() const override {
    return copies_ ? copies_->stopped_because() : "the GPU of this test does not say";
  }
  void start_evaluation() override {}
  TimePoint idle_at() const override { return telling_ ? TimePoint::max() : TimePoint::min(); }
  StepReport take_steps() override {
    if (failure_) std::rethrow_exception(failure_);
    return report_;
  }
  std::optional<Evaluation> take_evaluation() override { return Evaluation{}; }
  std::vector<std::byte> save_state() override { return on_cpu_->save_state(); }
  bool load_state(std::span<const std::byte> state) override { return on_cpu_->load_state(state); }
  TrainerData data() const override { return {1, "a quadratic on the GPU"}; }

  void lose_gpu_in_the_next_step() { loses_gpu_ = true; }

 private:
  static constexpr size_t kParts = 5;

  View view(cuda::Buffer& buffer) {
    return {reinterpret_cast<float*>(buffer.reserve(dimension_ * sizeof(float))), dimension_, MemorySpace::kCuda};
  }
  void step(size_t offset, size_t count, double learning_rate) {
    const auto rate = static_cast<float>(learning_rate);
    float* const x = view(params_).data + offset;
    axpy_cuda(-rate, x, x, count, stream_.handle());
    axpy_cuda(rate, view(target_).data + offset, x, count, stream_.handle());
  }
  void step_part(size_t index) {
    const size_t offset = dimension_ * index / kParts, count = dimension_ * (index + 1) / kParts - offset;
    step(offset, count, telling_->learning_rate);
    const ConstView bad{reinterpret_cast<float*>(bad_.reserve(sizeof(float))), 1, MemorySpace::kCuda};
    copies_->copy(index, offset, view(params_).part(offset, count), bad);
    copies_->tell_landed();
  }
  // LibTorch's trainer fails on its thread, and says so in take_steps() too.
  void keep_failure(const std::function<void()>& work) {
    try {
      work();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  void write(cuda::Buffer& to, const std::vector<float>& values) { copy_from_host(values.data(), view(to)); }

  const size_t dimension_;
  std::unique_ptr<Trainer> on_cpu_;  // never steps
  cuda::Stream stream_;
  cuda::Buffer params_{cuda::BufferKind::kDevice}, target_{cuda::BufferKind::kDevice}, bad_{cuda::BufferKind::kDevice};
  std::optional<PartCopies> copies_;
  std::optional<LocalSteps> telling_;  // the step under way
  size_t parts_left_ = 0;
  StepReport report_;
  std::exception_ptr failure_;
  bool loses_gpu_ = false;
};

struct KeptEvents final : Observer {
  void on(const Event& event) override {
    if (const auto* changed = std::get_if<MemberChanged>(&event)) changes.push_back(changed->change);
    if (const auto* entered = std::get_if<Joined>(&event)) joined = *entered;
    if (const auto* saved = std::get_if<CheckpointSaved>(&event)) saved_steps = saved->steps;
  }
  std::vector<std::string> changes;
  std::optional<Joined> joined;
  uint64_t saved_steps = 0;
};

// One life of an agent. Its folder outlives it.
struct Host {
  Host(VirtualClock& on_clock, VirtualNetwork& network, uint8_t number, uint64_t generation, MemorySpace space,
       const Folder& folder, const ExchangeConfig& exchange = by_pairs(CodecKind::kModulo8),
       uint64_t dimension = kDimension, std::optional<int> calls_until_lane_breaks = {})
      : transport(network.open({"10.0.0." + std::to_string(number), 7400})), clock(on_clock) {
    AgentOptions options;
    options.self.bytes.fill(number);
    options.generation = generation;
    options.advertise = transport->local();
    options.rng_seed = number + 10 * generation;
    options.config.has_swarm = true;
    SwarmConfig& swarm = options.config.swarm;
    swarm.model.kind = "quadratic";
    swarm.model.dimension = dimension;
    swarm.optimizer.momentum = 0;
    swarm.optimizer.learning_rate = 0.01;
    swarm.exchange = exchange;
    if (calls_until_lane_breaks) options.config.agent.compute_ms = 60;  // as one that tells, at the pace of run()
    options.config.agent.evaluate_every = Duration::zero();
    options.config.agent.checkpoint_every = std::chrono::seconds(1);
    options.config.agent.bootstrap = {{"10.0.0.1", 7400}};
    if (number == 1) options.config.agent.bootstrap = {};
    agent.emplace(options, AgentParts{*transport, clock, worker, worker, events,
                                      [this, space, options,
                                       calls_until_lane_breaks](const SwarmConfig& agreed) -> std::unique_ptr<Trainer> {
                                        const TrainerOptions trainer = trainer_options(agreed, options.config.agent);
                                        if (space == MemorySpace::kHost)
                                          return make_quadratic_trainer(trainer, 1, clock);
                                        auto on_gpu = std::make_unique<GpuTrainer>(trainer, 1.0f, clock);
                                        if (calls_until_lane_breaks)
                                          on_gpu->tell_of_parts(clock, *calls_until_lane_breaks);
                                        return on_gpu;
                                      },
                                      [&folder, generation](uint64_t swarm_id, const std::string&) {
                                        return std::make_unique<FileKeeper>(folder.path(), swarm_id, generation, 3);
                                      }});
  }
  uint64_t steps() const { return agent->rounds() == nullptr ? 0 : agent->rounds()->progress().steps; }
  void tick() {
    auto* const on_gpu = dynamic_cast<GpuTrainer*>(agent->trainer());
    if (on_gpu != nullptr) on_gpu->go_on();
    agent->tick();
  }
  std::vector<float> params() {
    const View view = agent->trainer()->params();
    std::vector<float> values(view.count);
    copy_to_host(view, values.data());
    return values;
  }

  KeptEvents events;
  InlineWorker worker;
  std::unique_ptr<Transport> transport;
  VirtualClock& clock;
  std::optional<Agent> agent;  // last: uses all else
};

class GpuAgent : public testing::Test {
 protected:
  GpuAgent() { emulation::reset(); }
  ~GpuAgent() override { emulation::reset(); }

  // On the CPU, with the address that the other one asks.
  Host& cpu() {
    if (!cpu_)
      cpu_.emplace(clock_, network_, 1, 1, MemorySpace::kHost, *cpu_folder_, exchange_, dimension_,
                   calls_until_lane_breaks_);
    return *cpu_;
  }
  std::unique_ptr<Host> make_gpu(uint64_t generation) {
    return std::make_unique<Host>(clock_, network_, 2, generation, MemorySpace::kCuda, *gpu_folder_, exchange_,
                                  dimension_, calls_until_lane_breaks_);
  }
  // Both for so many hundredths of a second. What the one with the GPU throws is kept in failure_, and it is abandoned.
  void run(Host* gpu, int ticks) {
    for (int i = 0; i < ticks; ++i) {
      clock_.advance(std::chrono::milliseconds(10));
      network_.deliver_due();
      cpu().agent->tick();
      if (gpu == nullptr || gpu->agent->finished()) continue;
      try {
        gpu->tick();
      } catch (const DeviceFailure& failure) {
        ASSERT_EQ(failure_, "") << "an abandoned agent touches the GPU no more";
        failure_ = failure.what();
        gpu->agent->abandon();
      }
    }
  }
  // The GPU's steps are sent while other parts of them are still computed.
  void tell_of_parts() {
    exchange_ = in_a_group(SourceKind::kGradients, {.kind = UpdateKind::kTopk, .density = 0.1});
    exchange_.update_pipeline = true;
    dimension_ = 6 * kSliceElementsMin;  // three slices, which are no parts
    calls_until_lane_breaks_ = -1;
  }
  // In a step of one that shares such updates, as a share of the model; the least of some, as checkpoints take more.
  double models_over_bus(const UpdateOptions& update) {
    exchange_ = in_a_group(SourceKind::kUpdates, update);
    dimension_ = 8 * kSliceElementsMin;
    const std::unique_ptr<Host> gpu = make_gpu(1);
    uint64_t least = UINT64_MAX;
    while (gpu->steps() < 12 && failure_.empty()) {
      const uint64_t before = emulation::bytes_over_bus(), steps = gpu->steps();
      while (gpu->steps() == steps && failure_.empty()) run(gpu.get(), 1);
      if (steps >= 5) least = std::min(least, (emulation::bytes_over_bus() - before) / (gpu->steps() - steps));
    }
    EXPECT_EQ(failure_, "");
    return static_cast<double>(least) / static_cast<double>(dimension_ * sizeof(float));
  }
  // Of one whose GPU is lost after so many pieces of work.
  void expect_leave(int work) {
    std::unique_ptr<Host> gpu = make_gpu(1);
    run(gpu.get(), 300);
    ASSERT_GT(gpu->events.saved_steps, 0u);
    emulation::machine.work_until_loss = work;
    run(gpu.get(), 100);
    EXPECT_SAYS(failure_, "the GPU has fallen off the bus");
    EXPECT_SAYS(failure_, "look at nvidia-smi and the driver's log, or run on the CPU");
    expect_nothing_lost(std::move(gpu));
  }
  // Another swarm follows.
  void forget_all() {
    cpu_.reset();
    cpu_folder_.emplace();
    gpu_folder_.emplace();
    failure_.clear();
    emulation::reset();
  }
  static double distance(Host& a, Host& b) {
    const std::vector<float> x = a.params(), y = b.params();
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
    return std::sqrt(sum / static_cast<double>(x.size()));
  }
  // After the GPU failed: a leave to the other one, which trains on; and the next life goes on from the checkpoint.
  void expect_nothing_lost(std::unique_ptr<Host> failed) {
    EXPECT_TRUE(failed->agent->finished());
    ASSERT_FALSE(cpu().events.changes.empty());
    EXPECT_EQ(cpu().events.changes.back(), "left");
    const uint64_t saved = failed->events.saved_steps;
    failed.reset();
    EXPECT_EQ(emulation::memory_in_use(), 0u);
    const uint64_t before = cpu().steps();
    run(nullptr, 100);
    EXPECT_GT(cpu().steps(), before);
    emulation::reset();
    failure_.clear();
    const std::unique_ptr<Host> next = make_gpu(2);
    run(next.get(), 300);
    EXPECT_EQ(failure_, "");
    ASSERT_TRUE(next->events.joined.has_value());
    EXPECT_GE(next->events.joined->steps, saved);
    EXPECT_GT(next->steps(), next->events.joined->steps);
    EXPECT_EQ(cpu().events.changes.back(), "restarted");
  }

  ExchangeConfig exchange_ = by_pairs(CodecKind::kModulo8);
  uint64_t dimension_ = kDimension;
  std::optional<int> calls_until_lane_breaks_;  // none: the GPU's trainer tells of no parts
  VirtualClock clock_;
  VirtualNetwork network_{clock_, 1, LinkOptions{}};
  std::optional<Folder> cpu_folder_{std::in_place}, gpu_folder_{std::in_place};
  std::optional<Host> cpu_;
  std::string failure_;
};

// Every way of sharing, as a few exchanges of the settings; by name.
struct Way {
  std::string name;
  ExchangeConfig exchange;
};

std::vector<Way> ways() {
  ExchangeConfig diloco = in_a_group(SourceKind::kUpdates);
  diloco.outer_momentum = 0.5;
  diloco.outer_rate = 0.7;
  return {{"pairs_fp32", by_pairs(CodecKind::kFp32)},
          {"pairs_bf16", by_pairs(CodecKind::kBf16)},
          {"pairs_fp16", by_pairs(CodecKind::kFp16)},
          {"pairs_modulo8", by_pairs(CodecKind::kModulo8)},
          {"pairs_modulo4", by_pairs(CodecKind::kModulo4)},
          {"pairs_beside_steps", by_pairs(CodecKind::kModulo8, Overlap::kOn)},
          {"group", in_a_group(SourceKind::kParams)},
          {"neighborhood", {.kind = ExchangeKind::kNeighborhood, .codec = CodecKind::kFp32, .block = 256}},
          {"gradients", in_a_group(SourceKind::kGradients, {.kind = UpdateKind::kTopk})},
          {"updates", in_a_group(SourceKind::kUpdates)},
          {"updates_bf16", in_a_group(SourceKind::kUpdates, {.kind = UpdateKind::kBf16})},
          {"updates_int8", in_a_group(SourceKind::kUpdates, {.kind = UpdateKind::kInt8})},
          {"updates_topk", in_a_group(SourceKind::kUpdates, {.kind = UpdateKind::kTopkInt8, .density = 0.1})},
          {"updates_sign_ef", in_a_group(SourceKind::kUpdates, {.kind = UpdateKind::kSignEf})},
          {"outer_momentum", diloco}};
}

class GpuAgentShares : public GpuAgent, public testing::WithParamInterface<Way> {};

TEST_P(GpuAgentShares, WithOneOnTheCpu) {
  exchange_ = GetParam().exchange;
  std::unique_ptr<Host> gpu = make_gpu(1);
  run(gpu.get(), 1000);
  EXPECT_EQ(failure_, "");
  EXPECT_GT(gpu->steps(), 100u);
  ASSERT_NE(gpu->agent->exchange(), nullptr);
  const uint64_t entries = gpu->agent->room_status().updates.counters.entries;
  EXPECT_GT(gpu->agent->exchange()->status().block_tally.counted + entries, 20u);
  EXPECT_GT(gpu->events.saved_steps, 0u);
  // Their targets lie some 1.4 apart, and the one on the CPU is 0 in the mean.
  EXPECT_LT(distance(*gpu, cpu()), 0.3);
  const std::vector<float> agreed = cpu().params();
  EXPECT_GT(std::accumulate(agreed.begin(), agreed.end(), 0.0) / kDimension, 0.25) << "what the GPU learned counts too";
}

INSTANTIATE_TEST_SUITE_P(Ways, GpuAgentShares, testing::ValuesIn(ways()),
                         [](const auto& info) { return info.param.name; });

// Beside payloads there is the slice that a boundary audits.
TEST_F(GpuAgent, PayloadsOfUpdatesAloneCrossTheBus) {
  const LogText log;
  EXPECT_LT(models_over_bus({.kind = UpdateKind::kTopkInt8, .density = 0.01}), 0.5);
  EXPECT_EQ(log.text().find("host memory"), std::string::npos) << log.text();
}

TEST_F(GpuAgent, UpdatesWithoutLoopsForAGpuTakeTheModelToTheHostAndBack) {
  const LogText log;
  EXPECT_GE(models_over_bus({.kind = UpdateKind::kTernary}), 2);
  EXPECT_SAYS(log.text(), "copies the model there and back: the codec ternary runs on the CPU alone");
}

TEST_F(GpuAgent, WhereAGpuHasLittleRoomUpdatesStayInHostMemory) {
  const LogText log;
  emulation::machine.memory_bytes = 5 * 8 * kSliceElementsMin * sizeof(float);
  EXPECT_GE(models_over_bus({.kind = UpdateKind::kTopkInt8, .density = 0.01}), 2);
  EXPECT_SAYS(log.text(), "GB that this GPU has free");
}

TEST_F(GpuAgent, ACheckpointForWhichTheHostHasNoRoomFailsAndSaysSo) {
  const Folder folder;
  TrainerOptions options;
  options.model.dimension = kDimension;
  GpuTrainer trainer(options, 1.0f, clock_);
  uint64_t left = kDimension * sizeof(float);  // a copy wants a fourth more
  FileKeeper keeper(folder.path(), 1, 1, 3, [] {}, make_file_ops(), [&] { return left; });
  EXPECT_SAYS(keeper.save({.steps = 5}, trainer, {}, true).error, "of host memory, and");
  left = 4 * kDimension * sizeof(float);
  EXPECT_EQ(keeper.save({.steps = 5}, trainer, {}, true).error, "");
}

// A process that shares updates with outer momentum, without the agent around it.
struct UpdateProcess {
  UpdateProcess(MemorySpace space, Clock& clock) {
    TrainerOptions options;
    options.model.dimension = kDimension;
    if (space == MemorySpace::kHost)
      trainer = make_quadratic_trainer(options, 1, clock);
    else
      trainer = std::make_unique<GpuTrainer>(options, 1.0f, clock);
    ExchangeConfig exchange = in_a_group(SourceKind::kUpdates);
    exchange.outer_momentum = 0.9;
    model.emplace(*trainer, exchange);
  }
  View place(std::span<float> values) const { return {values.data(), values.size(), trainer->params().space}; }
  std::vector<float> read(std::span<float> values) const {
    std::vector<float> found(values.size());
    copy_to_host(place(values), found.data());
    return found;
  }
  std::unique_ptr<Trainer> trainer;
  std::optional<UpdateModel> model;
};

TEST_F(GpuAgent, WhatUpdatesSaveIsTakenInEitherSpace) {
  constexpr MemorySpace kSpaces[] = {MemorySpace::kHost, MemorySpace::kCuda};
  std::vector<float> params(kDimension), momentum(kDimension);
  std::iota(params.begin(), params.end(), -3.5f);
  std::iota(momentum.begin(), momentum.end(), 0.25f);
  std::vector<std::byte> saved[2];
  for (const MemorySpace from : kSpaces) {
    UpdateProcess one(from, clock_);
    const SliceMemory memory = one.model->memory();
    copy_from_host(params.data(), one.place(memory.params));
    copy_from_host(momentum.data(), one.place(memory.momentum));
    const UpdateReplicas replicas({}, 1, one.model->slices(), memory, one.model->outer(), one.model->codecs());
    one.model->follow(replicas);
    one.model->replica_to_trainer();
    EXPECT_EQ(one.read(one.model->x()), params);
    saved[from == MemorySpace::kCuda] = one.model->save();
    for (const MemorySpace to : kSpaces) {
      UpdateProcess next(to, clock_);
      copy_from_host(params.data(), next.trainer->params());  // what the checkpoint itself does
      ASSERT_TRUE(next.model->load(one.model->save()));
      EXPECT_EQ(next.read(next.model->memory().params), params);
      EXPECT_EQ(next.read(next.model->memory().momentum), momentum);
      EXPECT_EQ(next.read(next.model->memory().accumulator), std::vector<float>(kDimension));
      copy_from_host(momentum.data(), next.trainer->params());
      next.model->params_fetched();
      EXPECT_EQ(next.read(next.model->memory().params), momentum);
    }
  }
  EXPECT_EQ(saved[0], saved[1]);
}

TEST_F(GpuAgent, MeanGradientsAreRefusedWithARemedy) {
  exchange_ = in_a_group(SourceKind::kGradients);
  exchange_.repair = false;
  const std::unique_ptr<Host> gpu = make_gpu(1);
  try {
    run(gpu.get(), 100);
    ADD_FAILURE() << "nothing was said";
  } catch (const std::runtime_error& error) {
    EXPECT_SAYS(error.what(), "start with --device cpu");
  }
}

TEST_F(GpuAgent, SaysOnceThatNothingIsSentDuringBackward) {
  for (const bool pipeline : {false, true}) {
    exchange_ = in_a_group(SourceKind::kGradients, {.kind = UpdateKind::kTopk});
    exchange_.update_pipeline = pipeline;
    cpu_.reset();
    const LogText log;
    run(make_gpu(1).get(), 300);
    const std::string said = log.text(), why = "the GPU of this test does not say";
    const size_t at = said.find(why);
    EXPECT_EQ(at != std::string::npos, pipeline) << said;
    if (!pipeline) continue;
    EXPECT_EQ(said.find(why, at + 1), std::string::npos) << said;
  }
}

class GpuAgentTells : public GpuAgent {
 protected:
  GpuAgentTells() { tell_of_parts(); }
  // Between two steps of the CPU's, or its params may not be looked at.
  void expect_close(Host& gpu) {
    while (!cpu().agent->trainer()->idle()) run(&gpu, 1);
    EXPECT_LT(distance(gpu, cpu()), 0.3) << "their targets lie some 1.4 apart, and the one on the CPU is 0 in the mean";
    const std::vector<float> agreed = cpu().params();
    EXPECT_GT(std::accumulate(agreed.begin(), agreed.end(), 0.0) / static_cast<double>(dimension_), 0.1);
  }
  static uint64_t sent_early(const Host& host) { return host.agent->room_status().updates.counters.early; }
};

TEST_F(GpuAgentTells, SendsWhatHasLandedBeforeTheStepHasEnded) {
  std::unique_ptr<Host> gpu = make_gpu(1);
  run(gpu.get(), 600);
  EXPECT_EQ(failure_, "");
  const uint64_t steps = gpu->steps();
  EXPECT_GT(steps, 30u);
  EXPECT_GT(sent_early(*gpu), steps) << "of three slices, the last that is final is not always early";
  expect_close(*gpu);
}

// The GPU itself is well: its agent trains on, says once why, and sends at boundaries.
TEST_F(GpuAgentTells, WithoutItsCopiesItTrainsOnAndSaysWhy) {
  calls_until_lane_breaks_ = 200;
  const LogText log;
  std::unique_ptr<Host> gpu = make_gpu(1);
  run(gpu.get(), 300);
  const uint64_t early = sent_early(*gpu), steps = gpu->steps();
  EXPECT_GT(early, 0u);
  run(gpu.get(), 150);
  EXPECT_EQ(failure_, "");
  EXPECT_EQ(sent_early(*gpu), early);
  EXPECT_GT(gpu->steps(), steps + 10);
  expect_close(*gpu);
  const std::string said = log.text();
  const size_t at = said.find("before a step has ended: the lane is broken");
  EXPECT_NE(at, std::string::npos) << said;
  EXPECT_EQ(said.find("the lane is broken", at + 30), std::string::npos) << said;
}

TEST_F(GpuAgent, LostInAStepItEndsItsAgentWithALeave) {
  std::unique_ptr<Host> gpu = make_gpu(1);
  run(gpu.get(), 300);
  ASSERT_GT(gpu->events.saved_steps, 0u);
  static_cast<GpuTrainer*>(gpu->agent->trainer())->lose_gpu_in_the_next_step();
  run(gpu.get(), 100);
  EXPECT_SAYS(failure_, "the GPU has fallen off the bus");
  expect_nothing_lost(std::move(gpu));
}

// After so many pieces of work, in an encode or an apply.
class LostGpu : public GpuAgent, public testing::WithParamInterface<int> {};

TEST_P(LostGpu, EndsItsAgentWithALeave) {
  for (const ExchangeConfig& exchange : {by_pairs(CodecKind::kModulo8), in_a_group(SourceKind::kUpdates)}) {
    exchange_ = exchange;
    forget_all();
    expect_leave(GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(After, LostGpu, testing::Values(0, 1, 2, 3, 5, 13, 34));

// A copy finds it out, or the step itself: it is the GPU's failure all the same.
TEST_P(LostGpu, EndsAnAgentWithALeaveThatTellsOfItsParts) {
  tell_of_parts();
  expect_leave(GetParam());
}

// With `device: auto` the same process begins again on the CPU, and nothing is lost but the steps since the checkpoint.
TEST_P(LostGpu, WithAutoItsAgentGoesOnOnTheCpu) {
  Config config;
  config.agent.device = "auto";
  uint64_t saved = 0;
  const int code = run_on_gpu_or_cpu(config, [&](const Config& now) {
    if (now.agent.device == "auto") {
      const std::unique_ptr<Host> gpu = make_gpu(1);
      run(gpu.get(), 300);
      saved = gpu->events.saved_steps;
      emulation::machine.work_until_loss = GetParam();
      run(gpu.get(), 100);
      throw DeviceFailure(failure_);
    }
    Host cpu_life(clock_, network_, 2, 2, MemorySpace::kHost, *gpu_folder_);
    run(&cpu_life, 300);
    EXPECT_TRUE(cpu_life.events.joined && cpu_life.events.joined->steps >= saved);
    EXPECT_GT(cpu_life.steps(), saved);
    return 7;
  });
  EXPECT_EQ(code, 7);
  EXPECT_GT(saved, 0u);
  EXPECT_SAYS(failure_, "the GPU has fallen off the bus");
  EXPECT_EQ(emulation::memory_in_use(), 0u) << "the first life let all go";
  EXPECT_EQ(cpu().events.changes.back(), "restarted");
}

TEST_F(GpuAgent, AFullGpuEndsItsAgentWithALeave) {
  std::unique_ptr<Host> gpu = make_gpu(1);
  while (gpu->events.saved_steps == 0 && failure_.empty()) run(gpu.get(), 1);
  emulation::machine.memory_bytes = emulation::memory_in_use();  // somebody else took the rest
  run(gpu.get(), 300);
  EXPECT_SAYS(failure_, "allocating device memory failed on the GPU");
  EXPECT_SAYS(failure_, "free GPU memory or train with a smaller model or batch");
  expect_nothing_lost(std::move(gpu));
}

TEST_F(GpuAgent, AGpuFullFromTheStartIsSaidBeforeItJoins) {
  emulation::reset({.memory_bytes = kDimension * sizeof(float)});
  std::unique_ptr<Host> gpu = make_gpu(1);
  run(gpu.get(), 100);
  EXPECT_SAYS(failure_, "free GPU memory or train with a smaller model or batch");
  EXPECT_FALSE(gpu->events.joined.has_value());
  EXPECT_TRUE(gpu->agent->finished());
}

}  // namespace
}  // namespace starling
