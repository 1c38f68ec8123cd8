// One agent's life step by step: its jobs run when the test says so, or on a thread of their own.
#include "agent/run/agent.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "agent/config/settings.h"
#include "agent/process/thread_worker.h"
#include "agent/run/pair_drift.h"
#include "agent/train/quadratic_trainer.h"
#include "bootstrap/memory_model.h"
#include "gossip/sim/virtual_network.h"
#include "gossip/worker.h"
#include "tests/support/log_text.h"

namespace starling {
namespace {

// Runs one job at a time, when it is told to.
class HeldWorker final : public Worker {
 public:
  void submit(std::function<void()> job, std::function<void()> done) override {
    jobs_.emplace_back(std::move(job), std::move(done));
  }
  void run_completions() override {
    for (auto& done : std::exchange(done_, {})) done();
  }
  bool run_job() {  // false: there is none
    if (jobs_.empty()) return false;
    auto [job, done] = std::move(jobs_.front());
    jobs_.pop_front();
    job();
    done_.push_back(std::move(done));
    return true;
  }

 private:
  std::deque<std::pair<std::function<void()>, std::function<void()>>> jobs_;
  std::vector<std::function<void()>> done_;
};

// Gives back what the test puts into it.
class FakeKeeper final : public StateKeeper {
 public:
  struct Disk {
    std::optional<Progress> stored;
    bool out_of_memory = false;
    bool serves = false;  // what is saved, to newcomers
    int restores = 0, saves = 0;
    uint64_t saved_steps = 0;
    bool saved_alone = false;
  };
  explicit FakeKeeper(Disk& disk) : disk_(disk) {}
  SaveResult save(const Progress& progress, Trainer& trainer, std::span<const std::byte>, bool alone) override {
    if (disk_.out_of_memory) throw std::bad_alloc();
    disk_.saved_alone = alone;
    ++disk_.saves;
    disk_.saved_steps = progress.steps;
    if (!disk_.serves) return {};
    const View params = trainer.params();
    const auto bytes = std::as_bytes(std::span(params.data, params.count));
    model_ = std::make_shared<MemoryModel>(SharedBytes::copy_of(bytes), disk_.saves, progress.round, progress.steps);
    return {};
  }
  bool restore(Progress* progress, Trainer&, std::vector<std::byte>*) override {
    ++disk_.restores;
    if (disk_.stored) *progress = *disk_.stored;
    return disk_.stored.has_value();
  }
  std::shared_ptr<const ModelFile> model() const override { return model_; }

 private:
  Disk& disk_;
  std::shared_ptr<const ModelFile> model_;
};

// Keeps what it is told of.
struct KeptEvents final : Observer {
  void on(const Event& event) override {
    if (const auto* status = std::get_if<AgentStatus>(&event)) statuses.push_back(*status);
    if (const auto* changed = std::get_if<MemberChanged>(&event)) changes.push_back(changed->change);
    if (const auto* begins = std::get_if<Joined>(&event)) joined.push_back(begins->how);
    if (const auto* finish = std::get_if<Finished>(&event)) {
      finished.push_back(finish->reason);
      ended = *finish;
    }
  }
  AgentStatus ended;  // as the last of `finished` says
  std::vector<AgentStatus> statuses;
  std::vector<std::string> changes, finished, joined;
};

// Counts how often the first params are drawn.
struct DrawsCounted final : QuadraticTrainer {
  DrawsCounted(const SwarmConfig& swarm, int& draws, const Clock& clock)
      : QuadraticTrainer({.dimension = swarm.model.dimension}, swarm.rng_seed, 1, clock), draws_(draws) {}
  void draw_genesis() override { ++draws_; }
  int& draws_;
};

// One host with one agent that trains a small quadratic.
struct Host {
  Host(VirtualClock& clock, VirtualNetwork& network, uint8_t number, Worker& worker)
      : self{}, transport(network.open(endpoint(number))), worker_(worker), clock_(clock) {
    self.bytes.fill(number);
    options.self = self;
    options.generation = 1;
    options.advertise = endpoint(number);
    options.config.has_swarm = true;
    options.config.swarm.model.kind = "quadratic";
    options.config.swarm.model.dimension = 8;
    options.config.swarm.optimizer.momentum = 0;
    options.config.swarm.exchange.codec = CodecKind::kFp32;
    options.config.agent.evaluate_every = Duration::zero();
  }
  static Endpoint endpoint(uint8_t number) { return {"10.0.0." + std::to_string(number), 7400}; }

  void start() {
    agent.emplace(options,
                  AgentParts{*transport,
                             clock_,
                             worker_,
                             worker_,
                             events,
                             [this](const SwarmConfig& swarm) {
                               auto trainer = std::make_unique<DrawsCounted>(swarm, draws, clock_);
                               trainer->params().data[0] += genesis_differs_by;
                               return trainer;
                             },
                             [this](uint64_t, const std::string&) { return std::make_unique<FakeKeeper>(disk); },
                             {},
                             [this](uint64_t stop_after) { kept_stop = stop_after; }});
  }

