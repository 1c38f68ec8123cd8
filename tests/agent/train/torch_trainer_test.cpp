#include "agent/train/torch_trainer.h"
#include "agent/config/config.h"

#include <gtest/gtest.h>

#include <c10/util/Exception.h>
#include <oneapi/dnnl/dnnl_common.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <semaphore>
#include <string>
#include <utility>

#include "agent/train/model_plan.h"
#include "agent/train/torch_device.h"
#include "gossip/rng.h"

namespace starling {
namespace {

// Digits; for an lstm their middle rows, as if it were text.
Dataset samples_for(const SwarmConfig& swarm, uint32_t count, uint64_t stream) {
  Dataset digits = draw_digits(count, 1, stream);
  if (swarm.model.kind != "lstm") return digits;
  Dataset rows{.shape = swarm.model.input, .labels = digits.labels};
  for (size_t i = 0; i < count; ++i) {
    for (size_t column = 0; column < 28; ++column) rows.pixels.push_back(digits.pixels[(i * 28 + 14) * 28 + column]);
  }
  return rows;
}

// A trainer on a few generated digits, on one thread: the same numbers on every run.
class Bench {
 public:
  explicit Bench(SwarmConfig swarm = {}, uint32_t samples = 200, uint32_t test_samples = 100, uint32_t threads = 1,
                 double compute_ms = 0) {
    AgentConfig agent;
    agent.device = "cpu";
    agent.threads = threads;
    agent.compute_ms = compute_ms;
    trainer = make_torch_trainer(trainer_options(swarm, agent), samples_for(swarm, samples, 0),
                                 samples_for(swarm, test_samples, 1), [this] {
                                   ++woken;
                                   idle_.release();
                                 });
  }

  StepReport step(uint32_t count, double learning_rate = 0.05, ConstView correction = {}) {
    trainer->start_steps({count, learning_rate, correction});
    idle_.acquire();
    EXPECT_TRUE(trainer->idle());
    return trainer->take_steps();
  }
  // One step that tells what is final; its owner is woken at the end, and by each part that asks for it.
  StepReport step_in_parts(const std::function<bool(const FinalPart&)>& on_final, double learning_rate = 0.05) {
    trainer->start_steps({1, learning_rate, {}, on_final});
    while (!trainer->idle()) idle_.acquire();
    while (idle_.try_acquire_for(std::chrono::milliseconds(0))) {
    }
    return trainer->take_steps();
  }
  Evaluation evaluate() {
    trainer->start_evaluation();
    idle_.acquire();
    return trainer->take_evaluation().value();
  }
  std::vector<float> params() const { return values(trainer->params()); }
  static std::vector<float> values(View view) { return {view.data, view.data + view.count}; }

 private:
  std::counting_semaphore<> idle_{0};  // before the trainer, whose thread uses it

