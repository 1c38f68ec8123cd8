// A swarm that ends while one member gossips ids that it invents, five new ones a second, at an address where nobody
// listens. An invented id signs its own record, so a certified swarm does not prevent it.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

#include "tests/sim/ending_swarm.h"
#include "tests/support/log_text.h"
#include "tests/support/seeds.h"
#include "tools/attack/stranger.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Invented {
  Phase phase;
  bool tells_far_model;
  uint64_t stop_after = 0;
};

struct InventedCase {
  const char* name;
  ExchangeCase exchange;
  size_t agents;
};

class Inventor {
 public:
  Inventor(QuadraticSwarm& swarm, const Invented& invented)
      : swarm_(swarm),
        invented_(invented),
        transport_(swarm.network().open({"10.9.9.9", 7400})),
        stranger_(*transport_, swarm.clock(), 5000, 1) {}

  void tick() {
    stranger_.tick();
    if (stranger_.swarm_id() == 0) return stranger_.join(look_, swarm_.endpoint(0), 0, Phase::kJoining);
    if (swarm_.clock().now() < next_) return;
    next_ = swarm_.clock().now() + milliseconds(200);
    PeerRecord record = stranger_.record(stranger_.new_id(), 100, invented_.phase);
    record.endpoint = {"10.9.9.8", 7400};
    record.meta.stop_after = invented_.stop_after;
    if (invented_.tells_far_model) record.meta.projection.assign(kProjectionBuckets, 1e3f);
    for (size_t a = 0; a < swarm_.count(); ++a) {
      stranger_.send(swarm_.endpoint(a), look_, Gossip{{.alive = {record}}});
    }
    ++told_;
  }
  size_t told() const { return told_; }

 private:
  QuadraticSwarm& swarm_;
  const Invented invented_;
  std::unique_ptr<Transport> transport_;
  Stranger stranger_;
  const PeerId look_ = stranger_.new_id();
  TimePoint next_;
  size_t told_ = 0;
};

class InventedIds : public testing::TestWithParam<InventedCase> {};

// They counted as members that had told nothing, or a far model, or still trained: agents said `settled: 0` when
// settle_max was over, and ended .45 of their rms apart.
TEST_P(InventedIds, KeepNoSwarmFromSettling) {
  SwarmConfig config = ending_soon(GetParam().exchange);
  config.stop_after = 300;
  for (const Invented& invented : {Invented{Phase::kSettling, false},
                                   {Phase::kSettling, true},
                                   {Phase::kTraining, false},
                                   {Phase::kFinished, true}}) {
    for (uint64_t seed = first_seed(); seed < first_seed() + seed_count(3); ++seed) {
      const LogText warned(spdlog::level::warn);
      QuadraticSwarm swarm(seed, config, near_links(0));
      add_agents(swarm, GetParam().agents);
      Inventor inventor(swarm, invented);
      std::optional<TimePoint> settling_since;
      for (const TimePoint end = swarm.clock().now() + seconds(60); swarm.clock().now() < end && !swarm.ended();) {
        swarm.run_for(milliseconds(10));
        inventor.tick();
        if (!settling_since && swarm.all_settle()) settling_since = swarm.clock().now();
      }
      const Duration took = settling_since ? swarm.clock().now() - *settling_since : Duration::zero();
      std::printf("phase %d, %s, seed %lu: %zu of %zu settled, %.5f apart, in %.1f s, beside %zu ids\n",
                  static_cast<int>(invented.phase), invented.tells_far_model ? "far" : "silent", seed,
                  settled_count(swarm), swarm.count(), farthest_pair(swarm), 1e-9 * static_cast<double>(took.count()),
                  inventor.told());
      EXPECT_GT(inventor.told(), 20u);
      for (size_t a = 0; a < swarm.count(); ++a) {
        EXPECT_GT(swarm.agent(a).router().membership().all().size(), 20u) << "agent " << a << " has heard of them";
      }
      EXPECT_EQ(settled_count(swarm), swarm.count()) << "seed " << seed << ": " << warned.text();
      EXPECT_LE(farthest_pair(swarm), may_be_apart(config)) << "seed " << seed;
    }
  }
}

// None of them answers anybody, so none of them is a member that may prolong the run.
TEST_P(InventedIds, ProlongNoRun) {
  spdlog::set_level(spdlog::level::off);
  SwarmConfig config = ending_soon(GetParam().exchange);
  config.stop_after = 600;
  QuadraticSwarm swarm(first_seed(), config, near_links(0));
  add_agents(swarm, GetParam().agents);
  swarm.run_for(kTimeToAnswer + milliseconds(500));
  ASSERT_FALSE(swarm.all_settle());
  Inventor inventor(swarm, {Phase::kTraining, false, 10 * config.stop_after});
  for (const TimePoint end = swarm.clock().now() + seconds(60); swarm.clock().now() < end && !swarm.ended();) {
    swarm.run_for(milliseconds(10));
    inventor.tick();
  }
  EXPECT_TRUE(swarm.ended());
  EXPECT_GT(inventor.told(), 5u);
  for (size_t a = 0; a < swarm.count(); ++a) {
    EXPECT_EQ(swarm.agent(a).meta().stop_after, 0u) << "agent " << a << " is to go on";
    EXPECT_LT(swarm.agent(a).rounds()->progress().steps, 700u) << "agent " << a;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, InventedIds,
    testing::Values(InventedCase{"four_in_pairs", {"", ExchangeKind::kPairwise}, 4},
                    InventedCase{"eight_in_pairs", {"", ExchangeKind::kPairwise}, 8},
                    InventedCase{"pairs_on_a_ring", {"", ExchangeKind::kPairwise, TopologyKind::kRing}, 6},
                    InventedCase{"a_group", {"", ExchangeKind::kGroup}, 4},
                    InventedCase{"a_neighborhood", {"", ExchangeKind::kNeighborhood, TopologyKind::kRing}, 4},
                    InventedCase{"updates", {.name = "", .kind = ExchangeKind::kGroup, .updates = true}, 4}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace starling
