// What is known of a path to a peer, for how long, and which paths are looked at.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "agent/process/path_check.h"
#include "gossip/clock.h"
#include "tests/support/fake_clock.h"

namespace starling {
namespace {

using std::chrono::seconds;

const PathFound kOpen{.known = true, .named = true, .accepts = true, .text = "10.0.0.1 accepts connections"};
const PathFound kShut{.known = true, .named = true, .accepts = false, .text = "10.0.0.1: no route to host"};

Endpoint peer(int number) {
  return {"10.0." + std::to_string(number / 250) + "." + std::to_string(number % 250), 7400};
}

class KnownPathsTest : public ::testing::Test {
 protected:
  PathFound find(const Endpoint& to) { return paths_.find(to, clock_.now()); }
  void answer(const Endpoint& to, const PathFound& found) { paths_.found(to, found, clock_.now()); }

  FakeClock clock_;
  KnownPaths paths_;
};

TEST_F(KnownPathsTest, AsksOnceUntilThereIsAnAnswer) {
  EXPECT_FALSE(find(peer(1)).known);
  EXPECT_FALSE(find(peer(1)).known);
  EXPECT_EQ(paths_.next(), peer(1));
  EXPECT_FALSE(paths_.next());
  clock_.advance(seconds(60));
  find(peer(1));
  EXPECT_FALSE(paths_.next()) << "the first look still goes on";
  answer(peer(1), kShut);
  EXPECT_EQ(find(peer(1)).text, kShut.text);
  EXPECT_FALSE(paths_.next());
}

TEST_F(KnownPathsTest, AsksAnewAfterTwentySecondsAndSaysTheOldAnswerMeanwhile) {
  find(peer(1));
  paths_.next();
  answer(peer(1), kShut);
  clock_.advance(seconds(20));
  find(peer(1));
  EXPECT_FALSE(paths_.next());
  clock_.advance(seconds(1));
  EXPECT_EQ(find(peer(1)).text, kShut.text);
  EXPECT_EQ(paths_.next(), peer(1));
}

TEST_F(KnownPathsTest, AcceptsOnlyWhatHasTakenConnectionsForSomeSeconds) {
  find(peer(1));
  paths_.next();
  answer(peer(1), kShut);
  clock_.advance(seconds(21));
  answer(peer(1), kOpen);
  EXPECT_FALSE(find(peer(1)).accepts);
  clock_.advance(seconds(5));
  EXPECT_FALSE(find(peer(1)).accepts);
  answer(peer(1), kOpen);
  clock_.advance(seconds(1));
  EXPECT_TRUE(find(peer(1)).accepts) << "since the first of the two";
  answer(peer(1), kShut);
  EXPECT_FALSE(find(peer(1)).accepts);
}

TEST_F(KnownPathsTest, AFewLooksWaitAtOnceAndTheOthersAreAskedForLater) {
  for (int i = 0; i < 12; ++i) find(peer(i));
  int looks = 0;
  while (paths_.next()) ++looks;
  EXPECT_EQ(looks, 8);
  find(peer(11));
  EXPECT_EQ(paths_.next(), peer(11));
}

// A lookup that answers for a path that has been forgotten adds it again, so only asked ones may outgrow the bound.
TEST_F(KnownPathsTest, ManyPathsAreForgottenButThoseUnderWay) {
  find(peer(0));
  ASSERT_EQ(paths_.next(), peer(0));
  for (int i = 1; i < 1000; ++i) {
    find(peer(i));
    if (const auto to = paths_.next()) answer(*to, kShut);
  }
  find(peer(0));
  EXPECT_FALSE(paths_.next()) << "it is still looked at";
  EXPECT_FALSE(find(peer(1)).known) << "forgotten";
  EXPECT_EQ(find(peer(999)).text, kShut.text);
}

}  // namespace
}  // namespace starling
