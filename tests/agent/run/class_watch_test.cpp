// Which of two members that name their classes differently gives way, and what is said.
#include "agent/run/class_watch.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/gossip/membership/membership_support.h"

namespace starling {
namespace {

const std::vector<std::string> kNames = {"cat", "dog"}, kSwapped = {"dog", "cat"};

class ClassWatchTest : public testing::Test {
 protected:
  ClassWatchTest() {
    auto logger = std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(log_));
    logger->set_pattern("%v");
    spdlog::set_default_logger(logger);
  }
  ~ClassWatchTest() override { spdlog::set_default_logger(before_); }

  void set_member(uint32_t number, uint64_t generation, MemberMeta meta, bool answered = true) {
    PeerRecord record = record_of(number, generation);
    meta.name = "m" + std::to_string(number);
    record.meta = meta;
    membership_.add(record);
    if (answered) membership_.prove(peer_of(number), generation);
  }
  // Why it refuses; empty: it does not.
  std::string refusal(uint64_t steps = 0, bool may_refuse = true) {
    try {
      watch_.look(steps, may_refuse, clock_.now());
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }
  static MemberMeta of(const std::vector<std::string>& names, uint64_t steps = 0) {
    return {.steps = steps, .classes_hash = hash_of_classes(names)};
  }

  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream log_;
  FakeClock clock_;
  RecordingOutbox outbox_;
  Membership membership_{MembershipOptions{}, record_of(0, 5), clock_, outbox_, 1, 1};
  ClassWatch watch_{{8, "8 samples, labels 0 cat, 1 dog", kNames}, membership_, clock_.now()};
};

TEST_F(ClassWatchTest, HashesNamesAndTheirOrder) {
  EXPECT_EQ(hash_of_classes({}), 0u);
  EXPECT_EQ(hash_of_classes({"cat", "dog"}), hash_of_classes(kNames));
  EXPECT_NE(hash_of_classes(kSwapped), hash_of_classes(kNames));
  EXPECT_NE(hash_of_classes({"ca", "tdog"}), hash_of_classes(kNames));
}

TEST_F(ClassWatchTest, TheLaterOfTwoThatDifferRefusesAndNamesTheOther) {
  set_member(1, 4, of(kSwapped));
  const std::string text = refusal();
  for (const std::string& part :
       std::vector<std::string>{"8 samples, labels 0 cat, 1 dog", "m1 (" + endpoint_of(1).to_string() + ")",
                                "starling check --data", "start again"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  EXPECT_NE(refusal(0), "") << "as long as it has taken no step";
}

TEST_F(ClassWatchTest, TheEarlierOfTwoGoesOn) {
  set_member(1, 6, of(kSwapped));
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(log_.str(), "") << "the other one refuses";
}

TEST_F(ClassWatchTest, AMemberWithMoreStepsWasThereFirst) {
  set_member(1, 6, of(kSwapped, 10));
  EXPECT_EQ(refusal(11), "");
  EXPECT_NE(refusal(9), "");
}

TEST_F(ClassWatchTest, EqualAndUnknownNamesAndRegistriesAreNoReason) {
  set_member(1, 1, of(kNames, 100));
  set_member(2, 1, of({}, 100));
  MemberMeta registry = of(kSwapped, 100);
  registry.role = Role::kBootstrap;
  set_member(3, 1, registry);
  EXPECT_EQ(refusal(), "");
}

TEST_F(ClassWatchTest, AnAgentWithoutNamesNeverRefuses) {
  set_member(1, 1, of(kSwapped, 100));
  ClassWatch digits({8, "8 samples, labels 0 1", {}}, membership_, clock_.now());
  EXPECT_EQ(digits.hash(), 0u);
  EXPECT_NO_THROW(digits.look(0, true, clock_.now()));
}

TEST_F(ClassWatchTest, RecordsThatNeverAnsweredDoNotCountForLong) {
  set_member(1, 1, of(kSwapped, 100), false);
  clock_.advance(std::chrono::seconds(4));
  EXPECT_EQ(refusal(), "");
}

TEST_F(ClassWatchTest, AnAgentThatTrainsWarnsOnceOfEach) {
  set_member(1, 4, of(kSwapped, 100));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(refusal(50, false), "");
  const std::string text = log_.str();
  EXPECT_EQ(text.find("m1"), text.rfind("m1")) << text;
  EXPECT_NE(text.find("stop one of them"), std::string::npos) << text;
}

}  // namespace
}  // namespace starling
