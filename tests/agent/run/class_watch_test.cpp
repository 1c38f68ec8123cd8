// Which of two members that name their classes differently gives way, and what is said.
#include "agent/run/class_watch.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "gossip/rng.h"
#include "tests/gossip/membership/membership_support.h"
#include "tests/support/log_text.h"

namespace starling {
namespace {

const std::vector<std::string> kNames = {"cat", "dog"}, kSwapped = {"dog", "cat"};

class ClassWatchTest : public testing::Test {
 protected:
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

  LogText log_;
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
  EXPECT_EQ(log_.text(), "") << "the other one refuses";
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
  const std::string text = log_.text();
  EXPECT_EQ(text.find("m1"), text.rfind("m1")) << text;
  EXPECT_NE(text.find("stop one of them"), std::string::npos) << text;
}

// 4 agents with parts of ten labels; and samples of one distribution, drawn apart.
TEST(LabelsTest, HashesOfLikeSharesAreNearAndOfOtherLabelsFar) {
  const auto apart = [](const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
    return std::popcount(hash_of_labels(a) ^ hash_of_labels(b));
  };
  Rng rng(std::random_device{}());
  const auto drawn = [&](std::vector<uint64_t> shares, int samples) {
    std::vector<uint64_t> counts(shares.size());
    uint64_t all = 0;
    for (const uint64_t share : shares) all += share;
    for (int i = 0; i < samples; ++i) {
      uint64_t at = rng.below(static_cast<uint32_t>(all));
      size_t label = 0;
      while (at >= shares[label]) at -= shares[label++];
      ++counts[label];
    }
    return counts;
  };
  EXPECT_EQ(hash_of_labels({}), 0u);
  EXPECT_EQ(hash_of_labels(std::vector<uint64_t>{0, 0}), 0u);
  for (const size_t classes : {2u, 10u, 100u, 1000u}) {
    const std::vector<uint64_t> even(classes, 1);
    for (int i = 0; i < 20; ++i) {
      EXPECT_LT(apart(drawn(even, static_cast<int>(100 * classes)), drawn(even, static_cast<int>(100 * classes))), 16)
          << classes;
    }
    std::vector<uint64_t> low(classes), high(classes);
    for (size_t i = 0; i < classes; ++i) (i < classes / 2 ? low : high)[i] = 100 * (1 + rng.below(9));
    const uint64_t of_few = hash_of_labels(drawn(even, static_cast<int>(2 * classes)));
    EXPECT_TRUE(classes < 100 || of_few == 0) << "too few to tell";
    EXPECT_GE(apart(low, high), 16) << classes << ": no label in common";
  }
  EXPECT_EQ(apart({10, 20, 30}, {1000, 2000, 3000}), 0) << "shares count, not numbers";
}

TEST_F(ClassWatchTest, WarnsOfOtherLabelsWithAdamOnce) {
  const std::vector<uint64_t> own = {100, 90, 110, 0, 0, 0, 0, 0, 0, 0}, other = {0, 0, 0, 70, 100, 90, 0, 0, 0, 0};
  ClassWatch adam({300, "300 samples, labels 0 1 2", {}, own, true}, membership_, clock_.now());
  ClassWatch sgd({300, "300 samples, labels 0 1 2", {}, own, false}, membership_, clock_.now());
  MemberMeta meta;
  meta.labels_hash = hash_of_labels(std::vector<uint64_t>{99, 91, 111});
  set_member(1, 7, meta);
  adam.look(0, false, clock_.now());
  EXPECT_EQ(log_.text(), "") << "the same labels";
  meta.labels_hash = hash_of_labels(other);
  for (uint32_t i = 2; i <= 3; ++i) set_member(i, 7, meta);
  sgd.look(0, false, clock_.now());
  EXPECT_EQ(log_.text(), "") << "SGD learns";
  for (int i = 0; i < 3; ++i) adam.look(5, false, clock_.now());
  EXPECT_NE(log_.text().find("(300 samples, labels 0 1 2) are others than those of m"), std::string::npos)
      << log_.text();
  EXPECT_EQ(log_.text().find("with Adam"), log_.text().rfind("with Adam")) << "once";
}

}  // namespace
}  // namespace starling
