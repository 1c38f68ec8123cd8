// The lines that people read of an agent.
#include "agent/observe/log.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "agent/observe/deadline_watch.h"
#include "agent/observe/trouble_notice.h"
#include "agent/observe/waiting_notice.h"
#include "tests/gossip/membership/membership_support.h"
#include "tests/support/fake_clock.h"
#include "tests/support/log_text.h"

namespace starling {
namespace {

class LogTest : public testing::Test {
 protected:
  std::string take() { return text_.take(); }

  LogText text_{spdlog::level::debug};
  Log log_;
};

TEST_F(LogTest, AnOlderAccuracyNamesItsStep) {
  AgentStatus status;
  status.phase = "training";
  status.steps = 100;
  log_.on(status);
  EXPECT_EQ(take().find("accuracy"), std::string::npos) << "not measured yet";
  log_.on(Evaluated{160, 0.147, 2.3});
  status.steps = 160;
  status.accuracy = 0.147;
  log_.on(status);
  EXPECT_NE(take().find(", accuracy 14.7 %, "), std::string::npos);
  status.steps = 283;
  log_.on(status);
  EXPECT_NE(take().find(", accuracy 14.7 % at step 160, "), std::string::npos);
}

// A swarm that drifts apart looks well by its losses alone.
TEST_F(LogTest, SaysWhileTrainingHowFarTheOtherModelsAre) {
  AgentStatus status;
  status.phase = "training";
  status.steps = 100;
  log_.on(status);
  EXPECT_EQ(take().find("spread"), std::string::npos) << "nobody's model is known";
  status.steps = 101;
  status.swarm_distance = 0.0021;
  status.spread = 0.043;
  status.distance = 0.5;
  log_.on(status);
  const std::string text = take();
  const std::string line = text.substr(0, text.find('\n'));
  EXPECT_NE(line.find(", 0.0021 off the mean, spread 0.043"), std::string::npos) << text;
  EXPECT_EQ(line.find("0.5"), std::string::npos) << "the last partner's is a detail: " << text;
  EXPECT_NE(text.find("\n0.5 from the last partner\n"), std::string::npos) << text;
}

// What it says fits in two lines of 80 columns with the date before it. Nobody reads a line a second: at level info
// there is the line of progress.
TEST_F(LogTest, AnOrdinaryLineIsShortAndForDebugging) {
  AgentStatus status;
  status.phase = "training";
  status.steps = 12345;
  status.steps_taken = 12345;
  status.round = 12345;
  status.loss = 0.123;
  status.accuracy = 0.961;
  status.peers = 15;
  status.exchanges = {12345, 0, 0};
  status.pairs = {.initiated = 6000, .accepted = 6000, .done = 12345};
  status.bytes_sent = 123'400'000;
  status.distance = status.swarm_distance = 0.0012;
  status.spread = 0.0034;
  status.step = {.forward_ms = 3.1, .backward_ms = 6, .other_ms = 0.4, .encode_ms = 1, .exposed_ms = 2.5};
  log_.on(Evaluated{12346, 0.961, 0.2});
  spdlog::set_level(spdlog::level::info);
  log_.on(status);
  EXPECT_EQ(take(), "");
  spdlog::set_level(spdlog::level::debug);
  ++status.steps;
  log_.on(status);
  const std::string text = take(), line = text.substr(0, text.find('\n'));
  EXPECT_LE(line.size(), 2 * 80 - sizeof "2026-11-25 06:42:46.547 info") << line;
  status.steps += 1;
  status.exchanges = {12345, 3, 2};
  log_.on(status);
  EXPECT_NE(take().find(", 12345 exchanges, 3 late, 2 failed, "), std::string::npos);
}

TEST_F(LogTest, SaysHowTheLogOfUpdatesStandsAndWhoseMessagesWereRefused) {
  AgentStatus status;
  status.phase = "training";
  status.steps = 100;
  status.log_heads = "1f9a03c255";
  status.updates.entries = 120;
  status.held_back = 0.31;
  log_.on(status);
  EXPECT_NE(take().find(", 120 entries, 0.31 held back, log 1f9a03c2\n"), std::string::npos);
  status.steps = 101;
  status.updates.payloads_refused = 3;
  status.updates.blocks_refused = 4;
  log_.on(status);
  EXPECT_NE(take().find(", 120 entries, 7 refused, 0.31 held back"), std::string::npos);
  status.steps = 102;
  status.refused_last = "carol";
  log_.on(status);
  EXPECT_NE(take().find(", 120 entries, 7 refused, last of carol, 0.31 held back"), std::string::npos);
  status.steps = 103;
  status.updates.buckets = 3;
  status.updates.plan_since = 208;
  status.updates.plans_refused = 2;
  log_.on(status);
  EXPECT_NE(take().find(", last of carol, 3 buckets since round 208, 2 plans refused, 0.31"), std::string::npos);
}

TEST_F(LogTest, TroubleIsSaidAtOnceAndAgainEveryMinuteWhileItLasts) {
  FakeClock clock;
  TroubleNotice notice(clock);
  notice.say("another swarm");
  EXPECT_EQ(take(), "another swarm\n");
  for (int second = 1; second < 60; ++second) {
    clock.advance(std::chrono::seconds(1));
    notice.say("another swarm");
  }
  EXPECT_EQ(take(), "");
  clock.advance(std::chrono::seconds(1));
  notice.say("another swarm");
  EXPECT_EQ(take(), "another swarm\n");
  notice.say("nobody answers");
  EXPECT_EQ(take(), "") << "foreign texts may change all the time";
  clock.advance(std::chrono::seconds(10));
  notice.say("nobody answers");
  EXPECT_EQ(take(), "nobody answers\n") << "news does not wait for the minute";
}

TEST_F(LogTest, AWaitIsSaidHalfAsOftenEachTimeUpToAMinute) {
  FakeClock clock;
  WaitingNotice notice(clock);
  std::vector<int> said;
  for (int second = 0; second <= 200; ++second) {
    notice.say("no answer from a:1 after " + std::to_string(second) + " tries");
    if (!take().empty()) said.push_back(second);
    clock.advance(std::chrono::seconds(1));
  }
  EXPECT_EQ(said, (std::vector<int>{0, 3, 9, 21, 45, 93, 153}));
  notice.say("a:1 belongs to another swarm");
  EXPECT_EQ(take(), "waiting: a:1 belongs to another swarm\n") << "news does not wait";
  clock.advance(std::chrono::seconds(3));
  notice.say("a:1 belongs to another swarm");
  EXPECT_NE(take(), "") << "and begins anew";
}

TEST_F(LogTest, NoLossIsSaidBeforeTheFirstStep) {
  Finished end;
  end.reason = "signal";
  log_.on(end);
  EXPECT_EQ(take().find("loss"), std::string::npos);
  end.steps = 3;
  end.loss = 0.25;
  log_.on(end);
  EXPECT_NE(take().find(": loss 0.25, "), std::string::npos);
}

TEST_F(LogTest, ASmallLossIsNoneOfZeroAndTheSwarmsStepsStandBesideOthers) {
  Finished end;
  end.reason = "stop_after";
  end.steps = 1989;
  end.stop_after = 2000;
  end.loss = 0.00017;
  log_.on(end);
  EXPECT_EQ(take().find("finished at step 1989 (the swarm's: 2000): loss 0.00017, "), 0u);
  end.steps = 2000;
  log_.on(end);
  EXPECT_EQ(take().find("finished at step 2000: "), 0u);
}

TEST_F(LogTest, TheFirstExchangeThatTheDeadlineCutShortIsSaidWithTheRemedy) {
  using std::chrono::milliseconds, std::chrono::seconds;
  DeadlineWatch watch;
  FakeClock clock;
  RecordingOutbox outbox;
  const Membership nobody({}, record_of(0), clock, outbox, 1, 1);
  const Duration longest = milliseconds(500);
  ExchangeStatus exchange;
  exchange.block_tally.counted = 10;
  ExchangeCounts tally{.done = 3, .late = 1};
  watch.look(longest, exchange, {.done = 3}, std::nullopt, nobody, clock.now());
  watch.look(longest, exchange, tally, LateExchange{"carol", 10, 40, 2'500'000, milliseconds(300)}, nobody,
             clock.now());
  EXPECT_EQ(take(), "") << "a shorter deadline was the exchange's own choice";
  const LateExchange late{"carol", 10, 40, 2'500'000, milliseconds(500)};
  watch.look(longest, exchange, tally, late, nobody, clock.now());
  const std::string text = take();
  EXPECT_NE(text.find("an exchange with carol had 10 of 40 blocks (2.5 MB received)"), std::string::npos) << text;
  EXPECT_NE(text.find("all blocks would take about 2.0 s"), std::string::npos) << text;
  EXPECT_NE(text.find("longer deadline_max"), std::string::npos) << text;
  tally.late = 2;
  watch.look(longest, exchange, tally, late, nobody, clock.now() + seconds(59));
  EXPECT_EQ(take(), "");
  watch.look(longest, exchange, tally, late, nobody, clock.now() + seconds(60));
  EXPECT_NE(take(), "");
  watch.look(longest, exchange, tally, late, nobody, clock.now() + seconds(200));
  EXPECT_EQ(take(), "") << "none was late since";
}

TEST_F(LogTest, WhatASilentMemberMakesLateIsNoFaultOfTheDeadline) {
  using std::chrono::milliseconds, std::chrono::seconds;
  DeadlineWatch watch;
  FakeClock clock;
  RecordingOutbox outbox;
  Membership members({}, record_of(0), clock, outbox, 1, 1);
  members.add(record_of(1));
  members.prove(peer_of(1), record_of(1).version.generation);
  const auto becomes = [&](MemberState state) {
    for (int i = 0; i < 1000 && members.find(peer_of(1))->state != state; ++i) {
      clock.advance(milliseconds(100));
      members.tick();
    }
    ASSERT_EQ(members.find(peer_of(1))->state, state);
  };
  const Duration longest = milliseconds(500);
  ExchangeStatus exchange;
  exchange.block_tally.counted = 10;
  exchange.usual_duration = milliseconds(600);
  const ExchangeCounts tally{.done = 3, .late = 1};
  const LateExchange late{"a1", 10, 40, 2'500'000, milliseconds(500)};
  for (const MemberState state : {MemberState::kSuspect, MemberState::kDead}) {
    becomes(state);
    watch.look(longest, exchange, tally, late, members, clock.now());
    EXPECT_EQ(take(), "");
  }
  clock.advance(seconds(11));
  watch.look(longest, exchange, tally, late, members, clock.now());
  EXPECT_NE(take().find("half of the exchanges take 600ms"), std::string::npos) << "and the late one was before";
}

TEST_F(LogTest, InventedMembersSilenceNoWordOfTheDeadline) {
  using std::chrono::milliseconds;
  DeadlineWatch watch;
  FakeClock clock;
  RecordingOutbox outbox;
  Membership members({}, record_of(0), clock, outbox, 1, 1);
  for (uint32_t i = 1; i <= 4; ++i) members.add(record_of(i));
  members.prove(peer_of(1), record_of(1).version.generation);
  const auto suspected = [&] {
    return members.find(peer_of(2))->state == MemberState::kSuspect &&
           members.find(peer_of(3))->state == MemberState::kSuspect;
  };
  for (int i = 0; i < 1000 && !suspected(); ++i) {
    clock.advance(milliseconds(100));
    members.tick();
    for (const auto& [to, ping] : outbox.take_all<Ping>()) {
      if (to == peer_of(1)) members.handle(to, PingAck{ping.sequence, {}});
    }
  }
  ASSERT_TRUE(suspected());
  ASSERT_EQ(members.find(peer_of(1))->state, MemberState::kAlive);
  ExchangeStatus exchange;
  exchange.block_tally.counted = 10;
  exchange.usual_duration = milliseconds(600);
  watch.look(milliseconds(500), exchange, {.done = 3}, std::nullopt, members, clock.now());
  EXPECT_NE(take().find("half of the exchanges take 600ms"), std::string::npos);
}

TEST_F(LogTest, TheEndSaysWhetherTheModelsAgree) {
  Finished end;
  end.reason = "stop_after";
  log_.on(end);
  const std::string alone = take();
  EXPECT_EQ(alone.find("agree"), std::string::npos) << "there was nobody";
  EXPECT_EQ(alone.find('%'), std::string::npos) << "its accuracy was never measured: " << alone;
  end.settled = true;
  log_.on(end);
  EXPECT_NE(take().find(", all models agree"), std::string::npos);
  end.settled = false;
  log_.on(end);
  EXPECT_NE(take().find(", the models do not agree"), std::string::npos);
}

// Not those of the whole run, in which an agent that joined late has taken no part.
TEST_F(LogTest, ExchangesAStepAreOfTheStepsSinceTheLastLine) {
  AgentStatus status;
  status.phase = "training";
  status.steps = 5000;
  log_.on(status);
  EXPECT_EQ(take().find("per step"), std::string::npos) << "a group has none";
  status.steps = 5100;
  status.steps_taken = 100;
  status.pairs = {.initiated = 60, .accepted = 60, .done = 90, .late = 20, .busy_received = 4};
  status.pairs.gain_permille = 99'000;
  status.pairs.queued = 12;
  status.pairs.unanswered = 5;
  status.pairs.taken_back = 3;
  log_.on(status);
  const std::string beside_steps = take();  // nobody waits there
  EXPECT_NE(beside_steps.find("exchanges: 1.1 per step, mixing weight 0.90; 12 proposals waited here, 4 found a peer "
                              "busy, 5 unanswered, 3 rolled back\n"),
            std::string::npos)
      << beside_steps;
  status.steps = 5000;  // it went back
  status.steps_taken = 200;
  status.pairs.done = 140;
  status.pairs.gain_permille += 50'000;
  status.pairs.asking_us = 3'000'000;
  status.pairs.own_us = 800'000;
  status.pairs.serving_us = 200'000;
  log_.on(status);
  const std::string later = take();
  EXPECT_NE(later.find("exchanges: 0.5 per step, mixing weight 1.00, ms per step 30 waiting for an answer, 8 in own "
                       "exchanges, 2 in those of peers; 12 proposals waited"),
            std::string::npos)
      << later;
}

// Two runs with another number of threads at a step differ in the last bits: who compares them must know of it.
TEST_F(LogTest, ThreadsThatTheTrainerChoseAreSaidAndThatTheyAreNotExact) {
  AgentStatus status;
  status.phase = "training";
  status.steps = 100;
  log_.on(status);
  EXPECT_EQ(take().find("thread"), std::string::npos) << "the number is fixed";
  status.steps = 101;
  status.threads = 2;
  log_.on(status);
  const std::string first = take();
  EXPECT_NE(first.find("2 threads for a step, found by trial"), std::string::npos) << first;
  EXPECT_NE(first.find("runs differ in their last bits (--threads 2 fixes it)"), std::string::npos) << first;
  EXPECT_NE(first.find(", 2 threads\n"), std::string::npos) << first;
  status.steps = 102;
  status.threads = 1;
  log_.on(status);
  const std::string later = take();
  EXPECT_NE(later.find(", 1 thread\n"), std::string::npos) << later;
  EXPECT_EQ(later.find("found by trial"), std::string::npos) << "once: " << later;
}

TEST_F(LogTest, SaysWhatAStepConsistsOfWhereItIsMeasured) {
  AgentStatus status;
  status.phase = "training";
  status.steps = 100;
  log_.on(status);
  EXPECT_EQ(take().find("exposed"), std::string::npos);
  status.steps = 101;
  status.step.exposed_ms = 2.5;
  log_.on(status);
  EXPECT_NE(take().find("2.5 ms a step exposed\n"), std::string::npos);
  status.steps = 102;
  status.step = {.forward_ms = 3.1, .backward_ms = 6, .other_ms = 0.4, .encode_ms = 1, .exposed_ms = 2.5};
  log_.on(status);
  EXPECT_NE(take().find("step 3.1 forward + 6.0 backward + 0.4 other + 2.5 ms exposed\n"), std::string::npos);
  status.steps = 103;
  status.step.select_ms = 0.8;
  log_.on(status);
  EXPECT_NE(take().find(" + 2.5 ms exposed (worker: 0.8 select, 1.0 ms encode)\n"), std::string::npos);
  status.steps = 104;
  status.step.jobs_ms = 0.2;
  log_.on(status);
  EXPECT_NE(take().find(" + 0.4 other + 0.2 jobs + 2.5 ms exposed"), std::string::npos);
}

}  // namespace
}  // namespace starling