 public:
  std::atomic<int> woken = 0;
  std::unique_ptr<Trainer> trainer;
};

SwarmConfig small_swarm(const std::string& model, const std::string& optimizer = "sgd") {
  SwarmConfig swarm;
  swarm.model.kind = model;
  swarm.model.channels = 4;
  swarm.model.hidden = {20};
  swarm.optimizer.kind = optimizer;
  swarm.batch = 16;
  if (model == "lstm") {
    swarm.model.input = {1, 1, 28};
    swarm.model.classes = 256;
  }
  return swarm;
}

TEST(TorchTrainer, StartsFromTheGenesis) {
  for (const char* kind : {"cnn", "mlp", "vgg", "lstm"}) {
    const SwarmConfig swarm = small_swarm(kind);
    Bench bench(swarm);
    const View params = bench.trainer->params();
    EXPECT_EQ(params.space, MemorySpace::kHost);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(params.data) % 64, 0u);
    const ModelPlan plan = plan_model(swarm.model);
    std::vector<float> genesis(plan.param_count);
    draw_genesis(plan, swarm.rng_seed, genesis);
    EXPECT_EQ(bench.params(), genesis);
    EXPECT_EQ(bench.trainer->momentum().count, params.count);
  }
}

// A newcomer that fetches the model draws none, and what it fetched is not drawn over.
TEST(TorchTrainer, DrawsTheGenesisLaterAndOverNothing) {
  const SwarmConfig swarm = small_swarm("mlp");
  TrainerOptions options = trainer_options(swarm, {});
  options.draw_later = true;
  const std::vector<float> genesis = Bench(swarm).params();
  for (const bool fetched : {false, true}) {
    const auto trainer = make_torch_trainer(options, samples_for(swarm, 10, 0), {}, {});
    const View params = trainer->params();
    const std::vector<float> other(params.count, 7.0f);
    std::copy(other.begin(), other.end(), params.data);
    if (fetched) trainer->params_changed();
    trainer->draw_genesis();
    EXPECT_EQ(std::vector<float>(params.data, params.data + params.count), fetched ? other : genesis);
  }
}

// Whoever wants the same bits again must be told how many threads a step had, and that the trainer may take others.
TEST(TorchTrainer, SaysHowManyThreadsItHasChosen) {
  EXPECT_EQ(Bench(small_swarm("mlp")).step(1).threads, 0u) << "1 is fixed";
  const StepReport chosen = Bench(small_swarm("mlp"), 200, 100, 0).step(1);
  EXPECT_GE(chosen.threads, 1u);
}

// Against central differences of the loss over the test data, which is the training data here: one step of
// plain SGD over a batch that holds every sample once moves the params by exactly the gradient.
TEST(TorchTrainer, TheGradientIsTheSlopeOfTheLoss) {
  for (const char* kind : {"cnn", "mlp", "vgg", "lstm"}) {
    SwarmConfig swarm = small_swarm(kind);
    swarm.optimizer.momentum = 0;
    swarm.batch = 10;
    AgentConfig agent;
    agent.device = "cpu";
    agent.threads = 1;
    std::binary_semaphore idle{0};
    const auto trainer = make_torch_trainer(trainer_options(swarm, agent), samples_for(swarm, 10, 0),
                                            samples_for(swarm, 10, 0), [&] { idle.release(); });
    EXPECT_EQ(trainer->momentum().count, 0u);
    const std::vector<float> before = Bench::values(trainer->params());
    trainer->start_steps({1, 1});
    idle.acquire();
    std::vector<float> gradient = Bench::values(trainer->params());
    for (size_t i = 0; i < before.size(); ++i) gradient[i] = before[i] - gradient[i];
    const auto loss_at = [&](size_t slot_element, float shift) {
      std::copy(before.begin(), before.end(), trainer->params().data);
      trainer->params().data[slot_element] += shift;
      trainer->params_changed();
      trainer->start_evaluation();
      idle.acquire();
      return trainer->take_evaluation()->loss;
    };
    for (const ParamSlot& slot : plan_model(swarm.model).slots) {
      size_t steepest = slot.offset;
      for (size_t i = slot.offset; i < slot.offset + slot.count; ++i) {
        if (std::abs(gradient[i]) > std::abs(gradient[steepest])) steepest = i;
      }
      const double slope = (loss_at(steepest, 2e-3f) - loss_at(steepest, -2e-3f)) / 4e-3;
      EXPECT_NE(slope, 0) << slot.name;
      EXPECT_NEAR(gradient[steepest], slope, 0.05 * std::abs(slope) + 1e-4) << slot.name;
    }
  }
}

// While backward still reads the others, those that are told are as the step as a whole would have left them, to the
// bit.
TEST(TorchTrainer, AStepThatTellsItsPartsIsTheSameStep) {
  for (const char* kind : {"cnn", "mlp", "vgg", "lstm"}) {
    SwarmConfig swarm = small_swarm(kind);
    swarm.model.hidden = {150, 160, 120, 20};
    swarm.optimizer.momentum = 0.9;
    swarm.optimizer.nesterov = true;
    swarm.optimizer.weight_decay = 1e-3f;
    const ModelPlan plan = plan_model(swarm.model);
    Bench whole(swarm), parts(swarm);
    const View params = parts.trainer->params();
    for (int step = 0; step < 10; ++step) {
      const StepReport expected = whole.step(1);
      const std::vector<float> before = parts.params();
      const std::vector<float> after = whole.params();
      std::vector<size_t> order;
      size_t told = 0;
      int woken = 0, asked = 0;
      const StepReport report = parts.step_in_parts([&](const FinalPart& part) {
        const auto same = [&](const std::vector<float>& values, size_t offset, size_t count) {
          return std::memcmp(params.data + offset, values.data() + offset, count * sizeof(float)) == 0;
        };
        EXPECT_TRUE(same(after, part.offset, part.count)) << "as the step leaves it";
        EXPECT_TRUE(same(before, 0, part.offset)) << "backward reads them";
        if (order.empty()) woken = parts.woken;
        EXPECT_EQ(parts.woken, woken + asked) << "by each that asked";
        order.push_back(part.offset);
        told += part.count;
        const bool look = (order.size() + step) % 2 == 0;
        asked += look;
        return look;
      });
      EXPECT_EQ(report.mean_loss, expected.mean_loss);
      ASSERT_EQ(parts.params(), after) << kind << ", step " << step;
      ASSERT_EQ(Bench::values(parts.trainer->momentum()), Bench::values(whole.trainer->momentum()));
      EXPECT_EQ(told, plan.param_count) << "every element once";
      EXPECT_TRUE(std::is_sorted(order.rbegin(), order.rend())) << "the last layer is final first";
      EXPECT_EQ(order.back(), 0u) << "and the first one last";
      if (std::string(kind) != "mlp") continue;
      EXPECT_EQ(order.size(), 3u) << "the three last layers together, and the first two each alone";
    }
  }
}

TEST(TorchTrainer, AStepThatIsNotFiniteTellsNoPartThatIsNot) {
  SwarmConfig swarm = small_swarm("mlp");
  swarm.model.hidden = {150, 160};  // two parts
  Bench bench(swarm);
  const View params = bench.trainer->params();
  params.data[0] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> before = bench.params();
  const StepReport report = bench.step_in_parts([&](const FinalPart& part) {
    for (size_t i = 0; i < part.count; ++i) EXPECT_TRUE(std::isfinite(params.data[part.offset + i]));
    return true;
  });
  EXPECT_FALSE(report.finite);
  EXPECT_EQ(report.steps, 0u);
  EXPECT_EQ(std::memcmp(params.data, before.data(), before.size() * sizeof(float)), 0);
}

TEST(TorchTrainer, AdamWStepsAsAWholeAndTellsNothing) {
  Bench whole(small_swarm("mlp", "adamw")), parts(small_swarm("mlp", "adamw"));
  EXPECT_NE(parts.trainer->early_send_blocked_reason(), "");
  EXPECT_EQ(Bench(small_swarm("mlp")).trainer->early_send_blocked_reason(), "");
  for (int step = 0; step < 3; ++step) {
    whole.step(1);
    parts.step_in_parts([](const FinalPart&) {
      ADD_FAILURE() << "a part was told";
      return false;
    });
  }
  EXPECT_EQ(parts.params(), whole.params());
}

TEST(TorchTrainer, LearnsGeneratedDigits) {
  for (const char* kind : {"cnn", "mlp"}) {
    SwarmConfig swarm = small_swarm(kind);
    swarm.batch = 64;
    Bench bench(swarm, kGeneratedTrainCount, 500);
    const StepReport report = bench.step(300);
    EXPECT_EQ(report.steps, 300u);
    EXPECT_EQ(report.samples, 300u * 64);
    EXPECT_TRUE(report.finite);
    EXPECT_GT(report.forward_time.count(), 0);
    EXPECT_GT(report.backward_time.count(), 0);
    EXPECT_LE(report.forward_time + report.backward_time, report.compute_time);
    const Evaluation evaluation = bench.evaluate();
    EXPECT_EQ(evaluation.samples, 500u);
    EXPECT_GT(evaluation.accuracy, 0.9) << kind;
    EXPECT_LT(evaluation.loss, 0.5) << kind;
  }
}

TEST(TorchTrainer, PretendsThatStepsTakeLonger) {
  const SwarmConfig swarm = small_swarm("mlp");
  Bench usual(swarm), slow(swarm, 200, 100, 1, 150);
  usual.step(3);
  EXPECT_GE(slow.step(3).compute_time, std::chrono::milliseconds(450));
  EXPECT_EQ(slow.params(), usual.params());
  const SteadyClock clock;
  const TimePoint start = clock.now();
  {
    std::binary_semaphore computes{0};
    bool told = false;
    Bench leaves(swarm, 200, 100, 1, 60'000);
    leaves.trainer->start_steps({1, 0.05, {}, [&](const FinalPart&) {
                                   if (!std::exchange(told, true)) computes.release();
                                   return false;
                                 }});
    computes.acquire();  // one that is left before its step begins takes none, and pretends nothing
  }
  EXPECT_LT(clock.now() - start, std::chrono::seconds(30)) << "nobody waits for what is pretended";
}

TEST(TorchTrainer, AVggLearnsDigitsToo) {
  SwarmConfig swarm = small_swarm("vgg");
  swarm.batch = 64;
  Bench bench(swarm, kGeneratedTrainCount, 500);
  bench.step(300);
  EXPECT_GT(bench.evaluate().accuracy, 0.9);
}

// Each letter follows from the last but one; the last alone tells nothing.
TEST(TorchTrainer, AnLstmLearnsWhatFollowsFromAfar) {
  SwarmConfig swarm = small_swarm("lstm", "adamw");
  swarm.model.input = {1, 1, 12};
  swarm.model.classes = 4;
  swarm.batch = 32;
  Dataset text{.shape = swarm.model.input};
  Rng rng(1);
  for (int sample = 0; sample < 400; ++sample) {
    std::vector<uint8_t> bytes = {static_cast<uint8_t>(rng.uniform() * 4), static_cast<uint8_t>(rng.uniform() * 4)};
    while (bytes.size() < 13) bytes.push_back((bytes[bytes.size() - 2] + 1) % 4);
    text.labels.push_back(bytes.back());
    text.pixels.insert(text.pixels.end(), bytes.begin(), bytes.end() - 1);
  }
  AgentConfig agent;
  agent.device = "cpu";
  agent.threads = 1;
  std::binary_semaphore idle{0};
  const auto trainer = make_torch_trainer(trainer_options(swarm, agent), text, text, [&] { idle.release(); });
  trainer->start_steps({300, 0.02});
  idle.acquire();
  trainer->start_evaluation();
  idle.acquire();
  const Evaluation evaluation = trainer->take_evaluation().value();
  EXPECT_EQ(evaluation.samples, 400u);
  EXPECT_GT(evaluation.accuracy, (11 + 0.25) / 12 - 0.05) << "all but the second letter, a guess of one in four";
  EXPECT_LT(evaluation.accuracy, (11 + 0.25) / 12 + 0.03) << "nothing tells the second letter";
  EXPECT_NEAR(evaluation.loss, std::log(4) / 12, 0.05) << "of a byte, not of a sample";
}

TEST(TorchTrainer, AByteThatIsNoClassOfAnLstmIsRefused) {
  SwarmConfig swarm = small_swarm("lstm");
  swarm.model.classes = 10;  // the labels are, the bytes are not
  EXPECT_THROW(Bench bench(swarm), std::runtime_error);
}

TEST(TorchTrainer, AdamWLearnsToo) {
  SwarmConfig swarm = small_swarm("mlp", "adamw");
  swarm.batch = 64;
  Bench bench(swarm, kGeneratedTrainCount, 500);
  EXPECT_EQ(bench.trainer->momentum().count, 0u);
  bench.step(300, 0.003);
  EXPECT_GT(bench.evaluate().accuracy, 0.9);
}

// The buffers stay where they are, and what lies between two tensors stays zero, whatever happens in between.
// A linear model's weights move with its inputs. Grey of the mean brightness, of ink or of photographs, is zero.
TEST(TorchTrainer, PixelsAreCenteredForInkAndForPhotographs) {
  for (const auto& [channels, grey] : {std::pair<int64_t, uint8_t>{1, 33}, {3, 120}}) {
    SwarmConfig swarm = small_swarm("mlp");
    swarm.model.hidden = {};
    swarm.model.input = {channels, 2, 2};
    swarm.optimizer.momentum = 0;
    AgentConfig agent;
    agent.device = "cpu";
    std::binary_semaphore idle{0};
    const Dataset data{.shape = swarm.model.input, .pixels = std::vector<uint8_t>(channels * 4, grey), .labels = {0}};
    const auto trainer = make_torch_trainer(trainer_options(swarm, agent), data, data, [&] { idle.release(); });
    const std::vector<float> before = Bench::values(trainer->params());
    trainer->start_steps({1, 1});
    idle.acquire();
    const std::vector<float> after = Bench::values(trainer->params());
    for (int64_t i = 0; i < 10 * channels * 4; ++i) EXPECT_NEAR(after[i], before[i], 0.01) << channels;
  }
}

TEST(TorchTrainer, TheViewsStayInPlace) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    SwarmConfig swarm = small_swarm("cnn", optimizer);
    swarm.optimizer.weight_decay = 0.01;
    Bench bench(swarm);
    const View before = bench.trainer->params();
    bench.step(5, 0.01);
    bench.evaluate();
    ASSERT_TRUE(bench.trainer->load_state(bench.trainer->save_state()));
    bench.step(5, 0.01);
    const View after = bench.trainer->params();
    EXPECT_EQ(before.data, after.data);
    std::vector<bool> is_padding(after.count, true);
    for (const ParamSlot& slot : plan_model(swarm.model).slots) {
      std::fill_n(is_padding.begin() + static_cast<ptrdiff_t>(slot.offset), slot.count, false);
    }
    for (size_t i = 0; i < after.count; ++i) {
      if (is_padding[i]) {
        EXPECT_EQ(after.data[i], 0) << i;
      }
    }
  }
}

