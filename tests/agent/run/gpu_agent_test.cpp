// Two agents of one swarm, the params of one on the emulated GPU, the other's on the CPU; and what becomes of them when
// the GPU is lost or full. All is the agent's own but the trainer, which stands where LibTorch's does.
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "agent/process/device_fallback.h"
#include "agent/run/agent.h"
#include "agent/state/file_keeper.h"
#include "agent/train/quadratic_trainer.h"
#include "emulation.h"
#include "gossip/sim/virtual_network.h"
#include "gossip/worker.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/vector_ops.h"
#include "kernels/device_failure.h"
#include "kernels/transfer.h"
#include "tests/agent/state/planned_file_ops.h"

namespace starling {
namespace {

constexpr uint64_t kDimension = 600;   // a few blocks

ExchangeConfig by_pairs(CodecKind codec, Overlap overlap = Overlap::kAuto) {
  return {.codec = codec, .block = 256, .overlap = overlap};
}

// A quadratic like QuadraticTrainer's, with params and steps on the GPU: x += rate * (target - x). What a checkpoint
// keeps of the one can be read by the other.
class GpuTrainer final : public Trainer {
 public:
  GpuTrainer(const TrainerOptions& options, float target, Clock& clock)
      : on_cpu_(make_quadratic_trainer(options, 1, clock)) {
    write(params_, quadratic_genesis({.dimension = kDimension}, options.swarm_rng_seed));
    write(target_, std::vector<float>(kDimension, target));
  }

  std::vector<TrainerSection> sections() override { return {{"params", SectionKind::kMixed, view(params_)}}; }
  void params_changed() override {}
  void start_steps(const LocalSteps& steps) override {
    report_ = {.steps = steps.count, .samples = steps.count};
    failure_ = nullptr;
    if (loses_gpu_) emulation::machine.work_until_loss = 0;
    try {
      const auto rate = static_cast<float>(steps.learning_rate);
      for (uint32_t i = 0; i < steps.count; ++i) {
        axpy_cuda(-rate, view(params_).data, view(params_).data, kDimension, stream_.handle());
        axpy_cuda(rate, view(target_).data, view(params_).data, kDimension, stream_.handle());
      }
      stream_.wait();
    } catch (...) {
      failure_ = std::current_exception();   // LibTorch's trainer fails on its thread, and says so in take_steps() too
    }
  }
  std::string tells_none_because() const override { return "the GPU of this test does not say"; }
  void start_evaluation() override {}
  TimePoint idle_at() const override { return TimePoint::min(); }
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
  static View view(cuda::Buffer& buffer) {
    return {reinterpret_cast<float*>(buffer.reserve(kDimension * sizeof(float))), kDimension, MemorySpace::kCuda};
  }
  void write(cuda::Buffer& to, const std::vector<float>& values) { copy_from_host(values.data(), view(to)); }

  std::unique_ptr<Trainer> on_cpu_;   // never steps
  cuda::Stream stream_;
  cuda::Buffer params_{cuda::BufferKind::kDevice}, target_{cuda::BufferKind::kDevice};
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
       const Folder& folder, const ExchangeConfig& exchange = by_pairs(CodecKind::kModulo8))
      : transport(network.open({"10.0.0." + std::to_string(number), 7400})),
        clock(on_clock) {
    AgentOptions options;
    options.self.bytes.fill(number);
    options.generation = generation;
    options.advertise = transport->local();
    options.rng_seed = number + 10 * generation;
    options.config.has_swarm = true;
    SwarmConfig& swarm = options.config.swarm;
    swarm.model.kind = "quadratic";
    swarm.model.dimension = kDimension;
    swarm.optimizer.momentum = 0;
    swarm.optimizer.learning_rate = 0.01;
    swarm.exchange = exchange;
    options.config.agent.evaluate_every = Duration::zero();
    options.config.agent.checkpoint_every = std::chrono::seconds(1);
    options.config.agent.bootstrap = {{"10.0.0.1", 7400}};
    if (number == 1) options.config.agent.bootstrap = {};
    agent.emplace(options, AgentParts{
        *transport, clock, worker, events,
        [this, space, options](const SwarmConfig& agreed) -> std::unique_ptr<Trainer> {
          const TrainerOptions trainer = trainer_options(agreed, options.config.agent);
          if (space == MemorySpace::kHost) return make_quadratic_trainer(trainer, 1, clock);
          return std::make_unique<GpuTrainer>(trainer, 1.0f, clock);
        },
        [&folder, generation](uint64_t swarm_id, const std::string&) {
          return std::make_unique<FileKeeper>(folder.path(), swarm_id, generation, 3);
        }});
  }
  uint64_t steps() const { return agent->rounds() == nullptr ? 0 : agent->rounds()->progress().steps; }
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
  std::optional<Agent> agent;   // last: uses all else
};

class GpuAgent : public testing::Test {
 protected:
  GpuAgent() { emulation::reset(); }
  ~GpuAgent() override { emulation::reset(); }

