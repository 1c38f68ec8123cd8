// What an agent that discards its params takes along from its exchanges.
#include "agent/share/delta_sharing.h"

#include <gtest/gtest.h>

#include <vector>

#include "agent/share/drift_watch.h"
#include "agent/train/quadratic_trainer.h"
#include "tests/gossip/pairs/pair_harness.h"
#include "tests/support/fake_clock.h"

namespace starling {
namespace {

using exchange_test::Flight;
using exchange_test::PairAgentOptions;
using exchange_test::TestAgent;
using exchange_test::TestAgentOf;
using exchange_test::TestSwarm;
using exchange_test::TestSwarmOf;
using std::chrono::milliseconds;

PairAgentOptions modulo8() {
  PairAgentOptions options;
  options.codec = CodecKind::kModulo8;
  return options;
}

TrainerOptions dimension(uint64_t params) {
  TrainerOptions options;
  options.model.dimension = params;
  return options;
}

// An agent's shared model over the pair exchange of `a`, and a partner that is only an exchange.
class SharingTest : public testing::Test {
 protected:
  SharingTest() {
    Rng rng(5);
    const View x = params();
    for (size_t i = 0; i < x.count; ++i) x.data[i] = partner_.params[i] = static_cast<float>(rng.uniform() - 0.5);
  }

  View params() { return trainer_->params(); }
  void meet() {
    Decided decided = agent_.pairwise->take_decided();
    auto snapshot = std::make_shared<Snapshot>();
    snapshot->number = snapshot->round = ++snapshots_;
    ASSERT_TRUE(model_.apply_and_encode(decided, snapshot.get(), false).healthy);
    agent_.pairwise->publish(std::move(snapshot));
    partner_.boundary();
    ASSERT_TRUE(agent_.pairwise->propose(partner_.id));
    swarm_.run_for(milliseconds(200));
  }

