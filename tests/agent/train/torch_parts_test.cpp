// Steps in parts whose params lie on a device: with a lane that is late and lands in any order, on the CPU in the
// device's place; and, where there is one, on a GPU.
#include "agent/train/torch_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <semaphore>
#include <span>
#include <string>
#include <vector>

#include "agent/config/config.h"
#include "agent/train/model_plan.h"
#include "agent/train/torch_device.h"
#include "agent/train/torch_trainer.h"
#include "kernels/copy_lane.h"
#include "kernels/device_failure.h"
#include "kernels/transfer.h"
#include "tests/agent/train/late_lane.h"

namespace starling {
namespace {

SwarmConfig some_swarm(const std::string& model, const std::string& optimizer = "sgd") {
  SwarmConfig swarm;
  swarm.model.kind = model;
  swarm.model.channels = 4;
  swarm.model.hidden = {150, 160, 120, 20};
  swarm.optimizer.kind = optimizer;
  swarm.optimizer.nesterov = optimizer == "sgd";
  swarm.optimizer.weight_decay = 1e-3;
  swarm.batch = 16;
  if (model == "lstm") {
    swarm.model.input = {1, 1, 28};
    swarm.model.classes = 256;
  }
  return swarm;
}

Dataset samples_for(const SwarmConfig& swarm) {
  Dataset digits = draw_digits(200, 1, 0);
  if (swarm.model.kind != "lstm") return digits;
  Dataset rows{.shape = swarm.model.input, .labels = digits.labels};
  for (size_t i = 0; i < digits.count(); ++i) {
    for (size_t column = 0; column < 28; ++column) rows.pixels.push_back(digits.pixels[(i * 28 + 14) * 28 + column]);
  }
  return rows;
}

enum class Where { kHost, kLateLane, kGpu };

class Bench {
 public:
  Bench(const SwarmConfig& swarm, Where where) {
    AgentConfig agent;
    agent.device = where == Where::kGpu ? "cuda" : "cpu";
    agent.threads = 1;
    MakeCopyLane make_lane;
    if (where == Where::kLateLane) make_lane = [this](size_t) { return std::make_unique<LateLane>(watch); };
    trainer = make_torch_trainer(
        trainer_options(swarm, agent), samples_for(swarm), {}, [this] { idle_.release(); }, make_lane);
    landing_.emplace(trainer->params().space, trainer->params().count, FloatMemory::Place::kStaging);
  }

  StepReport step(const std::function<bool(const FinalPart&)>& on_final = {}) {
    std::fill(landing_->all().begin(), landing_->all().end(), std::numeric_limits<float>::quiet_NaN());
    trainer->start_steps({1, 0.05, {}, on_final, landing_->all()});
    while (!trainer->idle()) idle_.acquire();
    while (idle_.try_acquire_for(std::chrono::milliseconds(0))) {
    }
    return trainer->take_steps();
  }
  std::vector<float> values(View view) const {
    std::vector<float> all(view.count);
    copy_to_host(view, all.data());
    return all;
  }
  std::vector<float> params() const { return values(trainer->params()); }
  std::span<const float> landing() const { return landing_->all(); }

 private:
  std::counting_semaphore<> idle_{0};  // before the trainer, whose thread uses it
  std::optional<FloatMemory> landing_;

 public:
  LaneWatch watch;
  std::unique_ptr<Trainer> trainer;
};

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// Steps of a trainer that tells beside those of one that does not. Everything is told once, and when it is told it is
// where it landed as the step leaves it. Returns how many parts were told of.
size_t expect_the_same_steps(Bench& whole, Bench& parts, int steps) {
  size_t count = 0;
  for (int step = 0; step < steps; ++step) {
    const StepReport expected = whole.step();
    const std::vector<float> after = whole.params();
    size_t told = 0;
    const StepReport report = parts.step([&](const FinalPart& part) {
      const std::span<const float> landed = parts.landing().subspan(part.offset, part.count);
      EXPECT_TRUE(same_bits(landed, std::span(after).subspan(part.offset, part.count))) << "as the step leaves it";
      told += part.count;
      return ++count % 2 == 0;
    });
    EXPECT_EQ(report.mean_loss, expected.mean_loss);
    EXPECT_EQ(report.steps, 1u);
    EXPECT_TRUE(report.finite);
    EXPECT_EQ(told, after.size()) << "every element once, before the step has ended";
    EXPECT_TRUE(same_bits(parts.params(), after)) << "step " << step;
    EXPECT_TRUE(same_bits(parts.values(parts.trainer->momentum()), whole.values(whole.trainer->momentum())));
    EXPECT_TRUE(parts.watch.under_way.empty());
    if (testing::Test::HasFailure()) break;
  }
  return count;
}

TEST(TorchParts, ThatLandLateAreTheSameStep) {
  for (const char* kind : {"cnn", "mlp", "vgg", "lstm"}) {
    SCOPED_TRACE(kind);
    Bench whole(some_swarm(kind), Where::kHost), parts(some_swarm(kind), Where::kLateLane);
    EXPECT_EQ(parts.trainer->early_send_blocked_reason(), "");
    EXPECT_GE(expect_the_same_steps(whole, parts, 10), 10u);
  }
}

TEST(TorchParts, LandWhileOthersAreComputed) {
  Bench whole(some_swarm("mlp"), Where::kHost), parts(some_swarm("mlp"), Where::kLateLane);
  const size_t told = expect_the_same_steps(whole, parts, 40);
  EXPECT_EQ(told, 40u * 3);
  EXPECT_GT(parts.watch.landed_when_asked, 20u) << "during backward";
  EXPECT_LT(parts.watch.landed_when_asked, told) << "and at the step's end";
}

// Not told of, the steps of a device are the host's to the bit.
TEST(TorchParts, OfADeviceAreSteppedAsAWholeWhereNobodyAsks) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    Bench host(some_swarm("mlp", optimizer), Where::kHost), device(some_swarm("mlp", optimizer), Where::kLateLane);
    for (int step = 0; step < 3; ++step) host.step(), device.step();
    EXPECT_TRUE(same_bits(device.params(), host.params())) << optimizer;
  }
}