  AgentOptions options;
  PeerId self;
  FakeKeeper::Disk disk;
  uint64_t kept_stop = 0;
  int draws = 0;
  float genesis_differs_by = 0;  // another build or machine may draw other first params from the same settings
  KeptEvents events;
  std::unique_ptr<Transport> transport;
  Worker& worker_;
  VirtualClock& clock_;
  std::optional<Agent> agent;
};

class AgentTest : public testing::Test {
 protected:
  void advance() {
    clock_.advance(std::chrono::milliseconds(10));
    network_.deliver_due();
  }

  VirtualClock clock_;
  VirtualNetwork network_{clock_, 1, LinkOptions{}};
  HeldWorker held_;
  InlineWorker at_once_;
};

TEST_F(AgentTest, AnswersProbesWhileItsCheckpointIsRestored) {
  Host slow(clock_, network_, 1, held_), other(clock_, network_, 2, at_once_);
  slow.disk.stored = Progress{.round = 7, .steps = 70, .samples = 700};
  slow.options.known.behind = 10000;  // it keeps its own model, however far the other gets meanwhile
  other.options.config.agent.bootstrap = {Host::endpoint(1)};
  slow.start();
  other.start();
  ASSERT_TRUE(held_.run_job());  // makes the trainer
  for (int i = 0; i < 1000; ++i) {
    advance();
    slow.agent->tick();
    other.agent->tick();
  }
  EXPECT_EQ(slow.disk.restores, 0);
  EXPECT_EQ(slow.agent->rounds(), nullptr);
  const Membership& seen = other.agent->router().membership();
  EXPECT_EQ(seen.alive().size(), 1u);
  EXPECT_GE(seen.counters().probes, 5u);
  EXPECT_EQ(seen.counters().probes_failed, 0u);

  ASSERT_TRUE(held_.run_job());
  EXPECT_EQ(slow.disk.restores, 1);
  slow.agent->tick();
  ASSERT_NE(slow.agent->rounds(), nullptr);
  EXPECT_EQ(slow.agent->rounds()->progress().steps, 70u);
}

TEST_F(AgentTest, ReportsFromTheFirstSecondOn) {
  Host host(clock_, network_, 1, held_), other(clock_, network_, 2, at_once_);
  other.options.config.agent.bootstrap = {Host::endpoint(1)};
  host.start();
  other.start();
  for (int i = 0; i < 300; ++i) {  // its trainer is not made yet
    advance();
    host.agent->tick();
    other.agent->tick();
  }
  ASSERT_EQ(host.agent->rounds(), nullptr);
  ASSERT_GE(host.events.statuses.size(), 3u);
  for (const AgentStatus& status : host.events.statuses) EXPECT_EQ(status.phase, "joining");
  EXPECT_EQ(host.events.statuses.back().steps, 0u);
  EXPECT_FALSE(host.events.statuses.back().loss);
  EXPECT_GT(host.events.statuses.back().bytes_received, 0u);
}

TEST_F(AgentTest, NoneTakesAStepBeforeAllAreThere) {
  InlineWorker workers[3];
  Host first(clock_, network_, 1, workers[0]), second(clock_, network_, 2, workers[1]),
      third(clock_, network_, 3, workers[2]);
  for (Host* host : {&first, &second, &third}) {
    host->options.config.swarm.wait_for = 3;
    host->options.config.agent.checkpoint_every = std::chrono::seconds(1);
  }
  for (Host* host : {&second, &third}) host->options.config.agent.bootstrap = {first.options.advertise};
  const auto run = [&](int ticks) {
    for (int i = 0; i < ticks; ++i) {
      advance();
      for (Host* host : {&first, &second, &third}) {
        if (host->agent) host->agent->tick();
      }
    }
  };
  first.start();
  run(1000);
  second.start();
  run(6000);
  for (Host* host : {&first, &second}) {
    ASSERT_NE(host->agent->rounds(), nullptr);
    EXPECT_EQ(host->agent->rounds()->progress().steps, 0u);
    EXPECT_EQ(host->disk.saves, 1) << "the genesis, for newcomers that cannot draw it";
    EXPECT_EQ(host->events.joined.size(), 0u);
    EXPECT_EQ(host->events.statuses.back().phase, "joining");
    EXPECT_FALSE(host->events.statuses.back().loss);
  }
  third.start();
  run(500);
  for (Host* host : {&first, &second, &third}) {
    EXPECT_GT(host->agent->rounds()->progress().steps, 0u);
    EXPECT_GT(host->agent->rounds()->tally().done, 0u);
    EXPECT_EQ(host->events.joined.size(), 1u);
  }
  InlineWorker later;
  Host again(clock_, network_, 4, later);  // started again when all others have gone
  again.options.config.swarm.wait_for = 3;
  again.disk.stored = Progress{.round = 2, .steps = 4};
  again.start();
  for (int i = 0; i < 500; ++i) {
    advance();
    again.agent->tick();
  }
  EXPECT_GT(again.agent->rounds()->progress().steps, 4u);
}

TEST_F(AgentTest, AnAgentThatWaitsLeavesAtOnce) {
  Host host(clock_, network_, 1, at_once_);
  host.options.config.swarm.wait_for = 2;
  host.start();
  for (int i = 0; i < 1200 && !host.agent->finished(); ++i) {
    advance();
    if (i == 1000) host.agent->leave();
    host.agent->tick();
  }
  EXPECT_TRUE(host.agent->finished());
  EXPECT_EQ(host.events.finished, std::vector<std::string>{"signal"});
  EXPECT_EQ(host.agent->rounds()->progress().steps, 0u);
}

// However long a step is.
TEST_F(AgentTest, AnAgentThatIsToldToLeaveEndsTheStepInHandAndSavesIt) {
  Host host(clock_, network_, 1, at_once_);
  host.options.config.agent.compute_ms = 4000;
  host.options.config.swarm.local_steps = 1;
  host.options.config.agent.checkpoint_every = std::chrono::hours(1);
  host.start();
  for (int i = 0; i < 3000 && !host.agent->finished(); ++i) {
    advance();
    if (i == 1000) host.agent->leave();
    host.agent->tick();
  }
  ASSERT_TRUE(host.agent->finished());
  EXPECT_EQ(host.agent->rounds()->save_error(), "");
  EXPECT_GE(host.disk.saved_steps, 2u);
  EXPECT_EQ(host.disk.saved_steps, host.agent->rounds()->progress().steps);
}

TEST_F(AgentTest, ReportsWhatItsExchangesCount) {
  InlineWorker others;
  Host a(clock_, network_, 1, at_once_), b(clock_, network_, 2, others);
  b.options.config.agent.bootstrap = {Host::endpoint(1)};
  a.start();
  b.start();
  for (int i = 0; i < 500; ++i) {
    advance();
    a.agent->tick();
    b.agent->tick();
  }
  const AgentStatus& status = a.events.statuses.back();
  EXPECT_EQ(status.phase, "training");
  EXPECT_EQ(status.peers, 1u);
  EXPECT_GT(status.pairs.initiated + status.pairs.accepted, 10u);
  EXPECT_EQ(status.pairs.done, status.exchanges.done);
  EXPECT_EQ(status.joins.accepted, 1u);
  ASSERT_TRUE(status.swarm_distance && status.spread) << "of the other's record";
  EXPECT_GT(*status.spread, 0);
  EXPECT_NEAR(*status.spread, 2 * *status.swarm_distance, 1e-3 * *status.spread) << "of two the mean is half-way";
  for (const AgentStatus& told : a.events.statuses) {
    EXPECT_GT(told.spread.value_or(1), 0) << "of the genesis, which is the same everywhere: step " << told.steps;
    EXPECT_FALSE(told.accuracy) << "never measured, which is not -100 %";
  }
  EXPECT_EQ(a.events.changes, std::vector<std::string>{"joined"});
}

TEST_F(AgentTest, WarnsAtItsStartOfWhatHardlyLearns) {
  Host host(clock_, network_, 1, at_once_);
  host.options.config.swarm.local_steps = 8;
  host.options.config.agent.data.sharding = "labels";
  const LogText log;
  host.start();
  for (int i = 0; i < 300; ++i) {
    advance();
    host.agent->tick();
  }
  ASSERT_NE(host.agent->rounds(), nullptr);
  EXPECT_NE(log.text().find("kind: group"), std::string::npos) << log.text();
}

// Two members of one swarm with checkpoints, and what the first one wrote down of the second.
class Return : public AgentTest {
 protected:
  Return() { first_.options.known.members = {{second_.options.self, second_.options.advertise}}; }