  // On the CPU, with the address that the other one asks.
  Host& cpu() {
    if (!cpu_) cpu_.emplace(clock_, network_, 1, 1, MemorySpace::kHost, cpu_folder_, exchange_);
    return *cpu_;
  }
  std::unique_ptr<Host> make_gpu(uint64_t generation) {
    return std::make_unique<Host>(clock_, network_, 2, generation, MemorySpace::kCuda, gpu_folder_, exchange_);
  }
  // Both for so many hundredths of a second. What the one with the GPU throws is kept in failure_, and it is abandoned.
  void run(Host* gpu, int ticks) {
    for (int i = 0; i < ticks; ++i) {
      clock_.advance(std::chrono::milliseconds(10));
      network_.deliver_due();
      cpu().agent->tick();
      if (gpu == nullptr || gpu->agent->finished()) continue;
      try {
        gpu->agent->tick();
      } catch (const DeviceFailure& failure) {
        ASSERT_EQ(failure_, "") << "an abandoned agent touches the GPU no more";
        failure_ = failure.what();
        gpu->agent->abandon();
      }
    }
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
  VirtualClock clock_;
  VirtualNetwork network_{clock_, 1, LinkOptions{}};
  Folder cpu_folder_, gpu_folder_;
  std::optional<Host> cpu_;
  std::string failure_;
};

#define EXPECT_SAYS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

// Every way of sharing, as a few exchanges of the settings; by name.
struct Way {
  std::string name;
  ExchangeConfig exchange;
};

ExchangeConfig in_a_group(SourceKind source, UpdateOptions update = {}) {
  return {.source = source, .kind = ExchangeKind::kGroup, .codec = CodecKind::kFp32, .block = 256, .update = update};
}

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
          {"outer_momentum", diloco}};
}

class GpuAgentShares : public GpuAgent, public testing::WithParamInterface<Way> {};

TEST_P(GpuAgentShares, WithOneOnTheCpu) {
  exchange_ = GetParam().exchange;
  std::unique_ptr<Host> gpu = make_gpu(1);
  run(gpu.get(), 500);
  EXPECT_EQ(failure_, "");
  EXPECT_GT(gpu->steps(), 100u);
  ASSERT_NE(gpu->agent->exchange(), nullptr);
  const ExchangeStatus& status = gpu->agent->exchange()->status();
  EXPECT_GT(status.block_tally.counted + status.updates.entries, 20u);
  EXPECT_GT(gpu->events.saved_steps, 0u);
  // Their targets lie some 1.4 apart, and the one on the CPU is 0 in the mean.
  EXPECT_LT(distance(*gpu, cpu()), 0.3);
  const std::vector<float> agreed = cpu().params();
  EXPECT_GT(std::accumulate(agreed.begin(), agreed.end(), 0.0) / kDimension, 0.25) << "what the GPU learned counts too";
}

INSTANTIATE_TEST_SUITE_P(Ways, GpuAgentShares, testing::ValuesIn(ways()),
                         [](const auto& info) { return info.param.name; });

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
    std::ostringstream text;
    const auto before = spdlog::default_logger();
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(text)));
    run(make_gpu(1).get(), 300);
    spdlog::set_default_logger(before);
    const std::string said = text.str(), why = "the GPU of this test does not say";
    const size_t at = said.find(why);
    EXPECT_EQ(at != std::string::npos, pipeline) << said;
    if (!pipeline) continue;
    EXPECT_EQ(said.find(why, at + 1), std::string::npos) << said;
  }
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
  std::unique_ptr<Host> gpu = make_gpu(1);
  run(gpu.get(), 300);
  ASSERT_GT(gpu->events.saved_steps, 0u);
  emulation::machine.work_until_loss = GetParam();
  run(gpu.get(), 100);
  EXPECT_SAYS(failure_, "the GPU has fallen off the bus");
  EXPECT_SAYS(failure_, "look at nvidia-smi and the driver's log, or run on the CPU");
  expect_nothing_lost(std::move(gpu));
}

INSTANTIATE_TEST_SUITE_P(After, LostGpu, testing::Values(0, 1, 2, 3, 5, 13, 34));

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
    Host cpu_life(clock_, network_, 2, 2, MemorySpace::kHost, gpu_folder_);
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
  emulation::machine.memory_bytes = emulation::memory_in_use();   // somebody else took the rest
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