TEST(TorchTrainer, SameSeedSameBits) {
  Bench a(small_swarm("cnn")), b(small_swarm("cnn"));
  a.step(7);
  for (int i = 0; i < 7; ++i) b.step(1);
  EXPECT_EQ(a.params(), b.params());
  SwarmConfig other = small_swarm("cnn");
  other.rng_seed = 2;
  Bench c(other);
  c.step(7);
  EXPECT_NE(a.params(), c.params());
}

TEST(TorchTrainer, ShardsWalkThroughTheSameDataDifferently) {
  const SwarmConfig swarm = small_swarm("mlp");
  std::vector<std::vector<float>> results;
  for (const uint32_t shard : {0, 1}) {
    AgentConfig agent;
    agent.device = "cpu";
    agent.threads = 1;
    agent.data.shard = shard;
    std::binary_semaphore idle{0};
    const auto trainer =
        make_torch_trainer(trainer_options(swarm, agent), draw_digits(200, 1, 0), {}, [&] { idle.release(); });
    trainer->start_steps({3, 0.05});
    idle.acquire();
    results.push_back(Bench::values(trainer->params()));
  }
  EXPECT_NE(results[0], results[1]);
}

TEST(TorchTrainer, WritingIntoTheViewsCounts) {
  Bench a(small_swarm("mlp")), b(small_swarm("mlp"));
  a.step(4);
  const View from = a.trainer->params(), to = b.trainer->params();
  std::copy_n(from.data, from.count, to.data);
  b.trainer->params_changed();
  EXPECT_EQ(a.evaluate().loss, b.evaluate().loss);
}

