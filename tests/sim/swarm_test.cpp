// Seeded swarms of whole agents: loss, delay, doubling, reordering, speeds that differ by 8, kills, joins, partitions.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "tests/sim/quadratic_swarm.h"
#include "tests/support/seeds.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

SwarmConfig quadratic_swarm() {
  SwarmConfig swarm = quadratic_settings(512, 0.02f, 0.5f);
  swarm.exchange.carry_momentum = true;
  swarm.exchange.block = 128;
  swarm.exchange.deadline_max = milliseconds(150);
  return swarm;
}

SwarmConfig rough_swarm() {
  SwarmConfig swarm = quadratic_swarm();
  swarm.exchange.overlap = Overlap::kOn;  // a lost message then costs the exchange, not the steps
  return swarm;
}

LinkOptions rough_links(double loss) {
  LinkOptions links;
  links.loss = loss;
  links.duplicate = 0.02;
  links.delay_min = milliseconds(1);
  links.delay_max = milliseconds(20);
  return links;
}

double rms(const std::vector<double>& v) {
  double squares = 0;
  for (double x : v) squares += x * x;
  return std::sqrt(squares / static_cast<double>(v.size()));
}

double rms_difference(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> d(a.size());
  for (size_t i = 0; i < a.size(); ++i) d[i] = a[i] - b[i];
  return rms(d);
}

// 16 agents of speeds 1..8 under loss, with two kills and two joins, for `duration` of virtual time.
void rough_life(QuadraticSwarm& swarm, Duration duration) {
  for (size_t a = 0; a < 16; ++a) {
    SimAgentOptions options;
    options.step_time = milliseconds(5 + 5 * (a % 8));
    swarm.add(options);
  }
  swarm.run_for(duration / 4);
  swarm.kill(3);
  swarm.kill(10);
  swarm.run_for(duration / 4);
  SimAgentOptions late;
  late.adopt_settings = true;
  late.bootstrap = {5};
  swarm.add(late);
  late.bootstrap = {3, 12};  // one of them is dead
  swarm.add(late);
  swarm.run_for(duration / 2);
}

TEST(SimSwarm, RoughLifeLearnsAndReplaysToTheByte) {
  spdlog::set_level(spdlog::level::off);
  const uint64_t rng_seed = 20240611;
  std::printf("rng seed %llu\n", static_cast<unsigned long long>(rng_seed));
  uint64_t digests[2];
  for (uint64_t& digest : digests) {
    QuadraticSwarm swarm(rng_seed, rough_swarm(), rough_links(0.10));
    rough_life(swarm, seconds(40));
    digest = swarm.digest();
    for (size_t a = 0; a < swarm.count(); ++a) {
      if (a == 3 || a == 10) continue;
      ASSERT_TRUE(swarm.living(a)) << "agent " << a;
      ASSERT_NE(swarm.agent(a).rounds(), nullptr) << "agent " << a << " never began to train";
      EXPECT_GT(swarm.agent(a).rounds()->tally().done, 15u) << "agent " << a;
    }
    const std::vector<double> optimum = swarm.mean_target();
    const double spread = rms(optimum), off = rms_difference(swarm.mean_params(), optimum);
    std::printf("mean of the agents is %.3f of the optimum's rms away from it, the worst agent %.3f\n", off / spread,
                swarm.worst_distance_to(optimum) / spread);
    EXPECT_LT(off, 0.5 * spread);
  }
  EXPECT_EQ(digests[0], digests[1]) << "two runs of one seed parted";
  QuadraticSwarm other(rng_seed + 1, rough_swarm(), rough_links(0.10));
  rough_life(other, seconds(4));
  EXPECT_NE(other.digest(), digests[0]) << "the digest does not see the seed";
}

