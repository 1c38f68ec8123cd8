// What is shared of a trainer's sections, what a source makes of it, and when a local rule is called.
#include "agent/share/shared_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace starling {
namespace {

using Floats = std::vector<float>;

// Holds sections of every kind, and trains nothing.
class SectionsOnly final : public Trainer {
 public:
  std::vector<TrainerSection> sections() override {
    return {{"params", SectionKind::kMixed, view_of(params), state_from},
            {"running_mean", SectionKind::kAveraged, view_of(running_mean)},
            {"momentum", SectionKind::kLocal, view_of(momentum)},
            {"second_moment", SectionKind::kLocal, view_of(second_moment)},
            {"embedding", SectionKind::kFrozen, view_of(embedding)}};
  }
  void params_changed() override { ++changes; }
  void start_steps(const LocalSteps&) override {}
  void start_evaluation() override {}
  TimePoint idle_at() const override { return TimePoint::min(); }
  StepReport take_steps() override { return {}; }
  std::optional<Evaluation> take_evaluation() override { return std::nullopt; }
  std::vector<std::byte> save_state() override { return {}; }
  bool load_state(std::span<const std::byte>) override { return true; }
  TrainerData data() const override { return {1, ""}; }

  static View view_of(Floats& values) { return {values.data(), values.size(), MemorySpace::kHost}; }

  Floats params = {1, 2, 3}, running_mean = {10, 20}, momentum = {5}, second_moment = {6}, embedding = {7};
  size_t state_from = SIZE_MAX;
  int changes = 0;
};

// Counts its calls, and leaves its mark where it may write.
class CountingRule final : public LocalRule {
 public:
  struct Seen {
    std::string calls;  // r: round_began, m: after_mix, s: before_share
    Floats at_round, at_mix, at_share;
    std::string loaded;
  };
  explicit CountingRule(Seen& seen) : seen_(seen) {}
  void round_began(ConstView params) override {
    seen_.calls += 'r';
    seen_.at_round.assign(params.data, params.data + params.count);
  }
  ConstView correction() const override { return {correction_.data(), correction_.size(), MemorySpace::kHost}; }
  void after_mix(View params) override {
    seen_.calls += 'm';
    seen_.at_mix.assign(params.data, params.data + params.count);
  }
  void before_share(View params) override {
    seen_.calls += 's';
    seen_.at_share.assign(params.data, params.data + params.count);
    params.data[0] = 100;
  }
  std::vector<std::byte> save() const override { return {std::byte{'o'}, std::byte{'k'}}; }
  bool load(std::span<const std::byte> saved) override {
    seen_.loaded.assign(reinterpret_cast<const char*>(saved.data()), saved.size());
    return seen_.loaded == "ok";
  }

 private:
  Seen& seen_;
  Floats correction_ = {0.5, 0.25, 0.125};
};

class SharedModelTest : public testing::Test {
 protected:
  SharedModel make(bool carry, std::unique_ptr<Source> source, std::unique_ptr<LocalRule> rule = nullptr,
                   CodecKind codec = CodecKind::kFp32) {
    return SharedModel(trainer_, shared_sections(trainer_, carry), make_codec(codec, MemorySpace::kHost), 2,
                       std::move(source), std::move(rule));
  }
  std::unique_ptr<LocalRule> counting() { return std::make_unique<CountingRule>(seen_); }