TEST(TorchTrainer, ResumesBitExactly) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    const SwarmConfig swarm = small_swarm("cnn", optimizer);
    Bench first(swarm), resumed(swarm);
    first.step(17, 0.01);  // 17 x 16 of 200 samples: into the second epoch
    ASSERT_TRUE(resumed.trainer->load_state(first.trainer->save_state()));
    for (const auto& [from, to] : {std::pair{first.trainer->params(), resumed.trainer->params()},
                                   std::pair{first.trainer->momentum(), resumed.trainer->momentum()}}) {
      ASSERT_EQ(from.count, to.count);
      std::copy_n(from.data, from.count, to.data);
    }
    const StepReport one = first.step(17, 0.01), two = resumed.step(17, 0.01);
    EXPECT_EQ(one.mean_loss, two.mean_loss) << optimizer;
    EXPECT_EQ(first.params(), resumed.params()) << optimizer;
    EXPECT_EQ(first.trainer->save_state(), resumed.trainer->save_state()) << optimizer;
  }
}

TEST(TorchTrainer, AStateThatDoesNotFitIsRefused) {
  Bench sgd(small_swarm("cnn")), adamw(small_swarm("cnn", "adamw")), other_model(small_swarm("mlp"));
  sgd.step(3);
  const std::vector<std::byte> before = sgd.trainer->save_state();
  for (Bench* other : {&adamw, &other_model}) {
    EXPECT_FALSE(sgd.trainer->load_state(other->trainer->save_state()));
    EXPECT_FALSE(other->trainer->load_state(before));
  }
  for (size_t size = 0; size < before.size(); ++size) {
    EXPECT_FALSE(sgd.trainer->load_state(std::span(before).first(size)));
  }
  std::vector<std::byte> far = before;
  far.back() = std::byte{1};  // the position in the epoch, beyond its end
  EXPECT_FALSE(sgd.trainer->load_state(far));
  EXPECT_EQ(sgd.trainer->save_state(), before);
}