TEST(SimSwarm, LossyExchangesConserveMassTimesParamsAndMomentum) {
  spdlog::set_level(spdlog::level::off);
  for (const auto& [codec, name, note] : codec_names()) {
    SCOPED_TRACE(name);
    SwarmConfig config = quadratic_swarm();
    config.optimizer.learning_rate = 0;  // only exchanges move anything
    config.weight = "equal";
    config.stop_after = 1200;
    config.exchange.codec = codec;
    QuadraticSwarm swarm(77 + static_cast<uint64_t>(codec), config, rough_links(0));
    swarm.start_at_random();
    for (size_t a = 0; a < 8; ++a) {
      SimAgentOptions options;
      options.step_time = milliseconds(5 + 5 * (a % 8));
      swarm.add(options);
    }
    ASSERT_TRUE(swarm.run_until(
        [&] {
          for (size_t a = 0; a < swarm.count(); ++a) {
            if (!swarm.agent(a).rounds()) return false;
          }
          return true;
        },
        seconds(20)));
    const std::vector<double>& params = swarm.initial_sum(false);
    const std::vector<double>& momentum = swarm.initial_sum(true);
    constexpr double apart_before = 0.577;  // rms of the uniform random starts
    swarm.network().set_default_links(rough_links(0.30));
    swarm.run_for(seconds(25));
    swarm.network().set_default_links(rough_links(0));  // what is in doubt can be decided before the end
    ASSERT_TRUE(swarm.run_until(
        [&] {
          for (size_t a = 0; a < swarm.count(); ++a) {
            if (!swarm.agent(a).finished()) return false;
          }
          return true;
        },
        seconds(120)));
    uint64_t rounds = 0;
    for (size_t a = 0; a < swarm.count(); ++a) rounds += swarm.agent(a).rounds()->tally().done;
    const double bound = 1e-8 * std::sqrt(static_cast<double>(rounds));
    const double off_params = rms_difference(swarm.sum_mass_params(false), params) / 8 / apart_before;
    const double off_momentum = rms_difference(swarm.sum_mass_params(true), momentum) / 8 / apart_before;
    const double apart_after = swarm.worst_distance_to(swarm.mean_params());
    std::printf(
        "%s: %llu exchanges at 30 %% loss; drift of params %.2g, of momentum %.2g (bound %.2g); apart %.3g -> "
        "%.3g\n",
        std::string(codec_name(codec)).c_str(), static_cast<unsigned long long>(rounds), off_params, off_momentum,
        bound, apart_before, apart_after);
    EXPECT_GT(rounds, 500u);
    EXPECT_LT(off_params, bound);
    EXPECT_LT(off_momentum, bound);
    EXPECT_LT(apart_after, 0.05 * apart_before);
  }
}

// Either half of an exchange may be on the wrong side of a cut when it begins: however long the cut lasts, and though
// each side takes the other for dead, both halves are applied or neither.
TEST(SimSwarm, CutsOfAnyLengthConserveMassTimesParams) {
  spdlog::set_level(spdlog::level::off);
  for (const int cut_s : {10, 60}) {
    for (uint64_t rng_seed = 1; rng_seed <= seed_count(3); ++rng_seed) {
      SwarmConfig config = quadratic_swarm();
      config.optimizer.learning_rate = 0;  // only exchanges move anything
      config.weight = "equal";
      config.exchange.codec = CodecKind::kFp32;
      config.local_steps = 1;
      config.exchange.clip = 0;  // models are thrown apart below, and what is clipped is not conserved
      config.exchange.deadline_max = milliseconds(500);
      LinkOptions links;  // so far that at any moment votes are on their way
      links.delay_min = milliseconds(40);
      links.delay_max = milliseconds(60);
      QuadraticSwarm swarm(rng_seed, config, links);
      swarm.start_at_random();
      constexpr size_t kAgents = 10;
      for (size_t a = 0; a < kAgents; ++a) swarm.add({.step_time = milliseconds(20)});
      swarm.run_for(seconds(3));
      for (size_t a = 0; a < kAgents; ++a) ASSERT_TRUE(swarm.training(a));
      std::vector<double> expected = swarm.initial_sum(false);
      Rng rng(rng_seed);
      for (int i = 0; i < 10; ++i) {  // so that each exchange moves something
        for (size_t a = 0; a < kAgents; ++a) {
          const View params = swarm.params(a);
          for (size_t k = 0; k < params.count; ++k) {
            const auto moved = static_cast<float>(rng.uniform() * 2 - 1);
            expected[k] += static_cast<double>(params.data[k] + moved) - static_cast<double>(params.data[k]);
            params.data[k] += moved;
          }
        }
        swarm.run_for(milliseconds(100));
      }
      for (size_t a = 0; a < kAgents / 2; ++a) {
        for (size_t b = kAgents / 2; b < kAgents; ++b) swarm.network().cut(swarm.endpoint(a), swarm.endpoint(b));
      }
      swarm.run_for(seconds(cut_s));
      EXPECT_LT(swarm.agent(0).router().membership().alive().size(), kAgents - 1) << "the cut was not noticed";
      swarm.network().heal_all();
      swarm.run_for(seconds(60));                                   // the longest pause between two repeats, twice
      for (size_t a = 0; a < kAgents; ++a) swarm.agent(a).leave();  // applies what was decided
      ASSERT_TRUE(swarm.run_until([&] { return swarm.ended(); }, seconds(10)));
      const double off = rms_difference(swarm.sum_mass_params(false), expected) / rms(expected);
      EXPECT_LT(off, 2e-6) << "cut of " << cut_s << " s, seed " << rng_seed;
    }
  }
}

