// Time limits that follow the bytes: a payload of seconds is exchanged whole with the defaults, and what no longer
// comes costs little of the longest deadline.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/sim/quadratic_swarm.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr double kTenMegabits = 1.25e6;  // bytes a second

class Deadlines : public testing::Test {
 protected:
  void SetUp() override { spdlog::set_level(spdlog::level::off); }

  // As a config of init would set it.
  static SwarmConfig loaded(std::vector<std::string> settings) {
    settings.insert(settings.begin(), "swarm.exchange.deadline_max=auto");
    settings.push_back("swarm.model.kind=quadratic");
    settings.push_back("swarm.optimizer.learning_rate=0.02");
    return load_config("", settings).swarm;
  }
  static LinkOptions near() { return {.delay_min = milliseconds(5), .delay_max = milliseconds(6)}; }
};

// 3 MB, 2.4 s of a link of 10 Mb/s and more, as blocks that wait in its queue are asked for again.
TEST_F(Deadlines, APayloadOfSecondsIsExchangedWholeWithTheDefaults) {
  QuadraticSwarm swarm(1, loaded({"swarm.model.dimension=3000000", "swarm.exchange.overlap=off"}), near());
  swarm.network().set_node_rate(kTenMegabits);
  for (size_t a = 0; a < 2; ++a) swarm.add({.step_time = milliseconds(500)});
  swarm.run_for(seconds(150));
  for (size_t a = 0; a < swarm.count(); ++a) {
    const ExchangeCounts& tally = swarm.agent(a).rounds()->tally();
    EXPECT_GE(tally.done, 20u) << "agent " << a;
    EXPECT_GE(10 * tally.done, 9 * (tally.done + tally.late + tally.failed))
        << "agent " << a << ": " << tally.late << " late, " << tally.failed << " failed";
  }
}

TEST_F(Deadlines, ALinkThatFallsInMidPayloadLetsTheStepsGoOn) {
  QuadraticSwarm swarm(1, loaded({"swarm.model.dimension=1000000", "swarm.exchange.overlap=off"}), near());
  swarm.network().set_node_rate(100 * kTenMegabits);
  size_t blocks = 0;
  swarm.network().set_filter([&](PassingFrame& frame) {
    if (message_is<BlockPayload>(frame.message) && ++blocks == 100) swarm.network().set_node_rate(kTenMegabits / 10);
  });
  for (size_t a = 0; a < 2; ++a) swarm.add({.step_time = milliseconds(500)});
  ASSERT_TRUE(swarm.run_until([&] { return blocks >= 100; }, seconds(60)));
  const auto steps = [&] { return swarm.agent(0).rounds()->progress().steps; };
  const uint64_t at_the_fall = steps();
  swarm.run_for(seconds(120));
  EXPECT_GE(steps() - at_the_fall, 24u);
}

// Before anything is measured, the longest deadline would be waited for.
TEST_F(Deadlines, APeerThatDiesInTheFirstPayloadIsGivenUpOnceItIsKnownDead) {
  for (const char* kind : {"pairwise", "neighborhood", "group", "updates"}) {
    const bool updates = kind == std::string("updates");
    std::vector<std::string> settings = {"swarm.model.dimension=1000000", "swarm.exchange.overlap=off",
                                         "swarm.exchange.deadline_max=300s",
                                         "swarm.exchange.kind=" + std::string(updates ? "group" : kind)};
    if (updates) settings.push_back("swarm.exchange.source=updates");
    if (!updates && kind != std::string("pairwise")) settings.push_back("swarm.exchange.codec=bf16");
    QuadraticSwarm swarm(1, loaded(settings), near());
    swarm.network().set_node_rate(kTenMegabits);
    size_t blocks = 0;
    swarm.network().set_filter([&](PassingFrame& frame) {
      const auto* exchange = std::get_if<ExchangeMessage>(&frame.message);
      blocks += exchange != nullptr && frame.payload.size > 0;
    });
    for (size_t a = 0; a < 2; ++a) swarm.add({.step_time = milliseconds(500)});
    ASSERT_TRUE(swarm.run_until([&] { return blocks >= 4; }, seconds(60))) << kind;
    swarm.kill(1);
    const uint64_t steps = swarm.agent(0).rounds()->progress().steps;
    swarm.run_for(seconds(30));
    EXPECT_GE(swarm.agent(0).rounds()->progress().steps, steps + 20) << kind;
  }
}

}  // namespace
}  // namespace starling
