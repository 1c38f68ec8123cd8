// Whole agents and a stranger that speaks their protocol and never finishes what it begins.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "agent/run/swarm_stop.h"
#include "tests/sim/quadratic_swarm.h"
#include "tools/attack/stranger.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kAgents = 4, kElements = 512, kBlock = 128;
constexpr Duration kTurn = milliseconds(10);

double seconds_of(Duration duration) { return std::chrono::duration<double>(duration).count(); }

SwarmConfig swarm_settings(Overlap overlap) {
  SwarmConfig swarm = quadratic_settings(kElements, 0.02f, 0);
  swarm.local_steps = 1;
  swarm.exchange.codec = CodecKind::kFp32;
  swarm.exchange.block = kBlock;
  swarm.exchange.overlap = overlap;
  swarm.exchange.deadline_max = milliseconds(500);
  return swarm;
}

// Four agents that train, and how many exchanges they decide with each other.
class Besieged {
 public:
  Besieged(uint64_t rng_seed, Overlap overlap)
      : swarm(rng_seed, swarm_settings(overlap), {.delay_min = milliseconds(1), .delay_max = milliseconds(4)}),
        transport_(swarm.network().open({"10.9.9.9", 7400})),
        stranger(*transport_, swarm.clock(), 5000, rng_seed) {
    spdlog::set_level(spdlog::level::off);
    for (size_t a = 0; a < kAgents; ++a) swarm.add({.step_time = milliseconds(40)});
    swarm.network().set_filter([this](PassingFrame& frame) {
      const Commit* commit = message_as<Commit>(frame.message);
      if (commit == nullptr || !honest(frame.from) || !honest(frame.to)) return;
      decided_.insert(commit->xid);
      for (const Endpoint& end : {frame.from, frame.to}) note_exchange(end);
    });
    const auto all_train = [this] {
      for (size_t a = 0; a < kAgents; ++a) {
        if (!swarm.training(a)) return false;
      }
      return true;
    };
    EXPECT_TRUE(swarm.run_until(all_train, seconds(20)));
    run_for(seconds(5), [] {});
    while (stranger.swarm_id() == 0) {
      stranger.join(look_, swarm.endpoint(0), 0, Phase::kJoining);
      run_for(milliseconds(100), [] {});
    }
  }

  // Between two exchanges of any of the four, since run_for() began; those that still wait count.
  Duration longest_gap() {
    for (size_t a = 0; a < kAgents; ++a) note_exchange(swarm.endpoint(a));
    return longest_gap_;
  }

  std::vector<PeerId> joined_ids(size_t count) {
    const std::vector<PeerId> ids = stranger.new_ids(count);
    for (size_t a = 0; a < kAgents; ++a) {
      for (const PeerId& id : ids) stranger.join(id, swarm.endpoint(a));
    }
    return ids;
  }

  // Returns the exchanges between agents meanwhile. `act` is called every kTurn.
  template <typename Act>
  size_t run_for(Duration duration, const Act& act) {
    decided_.clear();
    longest_gap_ = {};
    for (size_t a = 0; a < kAgents; ++a) last_exchange_[swarm.endpoint(a)] = swarm.clock().now();
    for (TimePoint end = swarm.clock().now() + duration; swarm.clock().now() < end;) {
      act();
      swarm.run_for(kTurn);
      stranger.tick();
    }
    return decided_.size();
  }

  // Every 300 ms each id proposes to each agent, with blocks that pass. It never decides.
  size_t leave_votes_undecided(Duration duration, const std::vector<PeerId>& ids) {
    const std::vector<float> zeros(kBlock);
    const std::vector<SharedBytes> blocks(kElements / kBlock, SharedBytes::copy_of(std::as_bytes(std::span(zeros))));
    TimePoint next = swarm.clock().now();
    return run_for(duration, [&] {
      if (swarm.clock().now() < next) return;
      next += milliseconds(300);
      for (const auto& [peer, member] : stranger.members()) {
        for (const PeerId& id : ids) stranger.propose(member, id, blocks);
      }
    });
  }