  void run_for(Duration time) {
    for (const TimePoint end = clock_.now() + time; clock_.now() < end;) {
      advance();
      for (Host* host : {&first_, &second_}) {
        if (host->agent) host->agent->tick();
      }
    }
  }
  bool said(const std::string& part) const { return log_.text().find(part) != std::string::npos; }

  LogText log_;
  InlineWorker workers_[2];
  Host first_{clock_, network_, 1, workers_[0]}, second_{clock_, network_, 2, workers_[1]};
};

TEST_F(Return, WithoutAnAddressWaitsForAMemberThatItKnew) {
  first_.disk.stored = second_.disk.stored = Progress{.round = 40, .steps = 40};
  first_.start();
  run_for(std::chrono::minutes(2));
  EXPECT_EQ(first_.agent->rounds(), nullptr);
  EXPECT_TRUE(said("0 of 1 members")) << log_.text();
  second_.start();
  run_for(std::chrono::seconds(10));
  ASSERT_TRUE(first_.agent->rounds() && second_.agent->rounds()) << log_.text();
  EXPECT_GT(first_.agent->rounds()->tally().done, 0u);
}

TEST_F(Return, AloneAtLastItTrainsAndIsFoundLater) {
  first_.options.config.agent.return_wait = std::chrono::seconds(60);
  first_.disk.stored = second_.disk.stored = Progress{.round = 40, .steps = 40};
  first_.start();
  run_for(std::chrono::seconds(50));
  EXPECT_EQ(first_.agent->rounds(), nullptr);
  run_for(std::chrono::seconds(20));
  ASSERT_NE(first_.agent->rounds(), nullptr);
  EXPECT_TRUE(said("begins alone")) << log_.text();
  second_.start();
  run_for(std::chrono::seconds(15));
  EXPECT_GT(first_.agent->rounds()->tally().done, 0u);
}

// It has a model, though it does not train yet.
TEST_F(Return, ANewcomerTakesTheModelOfOneThatWaits) {
  InlineWorker worker;
  Host newcomer(clock_, network_, 3, worker);
  newcomer.options.config.agent.bootstrap = {first_.options.advertise};
  first_.options.progress = {.round = 40, .steps = 40};
  first_.disk.stored = first_.options.progress;
  first_.disk.serves = true;
  first_.start();
  run_for(std::chrono::seconds(5));
  ASSERT_EQ(first_.agent->rounds(), nullptr);
  EXPECT_EQ(first_.agent->meta().steps, 40u);
  newcomer.start();
  for (int i = 0; i < 2000; ++i) {
    run_for(std::chrono::milliseconds(10));
    newcomer.agent->tick();
  }
  EXPECT_EQ(newcomer.events.joined, std::vector<std::string>{"fetched"}) << log_.text();
}

// It joined a swarm whose first params only that swarm's members can make.
TEST_F(Return, AloneAtLastItTrainsFromItsCheckpointWithoutAGenesis) {
  first_.options.config.agent.return_wait = std::chrono::seconds(60);
  first_.options.stored_settings = agreed_settings(first_.options.config.swarm, std::string(64, 'a'));
  first_.options.has_model = true;
  first_.disk.stored = Progress{.round = 40, .steps = 40};
  first_.start();
  run_for(std::chrono::seconds(70));
  ASSERT_NE(first_.agent->rounds(), nullptr) << log_.text();
  EXPECT_GT(first_.agent->rounds()->progress().steps, 40u);
}

TEST_F(Return, WhatProlongsTheRunWaitsForTheOthers) {
  first_.options.known.finished = true;
  first_.options.known.finished_at = 40;
  first_.options.raised_stop = 80;
  first_.disk.stored = Progress{.round = 40, .steps = 40};
  first_.start();
  run_for(std::chrono::seconds(30));
  EXPECT_EQ(first_.agent->rounds(), nullptr);
  EXPECT_TRUE(said("0 of 1 members")) << log_.text();
}

TEST_F(Return, OneWhosePeersAreGoneSaysSoAsLongAsItIsAlone) {
  constexpr const char* kAlone = "this agent is alone: all that it trained with have left or are gone";
  first_.options.known = {};
  for (Host* host : {&first_, &second_}) {
    host->options.config.swarm.stop_after = 0;
    host->disk.serves = true;
  }
  second_.options.config.agent.bootstrap = {first_.options.advertise};
  first_.start();
  run_for(std::chrono::seconds(60));
  EXPECT_FALSE(said(kAlone)) << "none has come yet";
  second_.start();
  run_for(std::chrono::seconds(20));
  ASSERT_GT(first_.agent->rounds()->tally().done, 0u);
  second_.agent.reset();
  run_for(std::chrono::seconds(60));
  EXPECT_TRUE(said(kAlone)) << log_.text();
  second_.options.generation = 2;
  second_.start();
  run_for(std::chrono::seconds(10));
  (void)log_.take();
  run_for(std::chrono::minutes(2));
  EXPECT_FALSE(said(kAlone)) << log_.text();
}

TEST_F(Return, AfterTheEndOfItsRunNobodyIsWaitedFor) {
  first_.options.known.finished = true;
  first_.disk.stored = Progress{.round = 40, .steps = 40};
  first_.start();
  run_for(std::chrono::seconds(5));
  EXPECT_NE(first_.agent->rounds(), nullptr);
}

// Four that died at once: two alone would make one model, and the other two another.
class ReturnOfFour : public Return {
 protected:
  ReturnOfFour() {
    for (uint8_t number = 0; number < 4; ++number) {
      hosts_.push_back(std::make_unique<Host>(clock_, network_, 11 + number, four_workers_[number]));
    }
    for (const auto& host : hosts_) {
      host->disk.stored = Progress{.round = 40, .steps = 40};
      host->disk.serves = true;
      host->options.known.together = 3;
      for (const auto& other : hosts_) {
        if (other != host) host->options.known.members.push_back({other->options.self, other->options.advertise});
      }
    }
  }
  void run_for(Duration time) {
    for (const TimePoint end = clock_.now() + time; clock_.now() < end;) {
      advance();
      for (const auto& host : hosts_) {
        if (host->agent) host->agent->tick();
      }
    }
  }
  size_t training() const {
    return std::count_if(hosts_.begin(), hosts_.end(),
                         [](const auto& host) { return host->agent && host->agent->rounds(); });
  }

