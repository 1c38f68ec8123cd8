// The parts of the round machine that own steps, the jobs of a boundary, and the way back after a sickness.
#include "agent/run/stepping.h"

#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "agent/run/boundary_jobs.h"
#include "agent/run/sickness.h"
#include "agent/share/delta_sharing.h"
#include "agent/train/quadratic_trainer.h"
#include "tests/agent/run/lone_agent.h"

namespace starling {
namespace {

using std::chrono::seconds;

class RoundParts : public testing::Test, protected LoneAgent {
 protected:
  static TrainerOptions without_momentum() {
    TrainerOptions options = small();
    options.optimizer.momentum = 0;
    return options;
  }
};

TEST_F(RoundParts, ANewcomersLearningRateRampsUp) {
  Stepping grown = make_stepping(), newcomer = make_stepping();
  grown.start({.steps = 500}, false);
  newcomer.start({.steps = 500}, true);
  EXPECT_DOUBLE_EQ(newcomer.learning_rate(), grown.learning_rate() / 100);
  for (int i = 0; i < 49; ++i) take_steps(newcomer, 1);
  EXPECT_DOUBLE_EQ(newcomer.learning_rate(), grown.learning_rate() / 2);
  take_steps(newcomer, 1000);
  EXPECT_EQ(newcomer.learning_rate(), grown.learning_rate());
}

TEST_F(RoundParts, ARunThatHasEndedIsOverUntilItIsProlonged) {
  swarm_.stop_after = 100;
  for (const uint64_t ended_at : {0u, 99u, 100u, 400u}) {
    Stepping steps = make_stepping();
    steps.start({.steps = 90}, false);
    steps.has_ended_at(ended_at);
    steps.look_at_swarm();
    EXPECT_EQ(steps.all_taken(), ended_at >= 100) << ended_at;
  }
  Stepping prolonged = make_stepping();
  prolonged.set_stop(200);
  prolonged.start({.steps = 90}, false);
  prolonged.has_ended_at(100);
  prolonged.look_at_swarm();
  EXPECT_FALSE(prolonged.all_taken());
}

TEST_F(RoundParts, AScheduleStretchesToALaterStop) {
  swarm_.optimizer.schedule = Schedule::kCosine;
  swarm_.stop_after = 100;
  Stepping steps = make_stepping();
  swarm_.stop_after = 400;
  Stepping longer = make_stepping();
  for (Stepping* each : {&steps, &longer}) {
    each->start({.steps = 90}, false);
    each->look_at_swarm();
  }
  const double near_the_end = steps.learning_rate();
  EXPECT_LT(near_the_end, longer.learning_rate() / 10);
  steps.set_stop(400);
  EXPECT_DOUBLE_EQ(steps.learning_rate(), longer.learning_rate());
  steps.go_back({.steps = 399});
  steps.look_at_swarm();
  EXPECT_LT(steps.learning_rate(), near_the_end) << "it falls to 0 at the new end";
}

TEST_F(RoundParts, StepsAreCountedUntilTheSwarmHasTakenAll) {
  swarm_.stop_after = 30;
  Stepping steps = make_stepping();
  steps.start({}, false);
  EXPECT_FALSE(steps.loss()) << "not measured yet";
  EXPECT_TRUE(take_steps(steps, 20));
  EXPECT_GT(steps.loss().value(), 0);
  steps.look_at_swarm();
  EXPECT_EQ(steps.left(), 10u);
  EXPECT_FALSE(steps.all_taken());
  EXPECT_TRUE(take_steps(steps, 10));
  steps.look_at_swarm();
  EXPECT_TRUE(steps.all_taken());
  EXPECT_EQ(steps.progress().steps, 30u);
  steps.go_back({.round = 2, .steps = 16});
  EXPECT_EQ(steps.progress().steps, 16u);
  EXPECT_FALSE(steps.loss()) << "that of the discarded model";
}

// Long before the end such a record is a lie.
TEST_F(RoundParts, OneInStepThatEndedEndsWhoIsAtMostSixteenRoundsBehind) {
  swarm_.stop_after = 100;
  swarm_.local_steps = 2;
  swarm_.exchange.kind = ExchangeKind::kGroup;
  swarm_.exchange.source = SourceKind::kUpdates;
  Stepping steps = make_stepping();
  steps.start({.steps = 60}, false);
  for (const Phase phase : {Phase::kSettling, Phase::kTraining}) {
    PeerRecord other{.version = {1, 1}, .endpoint = {"10.0.0.2", 7400}};
    other.id.bytes.fill(phase == Phase::kSettling ? 2 : 3);
    other.meta = {.phase = phase, .steps = 60};
    membership_.add(other);
    membership_.prove(other.id, 1);
  }
  EXPECT_TRUE(take_steps(steps, 6));
  steps.look_at_swarm();
  EXPECT_FALSE(steps.all_taken());
  EXPECT_TRUE(take_steps(steps, 2));
  steps.look_at_swarm();
  EXPECT_TRUE(steps.all_taken());
}

TEST_F(RoundParts, WithoutAnEndStepsAreNeverAllTaken) {
  Stepping steps = make_stepping();
  steps.start({.steps = 1000000}, false);
  steps.look_at_swarm();
  EXPECT_FALSE(steps.all_taken());
  EXPECT_EQ(steps.left(), UINT64_MAX);
}

// Until the numbers end, which is another matter.
TEST_F(RoundParts, ALossThatStaysAboveTenTimesItsFirstValueIsCounted) {
  Stepping learns = make_stepping();
  learns.start({}, false);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(take_steps(learns, 1));
  EXPECT_EQ(learns.rounds_diverging(), 0u);

  swarm_.optimizer.learning_rate = 3;
  trainer_ = make_quadratic_trainer(without_momentum(), 1, clock_);
  Stepping diverges = make_stepping();
  diverges.start({}, false);
  int rounds = 0, above = 0;
  while (diverges.rounds_diverging() == 0 && rounds < 1000) {
    ASSERT_TRUE(take_steps(diverges, 1));
    ++rounds;
    above += diverges.loss().value() > 10 * diverges.first_loss().value();
  }
  EXPECT_EQ(above, 21);
  EXPECT_EQ(diverges.rounds_diverging(), 1u);
}

// Of a likelihood, say.
class BelowZero final : public QuadraticTrainer {
 public:
  using QuadraticTrainer::QuadraticTrainer;
  StepReport take_steps() override {
    StepReport report = QuadraticTrainer::take_steps();
    report.mean_loss = -4;
    return report;
  }
};

TEST_F(RoundParts, ALossBelowZeroDoesNotDiverge) {
  trainer_ = std::make_unique<BelowZero>(QuadraticOptions{.dimension = small().model.dimension}, 1, 1, clock_);
  Stepping falls = make_stepping();
  falls.start({}, false);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(take_steps(falls, 1));
  EXPECT_EQ(falls.loss(), -4);
  EXPECT_EQ(falls.rounds_diverging(), 0u);
}

// A good model's loss on one batch may be near 0: all of the first rounds of such a model are what it is judged by.
TEST_F(RoundParts, ATrainedModelIsJudgedByMoreThanItsFirstLoss) {
  swarm_.optimizer.learning_rate = 3;
  for (const uint64_t from : {0, 500}) {
    trainer_ = make_quadratic_trainer(without_momentum(), 1, clock_);
    Stepping rises = make_stepping();
    rises.start({.steps = from}, false);
    EXPECT_TRUE(take_steps(rises, 1));
    const double first = rises.loss().value();
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(take_steps(rises, 1));
    EXPECT_GT(rises.loss().value(), first);
    EXPECT_EQ(rises.first_loss().value(), from == 0 ? first : rises.loss().value());
  }
}

TEST_F(RoundParts, StepsThatAreNotFiniteAreSaid) {
  swarm_.optimizer.learning_rate = 1e30;
  Stepping steps = make_stepping();
  steps.start({}, false);
  EXPECT_FALSE(take_steps(steps, 100));
}

// The masses of the swarm's mean follow the data that the trainer says to have.
TEST_F(RoundParts, TheMassFollowsTheTrainersData) {
  swarm_.weight = "data";
  trainer_ = make_quadratic_trainer(small(), 1, clock_, {.samples = 1024});
  Stepping steps = make_stepping();
  steps.start({}, false);
  EXPECT_DOUBLE_EQ(steps.pace().mass(), 1024);
}

TEST_F(RoundParts, EvaluatesAndSavesWhatIsDue) {
  Pace pace(swarm_, 1);
  BoundaryJobs jobs({seconds(10), seconds(3)}, make_checkpoints(), *trainer_, pace, clock_, events_);
  const Progress progress{.steps = 7};
  int done = 0;
  const auto next = [&] { ++done; };
  EXPECT_FALSE(jobs.begin_due(true, progress, next)) << "not started";
  jobs.start();
  ASSERT_TRUE(jobs.begin_due(true, progress, next)) << "the evaluation";
  jobs.tick();
  EXPECT_EQ(done, 1);
  ASSERT_TRUE(jobs.begin_due(true, progress, next)) << "the checkpoint";
  worker_.run_completions();
  EXPECT_EQ(done, 2);
  EXPECT_EQ(saved_, std::vector<uint64_t>{7});
  EXPECT_FALSE(jobs.begin_due(true, progress, next));
  clock_.advance(seconds(4));
  EXPECT_FALSE(jobs.begin_due(false, progress, next)) << "evaluations are for training";
  EXPECT_TRUE(jobs.begin_due(true, progress, next));
}

// Of a loop of its own, which has judged the model.
class JudgesItself final : public Trainer {
 public:
  explicit JudgesItself(Trainer& inner) : inner_(inner) {}
  bool has_evaluation() const override { return judged; }
  std::optional<Evaluation> take_evaluation() override {
    return std::exchange(judged, false) ? std::optional<Evaluation>({.accuracy = 0.75, .samples = 10}) : std::nullopt;
  }
  void start_evaluation() override {}
  std::vector<TrainerSection> sections() override { return inner_.sections(); }
  void params_changed() override { inner_.params_changed(); }
  void start_steps(const LocalSteps& steps) override { inner_.start_steps(steps); }
  TimePoint idle_at() const override { return inner_.idle_at(); }
  StepReport take_steps() override { return inner_.take_steps(); }
  std::vector<std::byte> save_state() override { return inner_.save_state(); }
  bool load_state(std::span<const std::byte> state) override { return inner_.load_state(state); }
  TrainerData data() const override { return inner_.data(); }