  QuadraticSwarm swarm;

 private:
  void note_exchange(const Endpoint& end) {
    const auto last = last_exchange_.find(end);
    if (last == last_exchange_.end()) return;  // the newcomer
    longest_gap_ = std::max(longest_gap_, swarm.clock().now() - last->second);
    last->second = swarm.clock().now();
  }
  bool honest(const Endpoint& endpoint) const { return endpoint != transport_->local(); }

  std::unique_ptr<Transport> transport_;

 public:
  Stranger stranger;

 private:
  const PeerId look_ = stranger.new_id();
  std::set<ExchangeId> decided_;
  std::map<Endpoint, TimePoint> last_exchange_;  // of the four, by address
  Duration longest_gap_{};
};

// A stranger that answers each cookie, and asks under 10,000 ids a second. None of them trains: those would take turns.
TEST(Joins, AHundredThousandStopNothingAndKeepNobodyOut) {
  constexpr size_t kJoins = 100'000, kATurn = 100;
  Besieged besieged(1, Overlap::kOff);
  size_t joins = 0;
  const auto flood = [&] {
    for (size_t i = 0; i < kATurn && joins < kJoins; ++i, ++joins) {
      besieged.stranger.join(besieged.stranger.new_id(), besieged.swarm.endpoint(joins % kAgents), 0, Phase::kJoining);
    }
  };
  const size_t before = besieged.run_for(seconds(2), [] {});
  const size_t with_it = besieged.run_for(seconds(2), flood);
  besieged.swarm.add({.step_time = milliseconds(40)});
  const TimePoint came = besieged.swarm.clock().now();
  std::optional<Duration> took;
  const size_t beside = besieged.run_for(seconds(8), [&] {
    flood();
    if (!took && besieged.swarm.training(kAgents)) took = besieged.swarm.clock().now() - came;
  });
  EXPECT_EQ(joins, kJoins);
  ASSERT_TRUE(took);
  EXPECT_GE(besieged.stranger.frames_sent(), kJoins);
  std::printf(
      "%zu exchanges in 2 s without it, %zu and %zu in 8 s beside it, the longest gap %.2f s, a newcomer in "
      "after %.2f s\n",
      before, with_it, beside, seconds_of(besieged.longest_gap()), seconds_of(*took));
  EXPECT_LT(besieged.longest_gap(), seconds(1));
  EXPECT_LT(*took, seconds(5));
  EXPECT_GT(static_cast<double>(beside), 0.9 * 4 * static_cast<double>(before));
}

