// Whole agents in a group or on a ring, and one whose models are lies, whatever it trains.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <string>

#include "tests/sim/ending_swarm.h"
#include "tests/sim/exchange_cases.h"
#include "tests/support/seeds.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kAgents = 8, kLiar = kAgents - 1;

struct Lie {
  const char* name;
  std::function<float(float)> of;  // a value
  bool as_owner = false;           // of a group's averages alone
};

std::vector<Lie> lies() {
  return {{"a million", [](float) { return 1e6f; }},
          {"a thousand", [](float) { return 1e3f; }},
          {"not a number", [](float) { return std::numeric_limits<float>::quiet_NaN(); }},
          {"-10 times its own", [](float x) { return -10 * x; }},
          {"a thousand as owner", [](float) { return 1e3f; }, true}};
}

SwarmConfig config_for(ExchangeKind kind, bool timed = false) {
  SwarmConfig config = config_of({"", kind, TopologyKind::kRing});
  config.model.dimension = 2048;
  config.exchange.block = 256;
  config.model.noise = 0.5;
  config.local_steps = 2;
  if (timed) {
    config.round = milliseconds(100);
    config.weight = "uniform";
  }
  return config;
}

void change(PassingFrame& frame, const Lie& lie) {
  const RoundBlock* block = message_as<RoundBlock>(frame.message);
  if (block == nullptr && !message_is<BlockPayload>(frame.message)) return;
  if (lie.as_owner && (block == nullptr || block->phase == 0)) return;
  std::vector<float> values(frame.payload.size / sizeof(float));
  std::memcpy(values.data(), frame.payload.data, frame.payload.size);
  for (float& value : values) value = lie.of(value);
  frame.payload = SharedBytes::copy_of(std::as_bytes(std::span(values)));
}

bool all_train(QuadraticSwarm& swarm) {
  for (size_t a = 0; a < swarm.count(); ++a) {
    if (!swarm.training(a)) return false;
  }
  return true;
}

uint64_t far_blocks(QuadraticSwarm& swarm) {
  uint64_t far = 0;
  for (size_t a = 0; a < std::min(swarm.count(), kLiar); ++a) {
    far += swarm.agent(a).exchange()->status().block_tally.refused;
  }
  return far;
}

// Mean square distance of the worst of the first seven from their seven targets.
double loss_now(QuadraticSwarm& swarm) {
  std::vector<std::span<const float>> targets;
  for (size_t a = 0; a < kLiar; ++a) targets.push_back(swarm.quadratic(a).target());
  double worst = 0;
  for (size_t a = 0; a < kLiar; ++a) {
    const View x = swarm.params(a);
    double squares = 0;
    for (const auto& target : targets) {
      for (size_t i = 0; i < x.count; ++i) squares += std::pow(double{x.data[i]} - double{target[i]}, 2);
    }
    worst = std::max(worst, squares / static_cast<double>(targets.size() * x.count));
  }
  return worst;
}

// On average over 10 s.
double loss_of_seven(QuadraticSwarm& swarm) {
  double sum = 0;
  constexpr int kLooks = 20;
  for (int look = 0; look < kLooks; ++look) {
    swarm.run_for(milliseconds(500));
    sum += loss_now(swarm);
  }
  return sum / kLooks;
}

class OneLiar : public testing::TestWithParam<ExchangeKind> {};