  bool judged = false;

 private:
  Trainer& inner_;
};

TEST_F(RoundParts, WhatALoopReportsIsTakenAtTheNextBoundary) {
  JudgesItself trainer(*trainer_);
  Pace pace(swarm_, 1);
  BoundaryJobs jobs({std::chrono::hours(1), std::chrono::hours(1)}, make_checkpoints(), trainer, pace, clock_, events_);
  jobs.start();
  ASSERT_TRUE(jobs.begin_due(true, {.steps = 0}, [] {})) << "the first evaluation";
  jobs.tick();
  ASSERT_TRUE(jobs.begin_due(true, {.steps = 0}, [] {})) << "the first checkpoint";
  worker_.run_completions();
  clock_.advance(seconds(1));
  EXPECT_FALSE(jobs.begin_due(true, {.steps = 7}, [] {})) << "the loop has told nothing";
  trainer.judged = true;
  ASSERT_TRUE(jobs.begin_due(true, {.steps = 8}, [] {}));
  jobs.tick();
  EXPECT_EQ(jobs.accuracy(), 0.75);
  EXPECT_FALSE(jobs.begin_due(true, {.steps = 9}, [] {})) << "taken";
}

// Shares by moving all params far away: nobody can take them for what the steps left.
class MixesToAThousand final : public Sharing {
 public:
  explicit MixesToAThousand(View params) : Sharing(&nobody_, false), params_(params) {}
  void share(uint64_t, double, bool, Done done) override {
    std::fill(params_.data, params_.data + params_.count, 1000.0f);
    done(true);
  }
  void tick() override {}
  void apply_decided_then(Next next) override { next(); }
  void drop_decided() override {}