// Whoever adds a file to the data folder keeps the model and the optimizer's memory; only the epoch begins anew.
TEST(TorchTrainer, AStateOfOtherDataIsTaken) {
  const SwarmConfig swarm = small_swarm("cnn", "adamw");
  for (const uint32_t samples : {40u, 201u}) {  // the place is beyond the end of the 40
    Bench first(swarm), resumed(swarm, samples), fresh(swarm, samples);
    first.step(5);  // 5 x 16 of 200 samples
    ASSERT_TRUE(resumed.trainer->load_state(first.trainer->save_state())) << samples;
    EXPECT_NE(resumed.trainer->save_state(), fresh.trainer->save_state()) << "the optimizer forgot its moments";
    const std::vector<float> params = first.params();
    for (Bench* bench : {&resumed, &fresh}) std::copy(params.begin(), params.end(), bench->trainer->params().data);
    resumed.step(1), fresh.step(1);
    EXPECT_NE(resumed.params(), fresh.params()) << samples;
  }
}

TEST(TorchTrainer, AStepThatIsNotFiniteIsNotApplied) {
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Bench bench(small_swarm("mlp"));
    bench.step(2);
    const View params = bench.trainer->params(), momentum = bench.trainer->momentum();
    const std::vector<float> momentum_before = Bench::values(momentum);
    const ParamSlot last = plan_model(small_swarm("mlp").model).slots.back();
    params.data[last.offset] = poison;
    const std::vector<float> before = bench.params();
    const StepReport report = bench.step(5);
    EXPECT_FALSE(report.finite);
    EXPECT_EQ(report.steps, 0u);
    EXPECT_EQ(std::memcmp(params.data, before.data(), before.size() * sizeof(float)), 0);
    EXPECT_EQ(Bench::values(momentum), momentum_before);
  }
}