// Four that share updates, and so train in step.
class InStep : public testing::Test {
 protected:
  explicit InStep(uint64_t stop_after = 100'000, Duration step_time = milliseconds(10))
      : swarm(1, settings(stop_after), near_links(0)) {
    spdlog::set_level(spdlog::level::off);
    for (size_t a = 0; a < kAgents; ++a) swarm.add({.step_time = step_time});
    run_for(seconds(5));
    while (stranger.swarm_id() == 0) {
      stranger.join(stranger.new_id(), swarm.endpoint(0), 0, Phase::kJoining);
      run_for(milliseconds(100));
    }
  }

  static SwarmConfig settings(uint64_t stop_after) {
    SwarmConfig config = quadratic_settings(256, 0.05f, 0);
    config.weight = "equal";
    config.exchange.kind = ExchangeKind::kGroup;
    config.exchange.source = SourceKind::kUpdates;
    config.stop_after = stop_after;
    return config;
  }
  void run_for(Duration duration) {
    for (const TimePoint end = swarm.clock().now() + duration; swarm.clock().now() < end;) {
      swarm.run_for(kTurn);
      stranger.tick();
    }
  }
  void tell_all(const PeerRecord& record) {
    for (size_t a = 0; a < kAgents; ++a) stranger.send(swarm.endpoint(a), record.id, Gossip{{.alive = {record}}});
  }
  void expect_all_train() {
    for (size_t a = 0; a < kAgents; ++a) {
      EXPECT_EQ(swarm.agent(a).rounds()->phase(), Phase::kTraining) << "agent " << a;
    }
  }

  QuadraticSwarm swarm;

 private:
  std::unique_ptr<Transport> transport_ = swarm.network().open({"10.9.9.9", 7400});

 protected:
  Stranger stranger{*transport_, swarm.clock(), 5000, 1};
};

// Members in step end as soon as one has ended. None of these says so truly.
TEST_F(InStep, AnInventedIdThatEndedEndsNobody) {
  for (const Phase phase : {Phase::kSettling, Phase::kFinished}) {
    PeerRecord invented = stranger.record(stranger.new_id(), 100'000, phase);
    invented.endpoint = {"10.9.9.8", 7400};  // where nobody listens
    tell_all(invented);
    run_for(seconds(2));
    expect_all_train();
  }
}

TEST_F(InStep, AForgedRecordOfOneThatEndedEndsNobody) {
  PeerRecord forged = stranger.members().at(swarm.id(1));
  forged.version.incarnation += 1000;
  forged.meta.phase = Phase::kSettling;
  tell_all(forged);
  run_for(seconds(2));
  expect_all_train();
}

TEST_F(InStep, OneThatAnswersAndEndsLongBeforeTheOthersEndsNobody) {
  const PeerId liar = stranger.new_id();
  for (size_t a = 0; a < kAgents; ++a) stranger.join(liar, swarm.endpoint(a), 100'000, Phase::kSettling);
  run_for(seconds(2));
  for (size_t a = 0; a < kAgents; ++a) {
    const Member* known = swarm.agent(a).router().membership().find(liar);
    ASSERT_TRUE(known && known->proven) << "agent " << a;
  }
  expect_all_train();
}

class InStepUntilSoon : public InStep {
 protected:
  InStepUntilSoon() : InStep(700) {}
};

// Its own clock would follow the others' by four steps each of its own.
TEST_F(InStepUntilSoon, WhoWasAwayEndsWhenNoOtherTrains) {
  swarm.pause(3, true);
  const auto others_settle = [&] {
    for (size_t a = 0; a < 3; ++a) {
      if (swarm.agent(a).rounds()->phase() != Phase::kSettling) return false;
    }
    return true;
  };
  ASSERT_TRUE(swarm.run_until(others_settle, seconds(10)));
  ASSERT_LT(swarm.agent(3).rounds()->progress().steps, 600u);
  swarm.pause(3, false);
  swarm.run_for(milliseconds(300));
  EXPECT_NE(swarm.agent(3).rounds()->phase(), Phase::kTraining);
}

// One that answers, and tells of ever longer runs: some claim is within what an agent takes.
class StopsSeldom : public InStep {
 protected:
  StopsSeldom() : InStep(kStop, seconds(1)) {
    for (size_t a = 0; a < kAgents; ++a) stranger.join(liar_, swarm.endpoint(a), 0, Phase::kJoining);
    run_for(seconds(4));
  }
  void claim_stops(Duration duration) {
    for (const TimePoint end = swarm.clock().now() + duration; swarm.clock().now() < end; run_for(milliseconds(50))) {
      PeerRecord record = stranger.record(liar_, 0, Phase::kJoining);
      record.version.incarnation = ++claims_;
      record.meta.stop_after = uint64_t{1} << claims_ % 59;  // in seconds, an agent sees each of them
      tell_all(record);
    }
  }
  std::vector<uint64_t> stops() {
    std::vector<uint64_t> all;
    for (size_t a = 0; a < kAgents; ++a) all.push_back(std::max(kStop, swarm.agent(a).meta().stop_after));
    return all;
  }
  static constexpr uint64_t kStop = 100'000;

 private:
  const PeerId liar_ = stranger.new_id();
  uint64_t claims_ = 0;
};

TEST_F(StopsSeldom, ClaimsMoveTheEndTenfoldInTenMinutes) {
  const std::vector<uint64_t> agreed = stops();
  claim_stops(seconds(70));
  const std::vector<uint64_t> once = stops();
  run_for(SwarmStop::kRiseEvery - seconds(90));
  claim_stops(seconds(19));
  EXPECT_EQ(stops(), once);
  claim_stops(seconds(100));
  const std::vector<uint64_t> twice = stops();
  for (size_t a = 0; a < kAgents; ++a) {
    EXPECT_GT(once[a], agreed[a]);
    EXPECT_LE(once[a], 10 * agreed[a]);
    EXPECT_GT(twice[a], once[a]);
    EXPECT_LE(twice[a], 10 * once[a]);
  }
  expect_all_train();
}

struct UndecidedCase {
  const char* name;
  Overlap overlap;
  size_t ids;
  bool joined;
};

class UndecidedVotes : public testing::TestWithParam<UndecidedCase> {};

// A swarm of four stopped until its restart.
TEST_P(UndecidedVotes, CostHardlyAnyExchange) {
  const UndecidedCase& c = GetParam();
  constexpr uint64_t kSeeds = 3;
  size_t during = 0, after = 0, during_alone = 0, after_alone = 0;
  for (uint64_t rng_seed = 1; rng_seed <= kSeeds; ++rng_seed) {
    Besieged alone(rng_seed, c.overlap);
    during_alone += alone.run_for(seconds(10), [] {});
    alone.run_for(seconds(5), [] {});
    after_alone += alone.run_for(seconds(10), [] {});

    Besieged besieged(rng_seed, c.overlap);
    const std::vector<PeerId> ids = c.joined ? besieged.joined_ids(c.ids) : besieged.stranger.new_ids(c.ids);
    during += besieged.leave_votes_undecided(seconds(10), ids);
    besieged.run_for(seconds(5), [] {});
    after += besieged.run_for(seconds(10), [] {});
  }
  std::printf("%zu exchanges during the attack (alone %zu), %zu from 5 s after it (alone %zu)\n", during, during_alone,
              after, after_alone);
  EXPECT_GT(during_alone, 1000u);
  EXPECT_GE(static_cast<double>(during), 0.95 * static_cast<double>(during_alone));
  EXPECT_GE(static_cast<double>(after), 0.97 * static_cast<double>(after_alone));
}

// Who refuses every proposal costs an attempt each time.
TEST(OneMember, MaySayBusyToEverything) {
  size_t alone = 0, besieged = 0;
  for (uint64_t rng_seed = 1; rng_seed <= 3; ++rng_seed) {
    alone += Besieged(rng_seed, Overlap::kOff).run_for(seconds(10), [] {});
    Besieged one(rng_seed, Overlap::kOff);
    const PeerId id = one.joined_ids(1).front();
    one.stranger.on_frame = [&](const FrameHeader& header, const Message& message) {
      const auto* propose = message_as<Propose>(message);
      if (propose != nullptr) one.stranger.send(header.reply_to, id, Busy{propose->xid, 0});
    };
    besieged += one.run_for(seconds(10), [] {});
  }
  std::printf("%zu exchanges beside one that is always busy (alone %zu)\n", besieged, alone);
  EXPECT_GE(static_cast<double>(besieged), 0.9 * static_cast<double>(alone));
}

INSTANTIATE_TEST_SUITE_P(Each, UndecidedVotes,
                         testing::Values(UndecidedCase{"turns_never_joined", Overlap::kOff, 8, false},
                                         UndecidedCase{"turns_joined", Overlap::kOff, 1, true},
                                         UndecidedCase{"beside_never_joined", Overlap::kOn, 8, false},
                                         UndecidedCase{"beside_joined", Overlap::kOn, 1, true}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace starling