 private:
  struct Nobody final : ExchangeMachine {
    void handle(const PeerId&, uint64_t, const ExchangeMessage&, const SharedBytes&) override {}
    void tick() override {}
    TimePoint next_deadline() const override { return TimePoint::max(); }
    void forget(const PeerId&, uint64_t) override {}
    void lost(const PeerId&) override {}
    std::vector<ExchangeReport> take_reports() override { return {}; }
    ExchangeStatus status() const override { return {}; }
  };
  Nobody nobody_;
  View params_;
};

// Steps on its own data alone make it worse for the others' data: what newcomers are handed, and
// what is evaluated by the same jobs, is the model after the exchange.
TEST_F(RoundParts, WhatIsSavedIsTheModelAfterTheExchange) {
  swarm_.exchange.overlap = Overlap::kOff;
  MixesToAThousand sharing(trainer_->params());
  Rounds rounds = make_rounds(sharing);
  rounds.start({}, false);
  for (int i = 0; i < 20; ++i) {
    rounds.tick();
    worker_.run_completions();
    clock_.advance(seconds(1));
  }
  ASSERT_GE(saved_params_.size(), 3u);
  for (const float first : saved_params_) EXPECT_EQ(first, 1000);
}

TEST_F(RoundParts, SicknessGoesBackToTheLastGoodStateAFewTimes) {
  Recovery recovery;
  DeltaSharing sharing(model_, nullptr, worker_, clock_, false);
  CheckpointJobs checkpoints = make_checkpoints();
  Sickness sickness(recovery, sharing, checkpoints, clock_, events_);
  std::optional<Progress> back_at;
  stored_ = Progress{.steps = 40};
  for (uint32_t i = 0; i < kSickInARowMax; ++i) {
    back_at.reset();
    sickness.go_back_then("NaN", 55, [&](const Progress& to) { back_at = to; });
    worker_.run_completions();
    ASSERT_TRUE(back_at);
    EXPECT_EQ(back_at->steps, 40u);
  }
  EXPECT_THROW(sickness.go_back_then("NaN", 55, [](const Progress&) {}), std::runtime_error);
}

TEST_F(RoundParts, WithoutACheckpointASicknessIsTheEnd) {
  Recovery recovery;
  DeltaSharing sharing(model_, nullptr, worker_, clock_, false);
  CheckpointJobs checkpoints = make_checkpoints();
  Sickness sickness(recovery, sharing, checkpoints, clock_, events_);
  sickness.go_back_then("NaN", 55, [](const Progress&) { ADD_FAILURE(); });
  try {
    worker_.run_completions();
    ADD_FAILURE();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("no checkpoint"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace starling