  InlineWorker four_workers_[4];
  std::vector<std::unique_ptr<Host>> hosts_;
};

TEST_F(ReturnOfFour, BeginsWhenMostAreBack) {
  hosts_[2]->start();
  run_for(std::chrono::seconds(30));
  hosts_[0]->start();
  run_for(std::chrono::minutes(2));
  EXPECT_EQ(training(), 0u);
  EXPECT_TRUE(said("1 of 3 members")) << log_.text();
  hosts_[3]->start();
  run_for(std::chrono::seconds(10));
  EXPECT_EQ(training(), 3u) << log_.text();
  hosts_[1]->start();
  run_for(std::chrono::seconds(5));
  EXPECT_EQ(training(), 4u) << "the others train already";
}

TEST_F(ReturnOfFour, HalfOfThemGoOnAfterTheWait) {
  hosts_[0]->options.config.agent.return_wait = std::chrono::seconds(60);
  for (int half : {2, 0}) hosts_[half]->start();
  run_for(std::chrono::seconds(50));
  EXPECT_EQ(training(), 0u);
  run_for(std::chrono::seconds(20));
  EXPECT_EQ(training(), 2u) << "the second one sees the first one train";
  EXPECT_TRUE(said("1 of 3 members that this agent trained with are back after")) << log_.text();
  EXPECT_TRUE(said("begins with those")) << log_.text();
}

// Of those that were seen long ago only, one is enough.
TEST_F(ReturnOfFour, OfMembersThatDidNotLiveLastOneIsEnough) {
  for (const auto& host : hosts_) host->options.known.together = 0;
  hosts_[1]->start();
  run_for(std::chrono::seconds(10));
  EXPECT_TRUE(said("0 of 1 members that this agent trained with are back. ")) << log_.text();
  EXPECT_EQ(training(), 0u) << log_.text();
  hosts_[3]->start();
  run_for(std::chrono::seconds(10));
  EXPECT_EQ(training(), 2u) << log_.text();
}

// What one made alone meanwhile is no reason, and rounds that a slow member always is behind are none.
TEST_F(Return, FarBehindTakesTheModelThatOthersMadeTogether) {
  struct Case {
    uint64_t away, behind;  // rounds; 0: it has taken no step
    size_t others;
    bool fetches;
  };
  uint8_t number = 20;
  for (const Case& each : {Case{20, 0, 2, false},
                           {1000, 0, 2, true},
                           {1000, 0, 1, false},
                           {0, 0, 1, true},
                           {1000, 950, 2, false},
                           {1200, 950, 2, true}}) {
    InlineWorker workers[3];
    Host gone(clock_, network_, number++, workers[0]);
    std::vector<std::unique_ptr<Host>> others;
    for (size_t i = 0; i < each.others; ++i) {
      others.push_back(std::make_unique<Host>(clock_, network_, number++, workers[1 + i]));
      others[i]->disk.stored = Progress{.round = 5000, .steps = 5000};
      others[i]->disk.serves = true;
      if (i > 0) others[i]->options.config.agent.bootstrap = {others[0]->options.advertise};
      others[i]->start();
    }
    const auto run = [&](int ticks) {
      for (int i = 0; i < ticks; ++i) {
        advance();
        for (const auto& other : others) other->agent->tick();
        if (gone.agent) gone.agent->tick();
      }
    };
    run(500);
    const uint64_t now = others[0]->agent->rounds()->progress().round;
    const uint64_t own = each.away > 0 ? now - each.away : 0;
    gone.disk.stored = Progress{.round = own, .steps = own};
    gone.options.known = {.members = {{others[0]->options.self, others[0]->options.advertise}}, .behind = each.behind};
    gone.start();
    for (int i = 0; i < 1000 && !gone.agent->rounds(); ++i) run(1);
    ASSERT_NE(gone.agent->rounds(), nullptr) << each.away;
    const std::string how = each.fetches ? "fetched" : "resumed";
    EXPECT_EQ(gone.events.joined, std::vector{how}) << each.away << " " << each.behind << " " << each.others;
    EXPECT_EQ(log_.take().find("their models are mixed") != std::string::npos, each.others == 1 && !each.fetches)
        << each.away;
  }
}

// A store keeps the last checkpoint of several; which one that is, the agent says.
TEST_F(AgentTest, ACheckpointSaysWhetherItWasMadeAlone) {
  InlineWorker workers[2];
  Host first(clock_, network_, 1, workers[0]), second(clock_, network_, 2, workers[1]);
  first.options.config.agent.checkpoint_every = std::chrono::seconds(1);
  second.options.config.agent.bootstrap = {first.options.advertise};
  const auto run = [&](int seconds) {
    for (int i = 0; i < 100 * seconds; ++i) {
      advance();
      first.agent->tick();
      if (second.agent) second.agent->tick();
    }
  };
  first.start();
  run(5);
  EXPECT_GT(first.disk.saves, 0);
  EXPECT_TRUE(first.disk.saved_alone) << "nobody else has come";
  second.start();
  run(15);
  ASSERT_EQ(first.agent->router().membership().alive().size(), 1u);
  EXPECT_FALSE(first.disk.saved_alone) << "the other one is there";
  second.agent.reset();
  run(60);
  ASSERT_EQ(first.agent->router().membership().alive().size(), 0u);
  EXPECT_TRUE(first.disk.saved_alone) << "the other one is gone";
}

// One member that starts again prolongs the run of all, and the others keep that for their next start.
TEST_F(AgentTest, AMemberThatStartsAgainProlongsTheRunOfAll) {
  InlineWorker workers[2];
  Host a(clock_, network_, 1, workers[0]), b(clock_, network_, 2, workers[1]);
  b.options.config.agent.bootstrap = {a.options.advertise};
  a.options.raised_stop = 120;
  for (Host* host : {&a, &b}) {
    host->options.config.swarm.stop_after = 50;
    host->disk.stored = Progress{.round = 50, .steps = 50};
    host->start();
  }
  for (int i = 0; i < 6000 && !(a.agent->finished() && b.agent->finished()); ++i) {
    advance();
    a.agent->tick();
    b.agent->tick();
  }
  for (Host* host : {&a, &b}) {
    EXPECT_TRUE(host->agent->finished());
    EXPECT_EQ(host->events.finished, std::vector<std::string>{"stop_after"});
    EXPECT_GE(host->agent->rounds()->progress().steps, 120u);
    EXPECT_LE(host->agent->rounds()->progress().steps, 160u);
    EXPECT_EQ(host->agent->meta().stop_after, 120u);
  }
  EXPECT_EQ(a.kept_stop, 0u) << "it was known there";
  EXPECT_EQ(b.kept_stop, 120u);
}

// An agent's seed is down, so it begins alone; what comes up there later is another swarm.
class AnotherSwarm : public AgentTest {
 protected:
  AnotherSwarm() {
    agent_.options.config.agent.bootstrap = {seed_.options.advertise};
    peer_.options.config.agent.bootstrap = {agent_.options.advertise};
  }