  TestSwarm swarm_{modulo8()};
  TestAgent& agent_ = swarm_.add(1);
  TestAgent& partner_ = swarm_.add(2);
  std::unique_ptr<QuadraticTrainer> trainer_ = make_quadratic_trainer(dimension(64), 1, swarm_.clock);
  SharedModel model_{*trainer_, shared_sections(*trainer_, false), make_codec(CodecKind::kModulo8, MemorySpace::kHost),
                     16,        make_source(SourceKind::kParams),  nullptr};
  InlineWorker worker_;
  DeltaSharing sharing_{model_, agent_.pairwise.get(), worker_, swarm_.clock, true};
  uint64_t snapshots_ = 0;
};

TEST_F(SharingTest, DroppedDeltasChangeNoParams) {
  partner_.params[3] += 0.01f;
  meet();
  const std::vector<float> before(params().data, params().data + params().count);
  sharing_.drop_decided();
  worker_.run_completions();
  EXPECT_EQ(std::vector<float>(params().data, params().data + params().count), before);
  EXPECT_GT(partner_.apply(), 0u) << "the exchange was decided: there was a delta to drop";
  EXPECT_TRUE(agent_.pairwise->take_decided().deltas.empty());
}

// Both sides of an exchange learn wider steps from blocks that wrap. One that learns nothing from it stays too narrow,
// and the blocks wrap in its next exchange as well.
TEST_F(SharingTest, TheCodecLearnsFromExchangesWhoseDeltasAreDropped) {
  for (int i = 0; i < 20; ++i) meet();
  sharing_.drop_decided();
  worker_.run_completions();
  for (size_t i = 0; i < partner_.params.size(); ++i) partner_.params[i] += i % 2 ? 5.0f : -5.0f;
  const std::vector<std::byte> narrow = model_.save();
  meet();
  ASSERT_GT(agent_.pairwise->counters().blocks_left_out, 0u) << "nothing wrapped, so there is nothing to learn";
  sharing_.drop_decided();
  worker_.run_completions();
  EXPECT_NE(model_.save(), narrow);
}

class NobodyToAsk final : public PeerSampler {
 public:
  std::optional<PeerId> choose(const std::vector<PeerId>&) override { return std::nullopt; }
  void met(const PeerId&) override {}
  uint64_t last_met(const PeerId&) override { return 0; }
  std::vector<PeerId> candidates() override { return {}; }
  std::vector<Participant> neighbors(uint64_t) override { return {}; }
  std::vector<Participant> group() override { return {}; }
};

// Pairs by turns apply a delta at the vote, and take it back if the decision is another. An agent that went back to an
// earlier state meanwhile holds neither: taking back would move its params, and the swarm's sum.
TEST(TurnSharing, WhatWentWithDiscardedParamsIsNotTakenBack) {
  for (const bool sick : {false, true}) {
    NobodyToAsk nobody;
    TestSwarmOf<SyncPairs> swarm({.sampler = &nobody});
    TestAgentOf<SyncPairs>& agent = swarm.add(1);
    TestAgentOf<SyncPairs>& partner = swarm.add(2);
    std::unique_ptr<QuadraticTrainer> trainer = make_quadratic_trainer(dimension(64), 1, swarm.clock);
    SharedModel model(*trainer, shared_sections(*trainer, false), make_codec(CodecKind::kFp32, MemorySpace::kHost), 16,
                      make_source(SourceKind::kParams), nullptr);
    DeltaSharing sharing(model, agent.pairwise.get(), agent.worker, swarm.clock, true);
    const View x = trainer->params();
    std::fill(x.data, x.data + x.count, 1.0f);
    partner.params.assign(64, 3);
    partner.boundary();
    sharing.expect_steps(std::chrono::seconds(1), {});  // a payload is left behind for whoever asks meanwhile
    bool shared = false;
    sharing.share(1, 1, true, [&](bool) { shared = true; });
    while (!shared) agent.worker.run_completions();
    swarm.network.drop = [](const Flight& flight) { return exchange_test::is<Have>(flight); };
    ASSERT_TRUE(partner.pairwise->propose(agent.id));
    swarm.run_for(milliseconds(30));
    ASSERT_TRUE(agent.pairwise->in_doubt());
    if (sick) {
      sharing.drop_decided();
    } else {
      sharing.apply_decided_then([] {});
      agent.worker.run_completions();
      EXPECT_EQ(x.data[0], 2);
    }
    swarm.run_for(std::chrono::seconds(2));
    EXPECT_EQ(agent.pairwise->counters().taken_back, 1u);
    sharing.apply_decided_then([] {});
    agent.worker.run_completions();
    EXPECT_EQ(x.data[0], 1);
  }
}

// An exchange may be open with a snapshot of those params. What it brings later goes into the new ones, and is taken
// back from them.
TEST(TurnSharing, WhatComesAfterParamsWereDiscardedIsTakenBack) {
  NobodyToAsk nobody;
  TestSwarmOf<SyncPairs> swarm({.sampler = &nobody});
  TestAgentOf<SyncPairs>& agent = swarm.add(1);
  TestAgentOf<SyncPairs>& partner = swarm.add(2);
  std::unique_ptr<QuadraticTrainer> trainer = make_quadratic_trainer(dimension(64), 1, swarm.clock);
  SharedModel model(*trainer, shared_sections(*trainer, false), make_codec(CodecKind::kFp32, MemorySpace::kHost), 16,
                    make_source(SourceKind::kParams), nullptr);
  DeltaSharing sharing(model, agent.pairwise.get(), agent.worker, swarm.clock, true);
  const View x = trainer->params();
  std::fill(x.data, x.data + x.count, 1.0f);
  partner.params.assign(64, 3);
  partner.boundary();
  sharing.expect_steps(std::chrono::seconds(1), {});  // a payload is left behind for whoever asks meanwhile
  bool shared = false;
  sharing.share(1, 1, true, [&](bool) { shared = true; });
  while (!shared) agent.worker.run_completions();
  swarm.network.drop = [](const Flight& flight) { return exchange_test::is<Have>(flight); };
  swarm.network.more_delay = [](const Flight& flight) {
    return exchange_test::is<BlockPayload>(flight) ? milliseconds(50) : milliseconds(0);
  };
  ASSERT_TRUE(partner.pairwise->propose(agent.id));
  swarm.run_for(milliseconds(30));
  ASSERT_TRUE(agent.pairwise->under_way());
  sharing.publish_nothing();
  sharing.drop_decided();
  swarm.run_for(milliseconds(100));
  ASSERT_TRUE(agent.pairwise->in_doubt());
  sharing.apply_decided_then([] {});
  agent.worker.run_completions();
  EXPECT_EQ(x.data[0], 2);
  swarm.run_for(std::chrono::seconds(2));
  EXPECT_EQ(agent.pairwise->counters().taken_back, 1u);
  sharing.apply_decided_then([] {});
  agent.worker.run_completions();
  EXPECT_EQ(x.data[0], 1);
}

// One that nobody is there to meet.
struct AloneByTurns {
  NobodyToAsk nobody;
  TestSwarmOf<SyncPairs> swarm{{.sampler = &nobody}};
  TestAgentOf<SyncPairs>& agent = swarm.add(1);
  std::unique_ptr<QuadraticTrainer> trainer = make_quadratic_trainer(dimension(64), 1, swarm.clock);
  SharedModel model{*trainer, shared_sections(*trainer, false), make_codec(CodecKind::kFp32, MemorySpace::kHost),
                    16,       make_source(SourceKind::kParams), nullptr};
  DeltaSharing sharing{model, agent.pairwise.get(), agent.worker, swarm.clock, true};
  const View x = trainer->params();