  // What the next snapshot holds; fp32 payloads are the values.
  Floats encode(SharedModel& model, Decided decided = {}) {
    Snapshot snapshot;
    EXPECT_TRUE(model.apply_and_encode(decided, &snapshot, true).healthy);
    Floats all;
    for (const SharedBytes& block : snapshot.blocks) {
      Floats values(block.size / sizeof(float));
      std::memcpy(values.data(), block.data, block.size);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  // Moves the first block of params, {1, 2}, by (peer - own) * coefficient.
  static Decided decided(const Floats& own, const Floats& peer, float coefficient) {
    Delta delta;
    delta.own = {SharedBytes::copy_of(std::as_bytes(std::span(own))), {}, {}};
    delta.peer = {SharedBytes::copy_of(std::as_bytes(std::span(peer))), {}, {}};
    delta.blocks = {1};
    delta.coefficient = coefficient;
    Decided all;
    all.deltas.push_back(std::move(delta));
    return all;
  }

  SectionsOnly trainer_;
  CountingRule::Seen seen_;
};

TEST_F(SharedModelTest, SharesWhatTheKindsOfTheSectionsSay) {
  SharedModel params = make(false, make_source(SourceKind::kParams));
  EXPECT_EQ(encode(params), (Floats{1, 2, 3, 10, 20}));
  SharedModel carried = make(true, make_source(SourceKind::kParams));
  EXPECT_EQ(encode(carried), (Floats{1, 2, 3, 10, 20, 5})) << "momentum alone of the local ones rides along";
  EXPECT_EQ(carried.encoder().layout().sections.size(), 3u);
}

// The sizes of running means would be the unit in which a codec of few bits tells of params in the same block.
TEST_F(SharedModelTest, StateBehindTheParamsHasBlocksOfItsOwn) {
  trainer_.state_from = 1;
  SharedModel model = make(false, make_source(SourceKind::kParams));
  EXPECT_EQ(encode(model), (Floats{1, 2, 3, 10, 20}));
  std::vector<size_t> counts;
  for (const Block& block : model.encoder().layout().blocks) counts.push_back(block.element_count);
  EXPECT_EQ(counts, (std::vector<size_t>{1, 2, 2}));
  trainer_.params = {1, 2e6f, 3e6f};
  Snapshot snapshot;
  Decided nothing;
  EXPECT_FLOAT_EQ(static_cast<float>(model.apply_and_encode(nothing, &snapshot, true).params_rms), 1);
}

TEST_F(SharedModelTest, GradientsAreWhatTheRoundChangedOfMixedSections) {
  SharedModel model = make(false, make_source(SourceKind::kGradients));
  EXPECT_TRUE(model.follows_rounds());
  EXPECT_EQ(encode(model), (Floats{0, 0, 0, 10, 20})) << "before the first round nothing has changed";
  model.round_began();
  trainer_.params = {1.5, 2, 7};
  trainer_.running_mean = {11, 21};
  EXPECT_EQ(encode(model), (Floats{0.5, 0, 4, 11, 21}));
  model.round_began();
  EXPECT_EQ(encode(model), (Floats{0, 0, 0, 11, 21}));
}

TEST_F(SharedModelTest, WithoutARuleThereIsNothingToFollow) {
  SharedModel model = make(false, make_source(SourceKind::kParams));
  EXPECT_FALSE(model.follows_rounds());
  EXPECT_EQ(model.correction().count, 0u);
  EXPECT_EQ(model.save(), model.encoder().save());
}

TEST_F(SharedModelTest, ARuleIsCalledAtTheStepAndAtTheBoundary) {
  SharedModel model = make(false, make_source(SourceKind::kParams), counting());
  ASSERT_TRUE(model.follows_rounds());
  model.round_began();
  EXPECT_EQ(seen_.at_round, (Floats{1, 2, 3}));
  EXPECT_EQ(model.correction().count, 3u);

  const Floats shared = encode(model, decided({1, 2}, {3, 6}, 0.5f));
  EXPECT_EQ(seen_.calls, "rms");
  EXPECT_EQ(seen_.at_mix, (Floats{2, 4, 3})) << "what was decided has been added";
  EXPECT_EQ(seen_.at_share, (Floats{2, 4, 3}));
  EXPECT_EQ(shared, (Floats{100, 4, 3, 10, 20})) << "encoded is what the rule left";
  EXPECT_EQ(trainer_.params, (Floats{100, 4, 3}));
  EXPECT_GT(trainer_.changes, 0);

  encode(model);
  EXPECT_EQ(seen_.calls, "rmss") << "nothing was decided: nothing was mixed";
  model.apply(decided({1, 2}, {1, 2}, 0.5f));
  EXPECT_EQ(seen_.calls, "rmssm");
}

TEST_F(SharedModelTest, WithAndWithoutARuleTheSameIsApplied) {
  SharedModel plain = make(false, make_source(SourceKind::kParams));
  const Floats shared = encode(plain, decided({1, 2}, {3, 6}, 0.5f));
  EXPECT_EQ(shared, (Floats{2, 4, 3, 10, 20}));
  EXPECT_EQ(trainer_.params, (Floats{2, 4, 3}));
}

TEST_F(SharedModelTest, ACheckpointKeepsTheRulesStateBesideTheCodecs) {
  for (const CodecKind codec : {CodecKind::kFp32, CodecKind::kModulo8}) {
    SharedModel with = make(false, make_source(SourceKind::kParams), counting(), codec);
    const std::vector<std::byte> saved = with.save();
    seen_.loaded.clear();
    EXPECT_TRUE(with.load(saved));
    EXPECT_EQ(seen_.loaded, "ok");
    seen_.loaded.clear();
    EXPECT_TRUE(with.load_rule(saved));
    EXPECT_EQ(seen_.loaded, "ok");

    SharedModel without = make(false, make_source(SourceKind::kParams), nullptr, codec);
    EXPECT_TRUE(without.load(saved)) << "a rule that is gone leaves nothing to load";
    EXPECT_EQ(without.save(), with.encoder().save());
    seen_.loaded = "not called";
    EXPECT_TRUE(with.load(without.save())) << "a checkpoint of before there was a rule";
    EXPECT_EQ(seen_.loaded, "not called");
  }
}

TEST_F(SharedModelTest, ReadsTheCodecsMemoryOfOlderCheckpoints) {
  SharedModel model = make(false, make_source(SourceKind::kParams), counting(), CodecKind::kModulo8);
  EXPECT_TRUE(model.load(std::vector<std::byte>(3, std::byte{2}))) << "one byte a block";
  EXPECT_FALSE(model.load(std::vector<std::byte>(4, std::byte{2}))) << "of another layout";
}

TEST_F(SharedModelTest, RefusesADamagedCheckpoint) {
  SharedModel model = make(false, make_source(SourceKind::kParams), counting(), CodecKind::kModulo8);
  std::vector<std::byte> saved = model.save();
  saved.back() = std::byte{'x'};
  EXPECT_FALSE(model.load(saved)) << "the rule's part";
  EXPECT_FALSE(model.load_rule(saved));
  saved.resize(6);
  EXPECT_FALSE(model.load(saved)) << "cut off inside the head";
  saved = model.save();
  saved[4] = std::byte{0xff};
  EXPECT_FALSE(model.load(saved)) << "a size beyond the end";
}

}  // namespace
}  // namespace starling
