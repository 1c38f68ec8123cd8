// Checkpoints beside the steps: real files, written by a thread of its own, on a disk that is as slow as the test says.
#include "agent/run/checkpoint_jobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "agent/process/thread_worker.h"
#include "agent/run/boundary_jobs.h"
#include "agent/state/file_keeper.h"
#include "tests/agent/run/lone_agent.h"
#include "tests/agent/state/planned_file_ops.h"
#include "tests/support/log_text.h"

namespace starling {
namespace {

constexpr uint64_t kSwarmId = 9;
constexpr auto kPatience = std::chrono::seconds(30);

// Closed: what comes to it waits.
class Gate {
 public:
  void open(bool is_open) {
    const std::lock_guard lock(mutex_);
    open_ = is_open;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++came_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  bool wait_for(int count) {  // that came, since ever
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return came_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  int came_ = 0;
};

// A disk whose syncs wait at the gate.
class SlowDisk final : public FileOps {
 public:
  SlowDisk(Plan& plan, Gate& gate) : gate_(gate), disk_(plan) {}
  int open_new(const std::string& path) override { return disk_.open_new(path); }
  int64_t write(int fd, const std::byte* data, size_t size) override { return disk_.write(fd, data, size); }
  int sync(int fd) override {
    gate_.pass();
    return disk_.sync(fd);
  }
  int close(int fd) override { return disk_.close(fd); }
  int rename(const std::string& from, const std::string& to) override { return disk_.rename(from, to); }
  int remove(const std::string& path) override { return disk_.remove(path); }
  int sync_folder(const std::string& folder) override { return disk_.sync_folder(folder); }
  int64_t free_bytes(const std::string& folder) override { return disk_.free_bytes(folder); }

 private:
  Gate& gate_;
  PlannedFileOps disk_;
};

struct SavesKept final : Observer {
  void on(const Event& event) override {
    if (const auto* saved = std::get_if<CheckpointSaved>(&event)) saves.push_back(*saved);
  }
  std::vector<CheckpointSaved> saves;
};

class BesideSteps : public testing::Test, protected LoneAgent {
 protected:
  ~BesideSteps() override { gate_.open(true); }

  CheckpointJobs make_jobs() {
    return {keeper_, *trainer_, model_, membership_, worker_, writer_, clock_, saves_, [this] { ++served_; }};
  }
  // Lets the disk go on, until `count` saves are told of.
  void finish(size_t count) {
    gate_.open(true);
    std::unique_lock lock(mutex_);
    while (saves_.saves.size() < count) {
      ASSERT_TRUE(woken_.wait_for(lock, kPatience, [this] { return wakes_ > 0; }));
      wakes_ = 0;
      lock.unlock();
      writer_.run_completions();
      worker_.run_completions();
      lock.lock();
    }
  }
  std::vector<float> params() {
    const View view = trainer_->params();
    return {view.data, view.data + view.count};
  }
  std::vector<float> params_in(const std::string& path) {
    std::string problem;
    const auto loaded = read_checkpoint(path, &problem);
    if (!loaded) throw std::runtime_error(problem);
    return {loaded->content.params.begin(), loaded->content.params.end()};
  }

  Gate gate_;
  Plan plan_;
  Folder folder_;
  SavesKept saves_;
  int served_ = 0;
  uint64_t memory_left_ = std::numeric_limits<uint64_t>::max();
  FileKeeper keeper_{
      folder_.path(), kSwarmId, 1, 3, [] {}, std::make_unique<SlowDisk>(plan_, gate_), [this] { return memory_left_; }};
  std::mutex mutex_;
  std::condition_variable woken_;
  int wakes_ = 0;
  ThreadWorker writer_{[this] {
    const std::lock_guard lock(mutex_);
    ++wakes_;
    woken_.notify_all();
  }};
};

TEST_F(BesideSteps, StepsGoOnWhileTheDiskIsSlow) {
  Pace pace(swarm_, 1);
  BoundaryJobs jobs({std::chrono::nanoseconds(1), Duration::zero()}, make_jobs(), *trainer_, pace, clock_, saves_);
  Stepping steps = make_stepping();
  steps.start({}, false);
  jobs.start();
  gate_.open(false);
  bool goes_on = false;
  ASSERT_TRUE(jobs.begin_due(true, {.steps = 7}, [&] { goes_on = true; }));
  const std::vector<float> before = params();
  worker_.run_completions();
  EXPECT_TRUE(goes_on) << "the steps wait for the disk";
  ASSERT_TRUE(gate_.wait_for(1));
  ASSERT_TRUE(take_steps(steps, 5));
  EXPECT_NE(params(), before);
  clock_.advance(std::chrono::hours(1));
  EXPECT_FALSE(jobs.begin_due(true, {.steps = 12}, [] {})) << "two at a time";
  EXPECT_TRUE(saves_.saves.empty()) << "told of before it is durable";
  EXPECT_EQ(keeper_.model(), nullptr);

  finish(1);
  EXPECT_EQ(saves_.saves[0].error, "");
  EXPECT_EQ(saves_.saves[0].steps, 7u);
  EXPECT_EQ(params_in(saves_.saves[0].file), before);
  EXPECT_EQ(served_, 1);
  ASSERT_NE(keeper_.model(), nullptr);
  EXPECT_EQ(keeper_.model()->steps(), 7u);
  clock_.advance(std::chrono::seconds(1));
  EXPECT_TRUE(jobs.begin_due(true, {.steps = 12}, [] {})) << "the next one";
  worker_.run_completions();
  finish(2);
}

TEST_F(BesideSteps, TheMemoryOfACopyIsMadeBeforeItIsDue) {
  Pace pace(swarm_, 1);
  BoundaryJobs jobs({std::chrono::seconds(10), Duration::zero()}, make_jobs(), *trainer_, pace, clock_, saves_);
  jobs.start();
  ASSERT_TRUE(jobs.begin_due(true, {.steps = 7}, [] {}));
  worker_.run_completions();
  finish(1);
  clock_.advance(std::chrono::seconds(9));
  EXPECT_FALSE(jobs.begin_due(true, {.steps = 8}, [] {}));
  clock_.advance(std::chrono::seconds(1));
  EXPECT_FALSE(jobs.begin_due(true, {.steps = 9}, [] {})) << "the memory is not there yet";
  while (jobs.checkpoints().making_room()) writer_.run_completions();
  memory_left_ = 0;
  gate_.open(false);
  bool goes_on = false;
  ASSERT_TRUE(jobs.begin_due(true, {.steps = 10}, [&] { goes_on = true; }));
  worker_.run_completions();
  EXPECT_TRUE(goes_on) << "the copy wants more";
  finish(2);
  EXPECT_EQ(saves_.saves[1].error, "");
  EXPECT_EQ(params_in(saves_.saves[1].file), params());
}

// Peers that ask meanwhile are told when steps go on.
TEST_F(BesideSteps, AnEvaluationIsExpectedToTakeWhatTheLastOneTook) {
  Pace pace(swarm_, 1);
  BoundaryJobs jobs({std::chrono::hours(1), std::chrono::seconds(30)}, make_jobs(), *trainer_, pace, clock_, saves_);
  jobs.start();
  EXPECT_EQ(jobs.expected(true), Duration::zero()) << "none has shown it";
  ASSERT_TRUE(jobs.begin_due(true, {.steps = 7}, [] {}));
  clock_.advance(std::chrono::milliseconds(300));
  jobs.tick();
  EXPECT_EQ(jobs.expected(true), Duration::zero()) << "none is due";
  clock_.advance(std::chrono::seconds(30));
  EXPECT_EQ(jobs.expected(true), std::chrono::milliseconds(300));
  EXPECT_EQ(jobs.expected(false), Duration::zero());
}

TEST_F(BesideSteps, ADiskThatStandsStillIsNamedWhereTheNextCheckpointWaitsForIt) {
  LogText log;
  Pace pace(swarm_, 1);
  BoundaryJobs jobs({std::chrono::seconds(10), Duration::zero()}, make_jobs(), *trainer_, pace, clock_, saves_);
  jobs.start();
  clock_.advance(std::chrono::seconds(10));
  gate_.open(false);
  ASSERT_TRUE(jobs.begin_due(true, {.steps = 7}, [] {}));
  worker_.run_completions();
  ASSERT_TRUE(gate_.wait_for(1));
  clock_.advance(std::chrono::seconds(29));
  EXPECT_FALSE(jobs.begin_due(true, {.steps = 8}, [] {}));
  EXPECT_EQ(log.text(), "") << "a slow disk";
  for (int i = 0; i < 20; ++i) {
    clock_.advance(std::chrono::seconds(1));
    EXPECT_FALSE(jobs.begin_due(true, {.steps = 9}, [] {}));
  }
  EXPECT_NE(log.text().find("the disk has not taken the last one for more than 30 s"), std::string::npos) << log.text();
  EXPECT_EQ(log.text().find("the next checkpoint"), log.text().rfind("the next checkpoint")) << "not at each boundary";
  (void)log.take();
  BoundaryJobs rare({std::chrono::hours(1), Duration::zero()}, make_jobs(), *trainer_, pace, clock_, saves_);
  rare.start();
  ASSERT_TRUE(rare.begin_due(true, {.steps = 9}, [] {}));
  worker_.run_completions();
  clock_.advance(std::chrono::minutes(5));
  EXPECT_FALSE(rare.begin_due(true, {.steps = 10}, [] {}));
  EXPECT_EQ(log.text(), "") << "none is due for 55 minutes";
  finish(2);
}

TEST_F(BesideSteps, ADiskThatFillsUpIsToldAndCostsNothingElse) {
  CheckpointJobs jobs = make_jobs();
  gate_.open(false);
  bool goes_on = false, written = false;
  jobs.save_beside_then({.steps = 7}, [&] { written = true; }, [&] { goes_on = true; });
  worker_.run_completions();
  ASSERT_TRUE(gate_.wait_for(1));
  EXPECT_TRUE(goes_on && !written && jobs.writing());
  plan_.at = plan_.calls;
  plan_.status = -ENOSPC;
  finish(1);
  EXPECT_TRUE(written && !jobs.writing() && !jobs.saved());
  EXPECT_NE(saves_.saves[0].error.find("No space left"), std::string::npos) << saves_.saves[0].error;
  EXPECT_EQ(jobs.error(), saves_.saves[0].error);
  EXPECT_EQ(served_, 0);

  jobs.save_beside_then({.steps = 8}, [] {}, [] {});
  worker_.run_completions();
  finish(2);
  EXPECT_TRUE(jobs.saved());
  EXPECT_EQ(jobs.error(), "");
}

TEST_F(BesideSteps, WhatTheWritingThrowsIsThrownOnTheControlThread) {
  CheckpointJobs jobs = make_jobs();
  plan_.at = 2;  // the process would die there
  jobs.save_beside_then({.steps = 7}, [] {}, [] {});
  worker_.run_completions();
  EXPECT_THROW(finish(1), Crash);
}

TEST_F(BesideSteps, TheLastCheckpointFollowsTheOneThatIsBeingWritten) {
  CheckpointJobs jobs = make_jobs();
  gate_.open(false);
  jobs.save_beside_then({.steps = 7}, [] {}, [] {});
  worker_.run_completions();
  ASSERT_TRUE(gate_.wait_for(1));
  bool ended = false;
  jobs.save_then({.steps = 9}, [&] { ended = true; });
  worker_.run_completions();
  EXPECT_FALSE(ended);
  finish(1);
  worker_.run_completions();
  EXPECT_TRUE(ended);
  ASSERT_EQ(saves_.saves.size(), 2u);
  EXPECT_EQ(saves_.saves[0].steps, 7u);
  EXPECT_EQ(saves_.saves[1].steps, 9u);
  EXPECT_EQ(saves_.saves[1].error, "");
}

TEST_F(BesideSteps, ASickAgentGoesBackToTheOneThatIsBeingWritten) {
  CheckpointJobs jobs = make_jobs();
  gate_.open(false);
  jobs.save_beside_then({.steps = 7}, [] {}, [] {});
  const std::vector<float> good = params();
  worker_.run_completions();
  ASSERT_TRUE(gate_.wait_for(1));
  const View view = trainer_->params();
  std::fill(view.data, view.data + view.count, std::numeric_limits<float>::quiet_NaN());
  std::optional<Progress> back_at;
  jobs.restore_then([&](const std::optional<Progress>& found) { back_at = found; });
  worker_.run_completions();
  EXPECT_FALSE(back_at);
  finish(1);
  worker_.run_completions();
  ASSERT_TRUE(back_at);
  EXPECT_EQ(back_at->steps, 7u);
  EXPECT_EQ(params(), good);
}

TEST_F(BesideSteps, WithoutMemoryForACopyTheStepsWait) {
  CheckpointJobs jobs = make_jobs();
  memory_left_ = trainer_->params().count * sizeof(float);  // and none to spare
  int next = 0, written = 0;
  jobs.save_beside_then({.steps = 7}, [&] { ++written; }, [&] { ++next; });
  EXPECT_EQ(folder_.files(), std::vector<std::string>{"checkpoints"});
  ASSERT_TRUE(gate_.wait_for(1)) << "it is written by the job of the worker";
  EXPECT_EQ(next, 0);
  worker_.run_completions();
  EXPECT_EQ(next, 1);
  EXPECT_EQ(written, 1);
  EXPECT_FALSE(jobs.writing());
  ASSERT_EQ(saves_.saves.size(), 1u);
  EXPECT_EQ(params_in(saves_.saves[0].file), params());
}

}  // namespace
}  // namespace starling
