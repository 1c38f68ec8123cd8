// The C API: fake loops in threads of this process are members of one swarm.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "agent/attach/starling.h"

namespace {

constexpr int kSliceMs = 50;
constexpr auto kPatience = std::chrono::seconds(60);
constexpr uint64_t kCount = 64;

// Pulls each of its params towards a goal, as a loss of squares would.
class Loop {
 public:
  Loop(const std::filesystem::path& folder, float first, float goal) : folder_(folder), goal_(goal) {
    params_.assign(kCount, first);
    set("agent.state=" + folder.string());
    set("agent.listen=127.0.0.1:0");
  }
  ~Loop() { starling_close(swarm_); }

  void set(const std::string& text) { set_.push_back(text); }
  void begin_swarm(int wait_for, int stop_after) {
    set("swarm.wait_for=" + std::to_string(wait_for));
    set("swarm.stop_after=" + std::to_string(stop_after));
    set("swarm.local_steps=2");
    set("swarm.exchange.block=64");
  }
  void join(const Loop& other) { set("agent.bootstrap=" + other.address()); }

  // What starling_open() said; empty: it worked.
  std::string open(const char* name = "weight") {
    const int64_t shape[] = {8, 8};
    const starling_tensor tensor{name, shape, 2, 0, 0};
    std::vector<const char*> set;
    for (const std::string& one : set_) set.push_back(one.c_str());
    set.push_back(nullptr);
    starling_options options{};
    options.size = sizeof options;
    options.set = set.data();
    options.params = params_.data();
    options.count = kCount;
    options.tensors = &tensor;
    options.tensor_count = 1;
    char error[8000] = "";
    return starling_open(&options, &swarm_, error, sizeof error) == STARLING_GO ? "" : error;
  }

  // Until it is the loop's turn, or there is none any more.
  int wait(int answer = STARLING_AGAIN) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < until) {
      if (answer == STARLING_STATE_WANTED) {
        EXPECT_EQ(starling_put_state(swarm_, &steps_taken, sizeof steps_taken), STARLING_GO);
      } else if (answer != STARLING_AGAIN) {
        return answer;
      }
      answer = starling_wait(swarm_, kSliceMs);
    }
    return STARLING_AGAIN;
  }
  int step(bool learns = true) {
    for (float& param : params_) param += learns ? 0.1f * (goal_ - param) : 0;
    ++steps_taken;
    return wait(starling_step(swarm_, 1, std::abs(goal_ - params_[0]), 0));
  }
  // Whether the run came to its end. Loops of one `pace` take steps at the same time, and none learns once one has
  // ended: of two that are as fast as they can be, one may have taken most.
  bool train(std::barrier<>& pace, std::atomic<bool>& one_ended) {
    int answer = wait();
    while (answer >= 0 && answer < STARLING_AGAIN) {
      pace.arrive_and_wait();
      answer = step(!one_ended);
    }
    one_ended = true;
    pace.arrive_and_drop();
    return answer == STARLING_OVER;
  }
  bool finish() {
    int answer = STARLING_AGAIN;
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (answer == STARLING_AGAIN && std::chrono::steady_clock::now() < until) {
      answer = starling_finish(swarm_, kSliceMs);
    }
    return answer == STARLING_OVER;
  }
  void close() { EXPECT_EQ(starling_close(swarm_), STARLING_GO); }

  starling_now now() const {
    starling_now now{};
    now.size = sizeof now;
    EXPECT_EQ(starling_look(swarm_, &now), STARLING_GO);
    return now;
  }
  std::string message() const {
    char text[8000] = "";
    starling_message(swarm_, text, sizeof text);
    return text;
  }
  std::string log() const {
    std::string all;
    char line[2000];
    while (starling_log(swarm_, nullptr, line, sizeof line) > 0) all += std::string(line) + "\n";
    return all;
  }
  std::string address() const {
    char text[500] = "";
    starling_place(swarm_, text, sizeof text);
    const std::string place = text;
    return place.substr(place.rfind(' ') + 1);
  }
  std::vector<float>& params() { return params_; }
  starling_swarm* swarm() const { return swarm_; }
  const std::filesystem::path& folder() const { return folder_; }

  uint64_t steps_taken = 0;

 private:
  const std::filesystem::path folder_;
  const float goal_;
  std::vector<float> params_;
  std::vector<std::string> set_;
  starling_swarm* swarm_ = nullptr;
};