  void fill(float value) { std::fill(x.data, x.data + x.count, value); }
  void share(uint64_t round) {
    bool shared = false;
    sharing.share(round, 1, true, [&](bool) { shared = true; });
    while (!shared) agent.worker.run_completions();
  }
};

// The steps before settling moved the params: what was measured then would place this agent where it is no more.
TEST(TurnSharing, OnlyWhatIsMeasuredSinceSettlingBeganCounts) {
  AloneByTurns alone;
  const DeltaSharing& sharing = alone.sharing;
  alone.fill(2);
  EXPECT_FALSE(sharing.projection().has_value());
  alone.share(1);
  EXPECT_EQ(sharing.params_rms(), 2);
  EXPECT_EQ(sharing.projection(), project(alone.x));
  const Projection before = *sharing.projection();
  alone.fill(3);
  alone.share(1);
  EXPECT_EQ(sharing.projection(), before) << "not at every boundary";
  alone.sharing.settle(true);
  EXPECT_FALSE(sharing.projection().has_value());
  alone.share(1);
  EXPECT_EQ(sharing.params_rms(), 3);
  EXPECT_EQ(sharing.projection(), project(alone.x));
}

// The genesis is the same everywhere, and the next measurement comes seconds later.
TEST(TurnSharing, BeforeTheFirstStepsNoProjectionIsTold) {
  AloneByTurns alone;
  alone.fill(2);
  alone.share(0);
  EXPECT_EQ(alone.sharing.params_rms(), 2) << "the size is known, the projection would say that all agree";
  EXPECT_FALSE(alone.sharing.projection().has_value());
  alone.fill(3);
  alone.share(1);
  EXPECT_EQ(alone.sharing.projection(), project(alone.x)) << "at the first boundary with steps before it, at once";
}

// Who settles without a step of its own, because the swarm has ended, is waited for by the others.
TEST(TurnSharing, WhoSettlesTellsItsProjectionInAnyRound) {
  AloneByTurns alone;
  alone.sharing.settle(true);
  alone.share(0);
  EXPECT_EQ(alone.sharing.projection(), project(alone.x));
}

TEST(DriftWatch, SeesWhatTheStepsMoveAndNotWhatWasMixedInBetween) {
  FakeClock clock;
  DriftWatch watch(clock, true);
  std::vector<float> x(64, 1);
  const ConstView params{x.data(), x.size(), MemorySpace::kHost};
  EXPECT_EQ(watch.drift(), 0);
  const auto move = [&](float by) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += i % 2 == 0 ? by : -by;
  };
  watch.before_steps(params);
  move(1);
  watch.after_steps(params);
  const double drift = watch.drift();
  EXPECT_GT(drift, 0.3);
  EXPECT_LT(drift, 2);
  move(100);  // mixed
  watch.before_steps(params);
  move(2);
  watch.after_steps(params);
  EXPECT_NEAR(watch.drift(), 2 * drift, 1e-4);
  watch.before_steps(params);
  watch.after_steps(params);
  EXPECT_NEAR(watch.drift(), 2 * drift, 1e-4) << "of the last round with steps";
  watch.before_steps(params);
  move(50);
  watch.discarded();
  watch.after_steps(params);
  EXPECT_NEAR(watch.drift(), 2 * drift, 1e-4);
}

}  // namespace
}  // namespace starling