TEST(TorchParts, OfAdamWAreNeitherOfADevice) {
  Bench bench(some_swarm("mlp", "adamw"), Where::kLateLane);
  EXPECT_EQ(bench.trainer->early_send_blocked_reason(), "this optimizer steps all params at once");
  bench.step([](const FinalPart&) {
    ADD_FAILURE() << "a part was told";
    return false;
  });
}

// The verdict stays on the device, and comes with each part's copy.
TEST(TorchParts, WithAGradientThatIsNotFiniteAreNotTold) {
  Bench bench(some_swarm("mlp"), Where::kLateLane);
  const View params = bench.trainer->params();
  bench.step();
  const std::vector<float> momentum = bench.values(bench.trainer->momentum());
  params.data[0] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> before = bench.params();
  const StepReport report = bench.step([&](const FinalPart& part) {
    for (const float one : bench.landing().subspan(part.offset, part.count)) EXPECT_TRUE(std::isfinite(one));
    return true;
  });
  EXPECT_FALSE(report.finite);
  EXPECT_EQ(report.steps, 0u);
  EXPECT_TRUE(same_bits(bench.params(), before));
  EXPECT_TRUE(same_bits(bench.values(bench.trainer->momentum()), momentum));
  params.data[0] = 0;
  EXPECT_TRUE(bench.step([](const FinalPart&) { return true; }).finite) << "it is of its step alone";
}

// Whatever call fails: what was told was right, the step is the same step, and its trainer says why it tells no more.
TEST(TorchParts, WithoutTheirCopiesAreTheSameStep) {
  bool failed = true;
  for (int calls = 0; failed; ++calls) {
    Bench whole(some_swarm("mlp"), Where::kHost), parts(some_swarm("mlp"), Where::kLateLane);
    parts.watch.calls_until_failure = calls;
    for (int step = 0; step < 2; ++step) {
      const StepReport expected = whole.step();
      const std::vector<float> after = whole.params();
      const StepReport report = parts.step([&](const FinalPart& part) {
        EXPECT_TRUE(same_bits(parts.landing().subspan(part.offset, part.count),
                              std::span(after).subspan(part.offset, part.count)));
        EXPECT_FALSE(parts.watch.ended) << "told of after the failure";
        return true;
      });
      EXPECT_EQ(report.mean_loss, expected.mean_loss);
      EXPECT_TRUE(same_bits(parts.params(), after)) << "failed after " << calls;
    }
    failed = parts.watch.ended;
    EXPECT_EQ(parts.trainer->early_send_blocked_reason(), failed ? "the lane is closed" : "");
    ASSERT_LT(calls, 1000);
  }
}

TEST(TorchParts, WithoutALaneAreNotTold) {
  AgentConfig agent;
  agent.device = "cpu";
  agent.threads = 1;
  const SwarmConfig swarm = some_swarm("mlp");
  const auto because = [&](const MakeCopyLane& make_lane) {
    return make_torch_trainer(trainer_options(swarm, agent), samples_for(swarm), {}, {}, make_lane)
        ->early_send_blocked_reason();
  };
  EXPECT_EQ(because([](size_t) { return nullptr; }), "this program was built without CUDA");
  EXPECT_EQ(because([](size_t) -> std::unique_ptr<CopyLane> { throw DeviceFailure("no pinned memory"); }),
            "no pinned memory");
}

// The same on a GPU, when there is one. Matrix products of one shape on one stream give the same bits each time; of
// the other models only what landed is compared, with what the step left.
TEST(TorchPartsOnGpu, AreTheSameStep) {
  if (!TorchDevice("auto", 1).is_cuda()) GTEST_SKIP() << "no GPU here: LibTorch's half was compiled, not run";
  Bench whole(some_swarm("mlp"), Where::kGpu), parts(some_swarm("mlp"), Where::kGpu);
  ASSERT_EQ(parts.trainer->early_send_blocked_reason(), "");
  EXPECT_EQ(expect_the_same_steps(whole, parts, 40), 40u * 3);
  EXPECT_EQ(parts.trainer->early_send_blocked_reason(), "");
}

TEST(TorchPartsOnGpu, LandAsTheStepLeavesThem) {
  if (!TorchDevice("auto", 1).is_cuda()) GTEST_SKIP() << "no GPU here: LibTorch's half was compiled, not run";
  for (const char* kind : {"cnn", "mlp", "vgg", "lstm"}) {
    SCOPED_TRACE(kind);
    Bench bench(some_swarm(kind), Where::kGpu);
    for (int step = 0; step < 20; ++step) {
      std::vector<float> told(bench.trainer->params().count);
      size_t count = 0;
      bench.step([&](const FinalPart& part) {
        std::copy_n(bench.landing().begin() + static_cast<std::ptrdiff_t>(part.offset), part.count,
                    told.begin() + static_cast<std::ptrdiff_t>(part.offset));
        count += part.count;
        return true;
      });
      ASSERT_EQ(count, told.size());
      ASSERT_TRUE(same_bits(told, bench.params())) << "step " << step;
    }
    EXPECT_EQ(bench.trainer->early_send_blocked_reason(), "");
  }
}

}  // namespace
}  // namespace starling