class LibraryTest : public testing::Test {
 protected:
  LibraryTest() {
    folder_ =
        std::filesystem::path(testing::TempDir()) / ("starling-attach-" + std::to_string(getpid()) + "-" +
                                                     testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~LibraryTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(LibraryTest, TwoLoopsOfOneProcessEndWithOneModelBetweenTheirGoals) {
  Loop one(folder_ / "one", 0, 1), two(folder_ / "two", 50, 3);
  one.begin_swarm(2, 200);
  one.set("agent.name=one");
  two.set("agent.name=two");
  ASSERT_EQ(one.open(), "");
  two.join(one);
  ASSERT_EQ(two.open(), "");
  bool other_over = false, other_finished = false;
  std::barrier pace(2);
  std::atomic<bool> one_ended = false;
  std::thread other([&] {
    other_over = two.train(pace, one_ended);
    other_finished = two.finish();
  });
  EXPECT_TRUE(one.train(pace, one_ended)) << one.message() << one.log();
  EXPECT_TRUE(one.finish());
  other.join();
  EXPECT_TRUE(other_over) << two.message() << two.log();
  EXPECT_TRUE(other_finished);
  EXPECT_EQ(one.now().agreed, 1);
  EXPECT_EQ(one.now().phase, STARLING_ENDED);
  EXPECT_GE(one.now().steps, 190u);
  EXPECT_GT(one.now().exchanges, 0u);
  EXPECT_NEAR(one.params()[0], two.params()[0], 0.1);
  EXPECT_NEAR(one.params()[0], 2, 0.5);  // neither goal
  const std::string log = one.log();
  EXPECT_NE(log.find("two"), std::string::npos) << log;
  EXPECT_NE(log.find("this agent listens on " + one.address()), std::string::npos) << log;
  EXPECT_EQ(log.find("this agent listens on " + two.address()), std::string::npos) << "lines of two swarms are mixed";
}

TEST_F(LibraryTest, ALifeInTheSameFolderGoesOnWithItsParamsAndItsState) {
  float last = 0;
  {
    Loop first(folder_ / "one", 0, 1);
    first.begin_swarm(1, 0);
    ASSERT_EQ(first.open(), "");
    int answer = first.wait();
    for (int i = 0; i < 41 && answer != STARLING_FAILED; ++i) answer = first.step();
    last = first.params()[0];
    EXPECT_EQ(starling_put_state(first.swarm(), &first.steps_taken, sizeof first.steps_taken), STARLING_GO);
    first.close();
  }
  Loop second(folder_ / "one", 99, 1);
  ASSERT_EQ(second.open(), "");
  EXPECT_EQ(second.wait(), STARLING_RESTORED) << second.message();
  EXPECT_EQ(second.params()[0], last);
  EXPECT_EQ(second.now().steps, 41u);
  uint64_t state = 0;
  EXPECT_EQ(starling_take_state(second.swarm(), &state, sizeof state), 8);
  EXPECT_EQ(state, 41u);
}

TEST_F(LibraryTest, TheLastCheckpointOfARunHasTheStateAfterItsLastStep) {
  {
    Loop first(folder_ / "one", 0, 1);
    first.begin_swarm(1, 24);
    ASSERT_EQ(first.open(), "");
    int answer = first.wait();
    while (answer >= 0 && answer < STARLING_AGAIN) answer = first.step();
    ASSERT_EQ(answer, STARLING_OVER) << first.message();
    EXPECT_EQ(starling_put_state(first.swarm(), &first.steps_taken, sizeof first.steps_taken), STARLING_GO);
    EXPECT_TRUE(first.finish());
    EXPECT_GE(first.steps_taken, 24u);
    first.close();
  }
  Loop second(folder_ / "one", 99, 1);
  second.set("swarm.stop_after=40");
  ASSERT_EQ(second.open(), "");
  EXPECT_EQ(second.wait(), STARLING_RESTORED) << second.message();
  EXPECT_EQ(second.now().stop_after, 40u);
  uint64_t state = 0;
  EXPECT_EQ(starling_take_state(second.swarm(), &state, sizeof state), 8);
  EXPECT_EQ(state, second.now().steps);
}

TEST_F(LibraryTest, ACloseBesideACallOfAnotherThreadSavesTheLastStep) {
  Loop loop(folder_ / "one", 0, 1);
  loop.begin_swarm(1, 0);
  ASSERT_EQ(loop.open(), "");
  int answer = loop.wait();
  for (int i = 0; i < 7 && answer >= 0; ++i) answer = loop.step();
  std::atomic<bool> closed = false;
  std::thread other([&] {
    while (!closed) starling_wait(loop.swarm(), 200);
  });
  loop.close();
  bool saved = false;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder_)) {
    saved |= file.path().filename().string().ends_with("-step-7.ckpt");
  }
  EXPECT_TRUE(saved);
  closed = true;
  other.join();
}

TEST_F(LibraryTest, AnotherModelAndOtherWishesAreRefused) {
  Loop founder(folder_ / "founder", 0, 1);
  founder.begin_swarm(1, 0);
  founder.set("swarm.exchange.deadline_max=3s");
  ASSERT_EQ(founder.open(), "");
  ASSERT_EQ(founder.wait(), STARLING_CHANGED) << founder.message();

  Loop other(folder_ / "other", 0, 1);
  other.join(founder);
  ASSERT_EQ(other.open("bias"), "");
  EXPECT_EQ(other.wait(), STARLING_FAILED);
  EXPECT_NE(other.message().find("tensor 1 of 1, 'bias' float32 [8, 8] here, is another in the swarm"),
            std::string::npos)
      << other.message();

  Loop wishing(folder_ / "wishing", 0, 1);
  wishing.join(founder);
  wishing.set("swarm.local_steps=7");
  ASSERT_EQ(wishing.open(), "");
  EXPECT_EQ(wishing.wait(), STARLING_FAILED);
  EXPECT_NE(wishing.message().find("local_steps: 7 here, 2 there"), std::string::npos) << wishing.message();

  Loop content(folder_ / "content", 0, 1);
  content.join(founder);
  content.set("swarm.exchange.deadline_max=auto");
  ASSERT_EQ(content.open(), "");
  EXPECT_NE(content.wait(), STARLING_FAILED) << content.message();

  Loop second(folder_ / "founder", 0, 1);
  EXPECT_NE(second.open().find("another agent or registry is using it"), std::string::npos);
}

TEST_F(LibraryTest, AStartThatCannotWorkSaysSoAtOnce) {
  Loop nothing(folder_ / "nothing", 0, 1);
  EXPECT_NE(nothing.open().find("there is no swarm to join"), std::string::npos);

  const auto refusal = [&](const std::string& key) {
    Loop loop(folder_ / "wrong", 0, 1);
    loop.begin_swarm(1, 0);
    loop.set(key);
    return loop.open();
  };
  EXPECT_NE(refusal("swarm.model.kind=mlp").find("which 'starling agent' trains"), std::string::npos);
  EXPECT_NE(refusal("swarm.optimizer.learning_rate=0.1").find("delete the key"), std::string::npos);
  EXPECT_NE(refusal("swarm.exchange.source=gradients").find("write source: updates"), std::string::npos);
  EXPECT_NE(refusal("swarm.local_stepz=1").find("did you mean 'local_steps'?"), std::string::npos);
}

TEST_F(LibraryTest, AnOptimizerWithoutMomentumCannotJoinASwarmThatSharesIt) {
  Loop loop(folder_ / "one", 0, 1);
  loop.begin_swarm(1, 0);
  loop.set("swarm.exchange.share=[params, momentum]");
  ASSERT_EQ(loop.open(), "");
  EXPECT_EQ(loop.wait(), STARLING_FAILED);
  EXPECT_NE(loop.message().find("moments of Adam diverge"), std::string::npos) << loop.message();
}

TEST_F(LibraryTest, WrongCallsAreAnswered) {
  starling_swarm* swarm = nullptr;
  char error[200] = "";
  EXPECT_EQ(starling_open(nullptr, &swarm, error, sizeof error), STARLING_FAILED);
  starling_options small{};
  small.size = 4;
  EXPECT_EQ(starling_open(&small, &swarm, error, sizeof error), STARLING_FAILED);
  EXPECT_NE(std::string(error), "");
  EXPECT_EQ(starling_step(nullptr, 1, 1, 0), STARLING_CLOSED);
  EXPECT_EQ(starling_close(nullptr), STARLING_CLOSED);

  Loop loop(folder_ / "one", 0, 1);
  loop.begin_swarm(1, 0);
  ASSERT_EQ(loop.open(), "");
  starling_now now{};
  EXPECT_EQ(starling_look(loop.swarm(), &now), STARLING_BAD_ARGUMENT);
  EXPECT_EQ(starling_look(loop.swarm(), nullptr), STARLING_BAD_ARGUMENT);
  EXPECT_EQ(starling_put_state(loop.swarm(), nullptr, 1), STARLING_BAD_ARGUMENT);
  starling_swarm* const handle = loop.swarm();
  loop.close();
  EXPECT_EQ(starling_step(handle, 1, 1, 0), STARLING_CLOSED);
  EXPECT_EQ(starling_close(handle), STARLING_CLOSED);
}

TEST_F(LibraryTest, TwoThreadsCannotDriveOneSwarm) {
  Loop founder(folder_ / "founder", 0, 1);
  founder.begin_swarm(2, 0);  // waits for a second agent
  ASSERT_EQ(founder.open(), "");
  std::atomic<int> busy = 0;
  std::atomic<bool> ended = false;
  std::thread other([&] {
    while (!ended) busy += starling_wait(founder.swarm(), 200) == STARLING_BUSY;
  });
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (busy == 0 && std::chrono::steady_clock::now() < until) {
    busy += starling_wait(founder.swarm(), 200) == STARLING_BUSY;
  }
  ended = true;
  other.join();
  EXPECT_GT(busy, 0);
  EXPECT_NE(founder.message().find("two threads"), std::string::npos);
}

TEST_F(LibraryTest, ALossThatIsNotANumberBringsTheLastGoodModelBack) {
  Loop loop(folder_ / "one", 0, 1);
  loop.begin_swarm(1, 0);
  ASSERT_EQ(loop.open(), "");
  int answer = loop.wait();
  for (int i = 0; i < 5; ++i) answer = loop.step();
  ASSERT_GE(answer, 0);
  loop.params()[3] = std::numeric_limits<float>::quiet_NaN();
  answer = loop.wait(starling_step(loop.swarm(), 1, std::numeric_limits<double>::quiet_NaN(), 0));
  EXPECT_EQ(answer, STARLING_RESTORED) << loop.message();
  for (const float param : loop.params()) EXPECT_TRUE(std::isfinite(param));
  EXPECT_LT(loop.now().rate_scale, 1);
}

}  // namespace