// A learning rate that blows the model up ends in a report, with finite params still in place.
TEST(TorchTrainer, DivergenceIsReported) {
  Bench bench(small_swarm("mlp"));
  const StepReport report = bench.step(2000, 1e6);
  EXPECT_FALSE(report.finite);
  EXPECT_LT(report.steps, 2000u);
}

TEST(TorchTrainer, DescribesItsData) {
  Bench bench(small_swarm("mlp"), 30);
  EXPECT_EQ(bench.trainer->data().samples, 30u);
  EXPECT_EQ(bench.trainer->data().summary, "30 samples, labels 0 1 2 3 4 5 6 7 8 9");
  EXPECT_FALSE(bench.trainer->take_evaluation());
}

TEST(TorchTrainer, WithoutTestDataThereIsNothingToEvaluate) {
  Bench bench(small_swarm("mlp"), 30, 0);
  EXPECT_EQ(bench.evaluate().samples, 0u);
}

TEST(TorchDevice, RepeatsNoWarningOfLibTorch) {
  TorchDevice("cpu", 1).enter();
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) TORCH_WARN("this is said at every step");
  const std::string said = testing::internal::GetCapturedStderr();
  const size_t first = said.find("this is said at every step");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(said.find("this is said at every step", first + 1), std::string::npos) << said;
}