TEST(SimSwarm, SettlesAfterStopAndFinishes) {
  spdlog::set_level(spdlog::level::off);
  SwarmConfig config = quadratic_swarm();
  config.stop_after = 300;
  QuadraticSwarm swarm(5, config, rough_links(0.02));
  for (size_t a = 0; a < 6; ++a) {
    SimAgentOptions options;
    options.step_time = milliseconds(8 + a);
    swarm.add(options);
  }
  ASSERT_TRUE(swarm.run_until(
      [&] {
        for (size_t a = 0; a < swarm.count(); ++a) {
          if (!swarm.agent(a).finished()) return false;
        }
        return true;
      },
      seconds(60)));
  const double params = rms(swarm.mean_params());
  EXPECT_LT(swarm.worst_distance_to(swarm.mean_params()), config.final_distance * params);
  for (size_t a = 0; a < swarm.count(); ++a) EXPECT_EQ(swarm.agent(a).rounds()->phase(), Phase::kFinished);
}

// The steps of an agent that still trains move the mean, so whoever has settled by then would keep an older one.
TEST(SimSwarm, NobodyFinishesWhileOneStillTrains) {
  spdlog::set_level(spdlog::level::off);
  SwarmConfig config = quadratic_swarm();
  config.stop_after = 300;
  QuadraticSwarm swarm(6, config, rough_links(0));
  for (size_t a = 0; a < 6; ++a) {
    SimAgentOptions options;
    options.step_time = a == 5 ? seconds(2) : milliseconds(10);  // the others stand still for most of its step
    swarm.add(options);
  }
  size_t training = 0;
  const auto one_has_finished = [&] {
    training = 0;
    bool finished = false;
    for (size_t a = 0; a < swarm.count(); ++a) {
      const Rounds* rounds = swarm.agent(a).rounds();
      if (rounds == nullptr) continue;
      training += rounds->phase() == Phase::kTraining;
      finished = finished || rounds->phase() == Phase::kFinished;
    }
    return finished;
  };
  ASSERT_TRUE(swarm.run_until(one_has_finished, seconds(60)));
  EXPECT_EQ(training, 0u);
}

TEST(SimSwarm, PartitionHealsIntoOneSwarm) {
  spdlog::set_level(spdlog::level::off);
  QuadraticSwarm swarm(9, quadratic_swarm(), rough_links(0.01));
  for (size_t a = 0; a < 8; ++a) swarm.add({});
  swarm.run_for(seconds(10));
  for (size_t a = 0; a < 4; ++a) {
    for (size_t b = 4; b < 8; ++b) swarm.network().cut(swarm.endpoint(a), swarm.endpoint(b));
  }
  swarm.run_for(seconds(30));
  EXPECT_EQ(swarm.agent(0).router().membership().alive().size(), 3u) << "the cut was not noticed";
  swarm.network().heal_all();
  EXPECT_TRUE(swarm.run_until(
      [&] {
        for (size_t a = 0; a < swarm.count(); ++a) {
          if (swarm.agent(a).router().membership().alive().size() != 7) return false;
        }
        return true;
      },
      seconds(60)));
  swarm.run_for(seconds(10));
  EXPECT_LT(swarm.worst_distance_to(swarm.mean_params()), 0.5 * rms(swarm.mean_params()));
}