  // Until the seed has answered for long enough. What ended the agent; empty: nothing.
  std::string run(bool with_a_peer) {
    network_.cut(agent_.options.advertise, peer_.options.advertise);  // so that both begin from the genesis
    agent_.start();
    if (with_a_peer) peer_.start();
    run_for(500);
    EXPECT_NE(agent_.agent->rounds(), nullptr);
    network_.heal_all();
    run_for(500);
    seed_.start();
    run_for(3000);
    return error_;
  }
  static void expect_said(const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  }

  LogText log_;
  InlineWorker workers_[3];
  Host agent_{clock_, network_, 1, workers_[0]}, seed_{clock_, network_, 2, workers_[1]},
      peer_{clock_, network_, 3, workers_[2]};

 private:
  void run_for(int ticks) {
    for (int i = 0; i < ticks && error_.empty(); ++i) {
      advance();
      for (Host* host : {&agent_, &seed_, &peer_}) {
        if (!host->agent) continue;
        try {
          host->agent->tick();
        } catch (const std::runtime_error& thrown) {
          ASSERT_EQ(host, &agent_);
          error_ = thrown.what();
        }
      }
    }
  }
  std::string error_;
};

const std::vector<std::string> kBothSidesAndTheRemedy = {"10.0.0.2:7400", " here, ", " there", "--bootstrap",
                                                         "--state"};

TEST_F(AnotherSwarm, BySettingsEndsAnAgentThatNeverExchanged) {
  seed_.options.config.swarm.optimizer.learning_rate *= 2;
  const std::string error = run(false);
  expect_said(error, kBothSidesAndTheRemedy);
  expect_said(error, {"alone so far", "learning_rate: 0.05 here, 0.1 there"});
}

TEST_F(AnotherSwarm, ByItsGenesisEndsAnAgentThatNeverExchanged) {
  seed_.genesis_differs_by = 1;
  const std::string error = run(false);
  expect_said(error, kBothSidesAndTheRemedy);
  expect_said(error, {"alone so far", "\ngenesis: "});
  EXPECT_EQ(error.find("learning_rate"), std::string::npos) << "all else is the same: " << error;
}

TEST_F(AnotherSwarm, IsSaidToOneThatHasASwarmOfItsOwnAndGoesOn) {
  seed_.genesis_differs_by = 1;
  EXPECT_EQ(run(true), "");
  EXPECT_GT(agent_.agent->rounds()->tally().done, 0u);
  const std::string said = log_.text();
  expect_said(said, kBothSidesAndTheRemedy);
  expect_said(said, {"\ngenesis: "});
}

// Exchanges while settling have no steps between them, and would hide how far apart training let the models drift.
TEST_F(AgentTest, TheDriftIsThatOfTraining) {
  InlineWorker workers[3];
  Host host(clock_, network_, 1, workers[0]), second(clock_, network_, 2, workers[1]),
      third(clock_, network_, 3, workers[2]);
  for (Host* each : {&host, &second, &third}) {
    if (each != &host) each->options.config.agent.bootstrap = {host.options.advertise};
    each->options.config.swarm.exchange.overlap = Overlap::kOff;
    each->options.config.swarm.stop_after = 20;
    each->start();
  }
  for (int ticks = 0; host.events.finished.empty(); ++ticks) {
    ASSERT_LT(ticks, 20000);
    advance();
    for (Host* each : {&host, &second, &third}) each->agent->tick();
  }
  const AgentStatus& status = host.events.ended;
  const PairwiseCounters training = host.agent->room_status().pairs_in_training;
  EXPECT_GT(status.pairs.done, training.done) << "it did not settle by exchanges";
  ASSERT_GT(status.drift, 0);
  EXPECT_EQ(status.drift, pair_drift(host.agent->swarm(), {"", training, status.steps_taken}, status.peers + 1));
}

// Whatever is exchanged: the mean times the rounds is what was sent but for the begin and the round under way.
TEST_F(AgentTest, TellsTheBytesOfARound) {
  const std::vector<std::pair<ExchangeKind, SourceKind>> exchanges = {
      {ExchangeKind::kPairwise, SourceKind::kParams},
      {ExchangeKind::kNeighborhood, SourceKind::kParams},
      {ExchangeKind::kGroup, SourceKind::kParams},
      {ExchangeKind::kGroup, SourceKind::kUpdates}};
  uint8_t number = 1;
  for (const auto& [kind, source] : exchanges) {
    InlineWorker own, others;
    Host host(clock_, network_, number++, own), other(clock_, network_, number++, others);
    other.options.config.agent.bootstrap = {host.options.advertise};
    for (Host* each : {&host, &other}) {
      each->options.config.swarm.exchange.kind = kind;
      each->options.config.swarm.exchange.source = source;
      each->options.config.swarm.exchange.overlap = Overlap::kOff;  // each round has an exchange
      each->options.config.swarm.model.dimension = 2000;
      each->start();
    }
    const auto round = [&] { return host.agent->rounds() ? host.agent->rounds()->progress().round : 0; };
    for (int ticks = 0; round() < 60; ++ticks) {
      ASSERT_LT(ticks, 20000) << static_cast<int>(kind);
      advance();
      host.agent->tick();
      other.agent->tick();
    }
    host.events.statuses.clear();
    while (host.events.statuses.empty()) {
      advance();
      host.agent->tick();
      other.agent->tick();
    }
    const AgentStatus& status = host.events.statuses.back();
    ASSERT_TRUE(status.sent_a_round && status.sent_last_round) << static_cast<int>(kind);
    const auto sent = static_cast<double>(status.bytes_sent), rounds = static_cast<double>(status.round);
    EXPECT_LE(*status.sent_a_round * (rounds - 2), sent) << static_cast<int>(kind);
    EXPECT_GE(*status.sent_a_round * rounds, 0.7 * sent) << static_cast<int>(kind);
    EXPECT_GT(*status.sent_last_round, 2000) << static_cast<int>(kind);
    EXPECT_LT(*status.sent_last_round, 4 * *status.sent_a_round) << static_cast<int>(kind);
  }
}

TEST_F(AgentTest, ANewcomerDrawsNothingThatItFetches) {
  InlineWorker members, newcomers;
  Host member(clock_, network_, 1, members), newcomer(clock_, network_, 2, newcomers);
  member.disk.serves = true;
  newcomer.options.config.agent.bootstrap = {member.options.advertise};
  newcomer.options.config.has_swarm = false;
  newcomer.genesis_differs_by = 1;  // it could make no first params of that swarm
  member.start();
  for (int i = 0; i < 2000 && newcomer.events.joined.empty(); ++i) {
    if (i == 300) newcomer.start();
    advance();
    member.agent->tick();
    if (newcomer.agent) newcomer.agent->tick();
  }
  EXPECT_EQ(member.events.joined, std::vector<std::string>{"genesis"});
  EXPECT_EQ(member.draws, 1);
  EXPECT_EQ(newcomer.events.joined, std::vector<std::string>{"fetched"});
  EXPECT_EQ(newcomer.draws, 0);
}

// It knows the hash of the genesis from its earlier life, and draws it only to begin from it.
TEST_F(AgentTest, AReturnedMemberDrawsWhatItHasNoCheckpointOf) {
  for (const bool has_model : {false, true}) {
    InlineWorker worker;
    Host founder(clock_, network_, has_model ? 3 : 1, worker), member(clock_, network_, has_model ? 4 : 2, worker);
    founder.start();
    for (int i = 0; i < 10; ++i) founder.agent->tick();
    member.options.stored_settings = founder.agent->router().settings();
    member.options.has_model = has_model;
    if (has_model) member.disk.stored = Progress{.round = 40, .steps = 40};
    member.start();
    for (int i = 0; i < 10; ++i) member.agent->tick();
    EXPECT_EQ(member.events.joined, std::vector<std::string>{has_model ? "resumed" : "genesis"});
    EXPECT_EQ(member.draws, has_model ? 0 : 1);
  }
}

// It adopted the settings and waits for the model, which the only member never gives: that one leaves.
TEST_F(AgentTest, ANewcomerWhoseLastDonorLeavesEndsWithTheReason) {
  InlineWorker members, newcomers;
  Host member(clock_, network_, 1, members), newcomer(clock_, network_, 2, newcomers);
  newcomer.options.config.agent.bootstrap = {member.options.advertise};
  newcomer.options.config.has_swarm = false;
  member.start();
  std::string error;
  const auto run = [&](int ticks) {
    for (int i = 0; i < ticks && error.empty(); ++i) {
      advance();
      member.agent->tick();
      try {
        if (newcomer.agent) newcomer.agent->tick();
      } catch (const std::runtime_error& thrown) {
        error = thrown.what();
      }
    }
  };
  run(300);
  newcomer.start();
  run(500);
  EXPECT_EQ(error, "");
  EXPECT_EQ(newcomer.agent->rounds(), nullptr);
  member.agent->leave();
  run(5000);
  EXPECT_NE(error.find("the swarm has ended"), std::string::npos) << error;
}

// One that is told to leave waits for nobody; one that has finished waits for those that settle, but not for ever.
TEST_F(AgentTest, SaysFarewellOnce) {
  for (const bool told : {true, false}) {
    InlineWorker leavers, others;
    Host leaver(clock_, network_, told ? 1 : 3, leavers), other(clock_, network_, told ? 2 : 4, others);
    other.options.config.agent.bootstrap = {leaver.options.advertise};
    if (!told) leaver.options.config.swarm.stop_after = other.options.config.swarm.stop_after = 1000;
    leaver.start();
    other.start();
    int ticks = 0;
    for (; ticks < 6000 && !leaver.agent->finished(); ++ticks) {
      if (told && ticks == 200) leaver.agent->leave();
      advance();
      leaver.agent->tick();
      other.agent->tick();
    }
    EXPECT_TRUE(leaver.agent->finished()) << told;
    EXPECT_EQ(leaver.events.finished, std::vector<std::string>{told ? "signal" : "stop_after"});
    advance();
    other.agent->tick();
    // Who has agreed at the same moment may be gone before it hears of it.
    EXPECT_TRUE((!told && other.agent->finished()) || other.events.changes.back() == "left") << told;
    EXPECT_TRUE(!told || ticks < 200 + 250) << "it was told 2.5 s ago";
  }
}

TEST_F(AgentTest, AnAgentToldToLeaveBeforeItTrainsNeverBegins) {
  for (const int jobs : {0, 1}) {  // while the trainer is made; while the checkpoint is restored
    Host host(clock_, network_, static_cast<uint8_t>(3 + jobs), held_);
    host.disk.stored = Progress{.steps = 70};
    host.start();
    for (int i = 0; i < jobs; ++i) ASSERT_TRUE(held_.run_job());
    host.agent->tick();
    host.agent->leave();
    while (held_.run_job()) {
    }
    for (int i = 0; i < 1000 && !host.agent->finished(); ++i) {
      advance();
      host.agent->tick();
      EXPECT_EQ(host.agent->rounds(), nullptr) << jobs;
    }
    EXPECT_TRUE(host.agent->finished());
  }
}

// The control thread tells others its progress at every tick, whatever the worker does.
TEST_F(AgentTest, GoingBackToACheckpointChangesNoProgressBesideTheControlThread) {
  Host host(clock_, network_, 1, held_);
  host.options.config.swarm.exchange.kind = ExchangeKind::kNone;
  host.options.config.swarm.optimizer.learning_rate = 1e30;  // ends in infinities
  host.start();
  for (int i = 0; i < 1000 && !(host.agent->rounds() && host.agent->rounds()->phase() == Phase::kSick); ++i) {
    held_.run_job();
    advance();
    host.agent->tick();
  }
  ASSERT_NE(host.agent->rounds(), nullptr);
  const Rounds& rounds = *host.agent->rounds();
  ASSERT_EQ(rounds.phase(), Phase::kSick);
  const uint64_t steps = rounds.progress().steps;
  host.disk.stored = Progress{.round = 7, .steps = steps + 1000};
  ASSERT_TRUE(held_.run_job());
  ASSERT_EQ(host.disk.restores, 2);  // at the start there was nothing
  EXPECT_EQ(rounds.progress().steps, steps);
  host.agent->tick();
  EXPECT_GE(rounds.progress().steps, steps + 1000);
}

// The genesis in its place would be the model of the next checkpoints.
TEST_F(AgentTest, ACheckpointWithoutWhatUpdatesSayOfItEndsTheAgentAndStays) {
  Host host(clock_, network_, 1, at_once_);
  host.options.config.swarm.exchange.kind = ExchangeKind::kGroup;
  host.options.config.swarm.exchange.source = SourceKind::kUpdates;
  host.options.config.agent.state = "kept";
  host.disk.stored = Progress{.round = 7, .steps = 70};
  host.start();
  try {
    for (int i = 0; i < 100; ++i) {
      advance();
      host.agent->tick();
    }
    FAIL() << "it went on";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("the checkpoint of step 70 in kept lacks"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(host.disk.saves, 0);
}

TEST_F(AgentTest, AJobThatThrowsEndsTheAgentWithItsText) {
  std::mutex mutex;
  std::condition_variable woken;
  int wakes = 0;
  ThreadWorker worker([&] {
    const std::lock_guard lock(mutex);
    ++wakes;
    woken.notify_all();
  });
  Host host(clock_, network_, 1, worker);
  host.options.config.swarm.exchange.kind = ExchangeKind::kNone;
  host.disk.out_of_memory = true;  // the first boundary saves
  host.start();
  const auto run = [&] {
    for (int jobs = 1; jobs <= 3; ++jobs) {  // make the trainer, restore, save
      std::unique_lock lock(mutex);
      ASSERT_TRUE(woken.wait_for(lock, std::chrono::seconds(30), [&] { return wakes >= jobs; })) << jobs;
      lock.unlock();
      host.agent->tick();
    }
  };
  EXPECT_THROW(run(), std::bad_alloc);
  EXPECT_EQ(host.disk.restores, 1);
  worker.stop();
}

}  // namespace
}  // namespace starling
