// What lies cost a swarm of eight that learns by updates in a group: the simulator's quadratics, whose loss is known.
#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "agent/train/quadratic_trainer.h"
#include "tests/gossip/updates/update_harness.h"

namespace starling {
namespace {

using exchange_test::test_peer;
using exchange_test::UpdateAgent;
using exchange_test::UpdateAgentOptions;
using exchange_test::UpdateSwarm;
using std::chrono::milliseconds;

constexpr size_t kAgents = 8, kElements = 200;
constexpr uint8_t kLiar = 8;

using Lie = std::function<void(std::span<float>)>;

// fp32, but what the liar writes in one role is something else. Its bytes match their hash: only the norm tells.
class LyingUpdates final : public exchange_test::UpdateCodecAround {
 public:
  LyingUpdates(UpdateRole role, Lie lie) : role_(role), lie_(std::move(lie)) {}
  std::optional<size_t> encode_chosen(UpdateRole role, std::span<const float> x, const UpdateSeeds& seeds,
                                      const UpdateSupport&, MutableBytes out) const override {
    if (role != role_) return inner().encode(role, x, seeds, out);
    std::vector<float> values(x.begin(), x.end());
    lie_(values);
    const auto bytes = std::as_bytes(std::span(values));  // NaN too, which an honest encoder refuses
    std::copy(bytes.begin(), bytes.end(), out.begin());
    return bytes.size();
  }

 private:
  const UpdateRole role_;
  const Lie lie_;
};

struct Outcome {
  double loss = 0;       // mean over the honest agents' data and over the second half of the rounds
  uint64_t refused = 0;  // entries and payloads
};

// Every agent takes one noisy step a round on its own quadratic, for some 400 rounds, from the first of which the liar
// lies. `codec_of`: of the agent with this tag; null: an honest one.
Outcome train(const std::function<const UpdateCodec*(uint8_t tag)>& codec_of) {
  const std::unique_ptr<UpdateCodec> exact = make_update_codec({});
  UpdateAgentOptions options;
  options.slices = 1;
  options.elements = kElements;
  options.codec = exact.get();
  UpdateSwarm swarm(options);
  std::vector<std::unique_ptr<QuadraticTrainer>> trainers;
  Outcome run;
  uint64_t losses = 0;
  for (uint8_t tag = 1; tag <= kAgents; ++tag) {
    const UpdateCodec* codec = codec_of(tag);
    UpdateAgentOptions own = options;
    own.codec = codec != nullptr ? codec : exact.get();
    const QuadraticOptions quadratic{.dimension = kElements, .gradient_noise = 1};
    trainers.push_back(std::make_unique<QuadraticTrainer>(quadratic, 1, 10 + tag, swarm.clock));
    UpdateAgent& agent = swarm.add(tag, 1, own);
    QuadraticTrainer& trainer = *trainers.back();
    agent.local_steps = [&trainer, &agent, &run, &losses, tag](std::span<float> x) {
      const View params = trainer.sections().front().view;
      std::copy(x.begin(), x.end(), params.data);
      if (agent.boundaries > 200 && tag != kLiar) {
        run.loss += trainer.loss();
        ++losses;
      }
      trainer.start_steps({1, 0.05});
      (void)trainer.take_steps();
      std::copy_n(params.data, params.count, x.begin());
    };
  }
  swarm.network.frames_may_be_bad = true;  // numbers that follow from a NaN
  swarm.share_views();
  swarm.run_for(milliseconds(400 * 50));
  for (auto& [id, agent] : swarm.agents) {
    EXPECT_GT(agent->boundaries, 300u);
    if (id == test_peer(kLiar)) continue;
    run.refused += agent->exchange().tally().refused.entries + agent->exchange().tally().refused.payloads;
  }
  run.loss /= static_cast<double>(losses);
  return run;
}

Lie times(float factor) {
  return [factor](std::span<float> values) {
    for (float& value : values) value *= factor;
  };
}

// Ten times as much as there is, in a direction of its own.
Lie noise() {
  return [rng = std::make_shared<Rng>(7)](std::span<float> values) {
    double squares = 0;
    for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
    const double size = 10 * std::sqrt(3 * squares / static_cast<double>(values.size()));
    for (float& value : values) value = static_cast<float>(size * (2 * rng->uniform() - 1));
  };
}

Lie not_a_number() {
  return [](std::span<float> values) { values[3] = std::numeric_limits<float>::quiet_NaN(); };
}

// What is as large as usual passes: a member that hands in the opposite of what it learned costs 38 %.
TEST(UpdateLiars, OneOfEightCostsAtMostFivePercentOfTheLoss) {
  const Outcome honest = train([](uint8_t) { return nullptr; });
  EXPECT_EQ(honest.refused, 0u);
  const std::vector<std::pair<const char*, Lie>> lies = {
      {"1e6 times", times(1e6f)}, {"1e3 times", times(1e3f)}, {"noise", noise()}, {"NaN", not_a_number()}};
  for (const UpdateRole role : {UpdateRole::kEntry, UpdateRole::kContribution}) {
    for (const auto& [name, lie] : lies) {
      SCOPED_TRACE(std::string(name) + (role == UpdateRole::kEntry ? ", as owner" : ", as member"));
      const LyingUpdates lying(role, lie);
      const Outcome run = train([&](uint8_t tag) { return tag == kLiar ? &lying : nullptr; });
      EXPECT_LT(run.loss, 1.05 * honest.loss);
      EXPECT_EQ(run.refused > 0, std::string(name) == "NaN");
    }
  }
}

// The limits follow an honest change: who learns a thousand times faster from one round on (a new learning rate) counts
// in full ten rounds later, and nothing of the rounds between is lost.
TEST(UpdateLiars, AnHonestJumpByAThousandIsAtFullSizeWithinTenRounds) {
  constexpr uint64_t kJump = 40;  // rounds
  const std::unique_ptr<UpdateCodec> exact = make_update_codec({});
  UpdateAgentOptions options;
  options.slices = 1;
  options.elements = kElements;
  options.codec = exact.get();
  UpdateSwarm swarm(options);
  std::vector<double> replica_at;  // by boundary of the first agent: one element of R
  for (uint8_t tag = 1; tag <= kAgents; ++tag) {
    UpdateAgent& agent = swarm.add(tag);
    agent.local_steps = [&agent, &replica_at, tag](std::span<float> x) {
      if (tag == 1) replica_at.push_back(static_cast<double>(x[0]));
      for (float& value : x) value += agent.boundaries < kJump ? 0x1p-10f : 1.0f;
    };
  }
  swarm.share_views();
  swarm.run_for(milliseconds(80 * 50));
  ASSERT_GT(replica_at.size(), kJump + 22);
  const auto moved = [&](uint64_t from, uint64_t to) { return replica_at[to] - replica_at[from]; };
  EXPECT_LT(moved(kJump, kJump + 4), 2) << "no jump that the limits noticed";
  for (uint64_t round = kJump + 11; round < kJump + 20; ++round) EXPECT_GE(moved(round, round + 1), 1) << round - kJump;
  EXPECT_GE(moved(kJump, kJump + 20), 18);
}

}  // namespace
}  // namespace starling