TEST(SimSwarm, RestartKeepsItsPlaceAndTheOthersGoOn) {
  spdlog::set_level(spdlog::level::off);
  QuadraticSwarm swarm(11, quadratic_swarm(), rough_links(0.05));
  for (size_t a = 0; a < 5; ++a) swarm.add({});
  swarm.run_for(seconds(10));
  const uint64_t before = swarm.agent(2).rounds()->progress().steps;
  swarm.restart(2);
  ASSERT_TRUE(swarm.run_until([&] { return swarm.agent(2).rounds() != nullptr; }, seconds(20)));
  EXPECT_GE(swarm.agent(2).rounds()->progress().steps + 400, before) << "more than a checkpoint interval was lost";
  EXPECT_GT(swarm.agent(2).rounds()->progress().steps, 0u);
  swarm.run_for(seconds(10));
  for (size_t a = 0; a < swarm.count(); ++a) {  // agent 2 counts from its restart, half the time
    const ExchangeCounts& tally = swarm.agent(a).rounds()->tally();
    EXPECT_GT(tally.done, a == 2 ? 50u : 100u) << tally.done << ' ' << tally.late << ' ' << tally.failed;
  }
}

// A power cut: all of them come back at once, and each knows the first one's address alone.
TEST(SimSwarm, AllThatRestartAtOnceKnowEachOtherInSeconds) {
  spdlog::set_level(spdlog::level::off);
  SwarmConfig config = quadratic_settings(16, 0.01f, 0);
  config.local_steps = 10;
  constexpr size_t kAgents = 256;
  QuadraticSwarm swarm(17, config, near_links(0));
  for (size_t a = 0; a < kAgents; ++a) swarm.add({.step_time = milliseconds(100)});
  const auto all = [&](const std::function<bool(size_t)>& holds) {
    for (size_t a = 0; a < kAgents; ++a) {
      if (!holds(a)) return false;
    }
    return true;
  };
  ASSERT_TRUE(swarm.run_until([&] { return all([&](size_t a) { return swarm.training(a); }); }, seconds(60)));
  for (size_t a = 0; a < kAgents; ++a) swarm.kill(a);
  for (size_t a = 0; a < kAgents; ++a) swarm.restart(a);
  const TimePoint restarted = swarm.clock().now();
  const auto knows_all = [&](size_t a) {
    const Membership& membership = swarm.agent(a).router().membership();
    return membership.alive_count() == kAgents - 1;
  };
  ASSERT_TRUE(swarm.run_until([&] { return all(knows_all); }, seconds(60)));
  const double known_s = starling::seconds(swarm.clock().now() - restarted);
  std::printf("%zu restarted at once: each knows all after %.1f s\n", kAgents, known_s);
  EXPECT_LE(known_s, 3) << "8 is promised; where a frame of gossip carried one record alone, it took 4.2";
}