TEST(TorchTrainer, LeavesWithoutFinishingItsSteps) {
  std::atomic<bool> was_idle = false;
  AgentConfig agent;
  agent.device = "cpu";
  agent.threads = 1;
  auto trainer = make_torch_trainer(trainer_options(small_swarm("cnn"), agent), draw_digits(50, 1, 0), {},
                                    [&] { was_idle = true; });
  trainer->start_steps({4'000'000'000u, 0.01});  // months
  trainer.reset();
  EXPECT_TRUE(was_idle);
}

TEST(TorchTrainer, WrongStartsAreRefused) {
  AgentConfig agent;
  agent.device = "cpu";
  const auto start = [&](const SwarmConfig& swarm, Dataset data) {
    make_torch_trainer(trainer_options(swarm, agent), data, {}, {});
  };
  EXPECT_THROW(start({}, {}), std::runtime_error);
  SwarmConfig swarm;
  swarm.model.input = {1, 30, 30};
  EXPECT_THROW(start(swarm, draw_digits(20, 1, 0)), std::runtime_error);
  swarm = {};
  swarm.model.classes = 5;
  EXPECT_THROW(start(swarm, draw_digits(20, 1, 0)), std::runtime_error);
  swarm = {};
  swarm.batch = 0;
  EXPECT_THROW(start(swarm, draw_digits(20, 1, 0)), std::runtime_error);
  swarm = {};
  swarm.optimizer.kind = "lion";
  EXPECT_THROW(start(swarm, draw_digits(20, 1, 0)), std::runtime_error);
  agent.device = "gpu";
  EXPECT_THROW(start({}, draw_digits(20, 1, 0)), std::runtime_error);
}

// What the device is to blame for may be tried on the CPU; what the program is to blame for may not.
TEST(TorchDevice, ItsErrorsAreToldFromOthersAndCarryARemedy) {
  const auto text_of = [](const auto& error) -> std::string {
    try {
      try {
        throw error;
      } catch (...) {
        rethrow_torch_failure();
      }
    } catch (const DeviceFailure& failure) {
      return failure.what();
    } catch (const std::runtime_error& failure) {
      return std::string("no device: ") + failure.what();
    }
  };
  const c10::SourceLocation here{__func__, __FILE__, __LINE__};
  const std::string full = text_of(c10::OutOfMemoryError(here, "CUDA out of memory. Tried to allocate 2.00 GiB"));
  EXPECT_EQ(full,
            "LibTorch failed: CUDA out of memory. Tried to allocate 2.00 GiB; lower agent.batch, free GPU "
            "memory, or set agent.device: cpu");
  const std::string lost = text_of(c10::AcceleratorError(here, 719, "CUDA error: unspecified launch failure"));
  EXPECT_NE(lost.find("unspecified launch failure; look at nvidia-smi"), std::string::npos) << lost;
  EXPECT_EQ(text_of(c10::ValueError(here, "a shape")), "no device: LibTorch failed: a shape");
  const std::string refused = text_of(c10::Error(
      here, "DefaultCPUAllocator: can't allocate memory: you tried to allocate 80150592 bytes. Error code 12"));
  EXPECT_EQ(refused.find("no device: out of memory, as 80.2 MB more are needed"), 0u) << refused;
  EXPECT_EQ(text_of(dnnl::error(dnnl_out_of_memory, "could not create a primitive")).find("no device: out of memory"),
            0u);
  EXPECT_EQ(text_of(dnnl::error(dnnl_unimplemented, "no such")), "no device: LibTorch failed: oneDNN: no such");
}

TEST(TorchDevice, ADriverTooOldIsNamedWithBothVersions) {
  EXPECT_EQ(why_torch_sees_none(11040, 13000),
            "the NVIDIA driver is too old: it goes up to CUDA 11.4, and this LibTorch needs 13.0");
  for (const auto& [driver, torch] : {std::pair{13000, 13010}, {13000, 12080}, {0, 13000}, {12080, 0}}) {
    EXPECT_EQ(why_torch_sees_none(driver, torch), "LibTorch sees no GPU (see nvidia-smi and CUDA_VISIBLE_DEVICES)");
  }
}

// A library in the driver's place (tests/support/fake_driver.cpp), which says what the variable tells it to.
TEST(TorchDevice, WhatTheDriverSaysIsSaidAndAutoTakesTheCpu) {
  if (std::getenv("STARLING_FAKE_DRIVER") == nullptr) GTEST_SKIP() << "the driver of this machine is asked instead";
  const auto missing = [] {
    EXPECT_FALSE(TorchDevice("auto", 1).is_cuda());
    try {
      TorchDevice("cuda", 1);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  setenv("STARLING_FAKE_DRIVER", "init 100", 1);
  EXPECT_EQ(missing(),
            "agent.device is cuda, but the NVIDIA driver finds no usable GPU (cuInit: error 100, no "
            "CUDA-capable device; see nvidia-smi); install what is missing, or set agent.device: auto");
  setenv("STARLING_FAKE_DRIVER", "init 999", 1);
  EXPECT_NE(missing().find("(cuInit: error 999; see nvidia-smi)"), std::string::npos) << missing();
  setenv("STARLING_FAKE_DRIVER", "devices 0", 1);
  EXPECT_NE(missing().find("the NVIDIA driver finds no GPU"), std::string::npos) << missing();
  setenv("STARLING_FAKE_DRIVER", "devices 1", 1);  // and LibTorch finds none, or has no CUDA half
  EXPECT_NE(missing().find("LibTorch"), std::string::npos) << missing();
}

TEST(TorchDevice, CudaIsThereOrMissedWithARemedy) {
  try {
    EXPECT_TRUE(TorchDevice("cuda", 1).is_cuda());
    EXPECT_TRUE(TorchDevice("auto", 1).is_cuda());
  } catch (const std::runtime_error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("agent.device is cuda, but "), std::string::npos) << text;
    EXPECT_NE(text.find("set agent.device: auto"), std::string::npos) << text;
    EXPECT_FALSE(TorchDevice("auto", 1).is_cuda());
  }
  EXPECT_FALSE(TorchDevice("cpu", 1).is_cuda());
}

TEST(TorchTrainer, ACorrectionIsAddedToEachGradient) {
  SwarmConfig swarm = small_swarm("mlp");
  swarm.optimizer.momentum = 0;
  Bench plain(swarm), corrected(swarm);
  std::vector<float> correction(plain.params().size());
  for (size_t i = 0; i < correction.size(); ++i) correction[i] = static_cast<float>(i % 7) - 3;
  plain.step(1, 0.5);
  corrected.step(1, 0.5, {correction.data(), correction.size(), MemorySpace::kHost});
  const std::vector<float> without = plain.params(), with = corrected.params();
  for (size_t i = 0; i < correction.size(); ++i) ASSERT_NEAR(with[i] - without[i], -0.5 * correction[i], 1e-5) << i;
}

}  // namespace
}  // namespace starling