TEST_P(OneLiar, CostsTheOthersLittle) {
  spdlog::set_level(spdlog::level::off);
  const bool group = GetParam() == ExchangeKind::kGroup;
  std::string named;  // by agent 0, as the last one that it left out
  const auto run = [&](size_t agents, const Lie* lie, uint64_t* far) {
    QuadraticSwarm swarm(first_seed(), config_for(GetParam()), near_links(0));
    for (size_t a = 0; a < agents; ++a) swarm.add({});
    EXPECT_TRUE(swarm.run_until([&] { return all_train(swarm); }, seconds(20)));
    swarm.run_for(seconds(2));
    if (lie != nullptr) {
      swarm.network().set_filter([&](PassingFrame& frame) {
        if (frame.from == swarm.endpoint(kLiar)) change(frame, *lie);
      });
    }
    swarm.run_for(seconds(8));
    const double loss = loss_of_seven(swarm);
    *far = far_blocks(swarm);
    named = swarm.agent(0).rounds()->left_out_last();
    return loss;
  };
  uint64_t far = 0;
  const Lie silence = lies()[2];  // on a ring, the seven are a line
  const double without = group ? run(kLiar, nullptr, &far) : run(kAgents, &silence, &far);
  EXPECT_TRUE(!group || far == 0) << far << " blocks of honest members";
  for (const Lie& lie : lies()) {
    if (lie.as_owner && !group) continue;
    const double loss = run(kAgents, &lie, &far);
    std::printf("%-20s loss x %.3f, left out %llu\n", lie.name, loss / without, static_cast<unsigned long long>(far));
    EXPECT_LE(loss, 1.05 * without) << lie.name;
    if (group && std::string(lie.name) != "not a number") {  // that is refused before it has a distance
      EXPECT_EQ(named, "agent-7") << lie.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, OneLiar, testing::Values(ExchangeKind::kGroup, ExchangeKind::kNeighborhood),
                         [](const auto& info) { return info.param == ExchangeKind::kGroup ? "group" : "ring"; });

class LiarWhileSettling : public testing::TestWithParam<ExchangeKind> {};

// They settle in pairs, in which half of what a partner brings would count.
TEST_P(LiarWhileSettling, MovesNobody) {
  spdlog::set_level(spdlog::level::off);
  SwarmConfig config = config_for(GetParam());
  config.stop_after = 400;
  for (const Lie& lie : lies()) {
    if (lie.as_owner) continue;  // pairs have none
    QuadraticSwarm swarm(first_seed(), config, near_links(0));
    for (size_t a = 0; a < kAgents; ++a) swarm.add({});
    ASSERT_TRUE(swarm.run_until([&] { return swarm.all_settle(); }, seconds(60)));
    const double before = loss_now(swarm);
    swarm.network().set_filter([&](PassingFrame& frame) {
      if (frame.from == swarm.endpoint(kLiar)) change(frame, lie);
    });
    ASSERT_TRUE(swarm.run_until([&] { return swarm.ended(); }, seconds(60)));
    std::printf("%-20s loss x %.3f, %.2g apart\n", lie.name, loss_now(swarm) / before, farthest_pair(swarm));
    EXPECT_LE(loss_now(swarm), before) << lie.name << ": nearer to the mean, since all but one agree";
    // Its frames alone are changed. Left out, it takes the model of most, which is what its record then tells.
    const bool all_agree = farthest_pair(swarm) <= may_be_apart(config);
    for (size_t a = 0; a < kLiar; ++a) EXPECT_EQ(swarm.agent(a).rounds()->settled(), all_agree) << lie.name;
    if (std::string(lie.name) == "not a number") continue;  // that is refused before it has a distance
    EXPECT_EQ(swarm.agent(0).rounds()->left_out_last(), "agent-7") << lie.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, LiarWhileSettling, testing::Values(ExchangeKind::kGroup, ExchangeKind::kNeighborhood),
                         [](const auto& info) { return info.param == ExchangeKind::kGroup ? "group" : "ring"; });

// Nor do links that lose or a fast member in rounds of a duration make anybody look far away.
TEST(HonestAgents, LeaveNobodyOut) {
  spdlog::set_level(spdlog::level::off);
  for (const bool timed : {false, true}) {
    for (const double loss : {0.0, 0.02}) {
      QuadraticSwarm swarm(first_seed(), config_for(ExchangeKind::kGroup, timed), near_links(loss));
      for (size_t a = 0; a < kAgents; ++a) swarm.add({.step_time = milliseconds(timed && a == 0 ? 2 : 15)});
      swarm.run_for(seconds(15));
      ASSERT_TRUE(all_train(swarm));
      uint64_t due = 0;
      for (size_t a = 0; a < kAgents; ++a) due += swarm.agent(a).exchange()->status().block_tally.due;
      const uint64_t far = far_blocks(swarm);
      std::printf("timed %d, loss %.2f: %llu of %llu blocks\n", timed, loss, static_cast<unsigned long long>(far),
                  static_cast<unsigned long long>(due));
      EXPECT_LE(static_cast<double>(far), (timed || loss > 0 ? 1e-3 : 0) * static_cast<double>(due));
    }
  }
}

}  // namespace
}  // namespace starling