// Members that save at the start and the end alone have the genesis to give, or what was saved when they began. A
// newcomer gets a model of now all the same, and takes small steps first.
TEST(SimSwarm, ANewcomerGetsAModelOfNowFromMembersThatSaveNone) {
  spdlog::set_level(spdlog::level::off);
  SwarmConfig config = quadratic_swarm();
  config.local_steps = 10;
  const Duration step_time = milliseconds(10);
  QuadraticSwarm swarm(23, config, near_links(0));
  for (size_t a = 0; a < 2; ++a) swarm.add({.step_time = step_time, .checkpoint_every = Duration::zero()});
  const auto steps = [&](size_t a) { return swarm.training(a) ? swarm.agent(a).rounds()->progress().steps : 0; };
  ASSERT_TRUE(swarm.run_until([&] { return steps(0) > 1500 && steps(1) > 1500; }, seconds(60)));
  uint64_t given = 0, of_members = 0;
  std::vector<double> first;
  swarm.set_on_begin([&](size_t) {
    given = swarm.agent(2).rounds()->progress().steps;
    of_members = std::max(steps(0), steps(1));
    const View x = swarm.params(2);
    first.assign(x.data, x.data + x.count);
  });
  const TimePoint came = swarm.clock().now();
  swarm.add({.step_time = step_time, .adopt_settings = true, .checkpoint_every = Duration::zero()});
  ASSERT_TRUE(swarm.run_until([&] { return swarm.training(2); }, seconds(60)));
  std::printf("it began after %.1f s, with a model of step %llu; the members were at %llu\n",
              starling::seconds(swarm.clock().now() - came), static_cast<unsigned long long>(given),
              static_cast<unsigned long long>(of_members));
  EXPECT_GE(given + std::max<uint64_t>(100, of_members / 10), of_members);
  swarm.run_for(5 * step_time);  // in the middle of its first ten, which moved it at once
  const auto target = swarm.quadratic(2).target();
  const double full = 10 * 0.02 * rms_difference(first, {target.begin(), target.end()});
  const double moved = swarm.distance_to(2, first);
  EXPECT_GT(moved, 0);
  EXPECT_LT(moved, 0.5 * full) << "at the whole rate it is 1.8, by the momentum";
}

TEST(SimSwarm, NewcomerWithoutSettingsOrMembersWaits) {
  spdlog::set_level(spdlog::level::off);
  QuadraticSwarm swarm(13, quadratic_swarm(), rough_links(0));
  swarm.add({});
  swarm.run_for(seconds(5));
  swarm.kill(0);
  SimAgentOptions newcomer;
  newcomer.adopt_settings = true;
  newcomer.bootstrap = {0};
  swarm.add(newcomer);
  swarm.run_for(seconds(30));
  EXPECT_TRUE(swarm.living(1));
  EXPECT_EQ(swarm.agent(1).rounds(), nullptr) << "it trained a model of its own making";
  swarm.restart(0);
  EXPECT_TRUE(swarm.run_until([&] { return swarm.agent(1).rounds() != nullptr; }, seconds(30)));
}

TEST(SimSwarm, AgentsWarnAsTheyDoInAProcess) {
  spdlog::set_level(spdlog::level::off);
  QuadraticSwarm swarm(19, quadratic_swarm(), rough_links(0));
  std::vector<std::string> warnings;
  swarm.set_on_warning(
      [&](size_t agent, const std::string& text) { warnings.push_back(std::to_string(agent) + ": " + text); });
  swarm.add({});
  swarm.add({});
  swarm.run_for(seconds(2));
  EXPECT_TRUE(warnings.empty());
  const auto stranger = swarm.network().open({"10.9.9.9", 7400});
  Frame nonsense{std::vector<std::byte>(100), {}};
  EXPECT_EQ(stranger->send(swarm.endpoint(1), Channel::kControl, std::move(nonsense)), SendStatus::kQueued);
  swarm.run_for(seconds(2));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].rfind("1: 1 frame was refused", 0), 0u) << warnings[0];
}

TEST(SimSwarm, ANewcomerProbesAtThePaceOfTheSwarm) {
  spdlog::set_level(spdlog::level::off);
  SwarmConfig config = quadratic_swarm();
  config.membership.probe_interval = milliseconds(100);
  config.membership.probe_timeout = milliseconds(50);
  QuadraticSwarm swarm(17, config, rough_links(0));
  swarm.add({});
  swarm.run_for(seconds(2));
  SimAgentOptions newcomer;
  newcomer.adopt_settings = true;
  newcomer.bootstrap = {0};
  swarm.add(newcomer);
  swarm.run_for(seconds(10));
  EXPECT_GT(swarm.agent(1).router().membership().counters().probes, 80u);
}

}  // namespace
}  // namespace starling
