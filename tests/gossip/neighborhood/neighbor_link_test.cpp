// One neighbor as an agent remembers it: its last payload, its credits, its pace.
#include "gossip/neighborhood/neighbor_link.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace starling {
namespace {

using std::chrono::milliseconds;

constexpr size_t kBlocks = 4;
constexpr uint32_t kWindow = 2;

SharedBytes payload(char filling) {
  const std::vector<std::byte> bytes(8, static_cast<std::byte>(filling));
  return SharedBytes::copy_of(bytes);
}

class NeighborLinkTest : public testing::Test {
 protected:
  NeighborLinkTest() : link({.deadline_min = milliseconds(1), .deadline_max = milliseconds(80)}, kBlocks, kWindow) {}

  void begin(uint64_t round) { link.begin_round(round, std::vector<SharedBytes>(kBlocks, payload('o')), now); }

  // False: it came before.
  bool receive(uint64_t peer_round, uint32_t index, uint64_t own_round, bool good = true) {
    const RoundBlock block{0, peer_round, 0, index, 1, 0};
    if (!link.arrived(block)) return false;
    if (!link.wants(block)) return true;
    link.judging(8);
    (void)link.judged({peer_round, index, payload('p'), good, 1}, own_round, now);
    return true;
  }
  void receive_all(uint64_t peer_round, uint64_t own_round) {
    for (uint32_t index = 0; index < kBlocks; ++index) EXPECT_TRUE(receive(peer_round, index, own_round));
  }
  std::vector<BlockOutcome> use_all(uint64_t round) {
    std::vector<BlockOutcome> outcomes;
    for (size_t index = 0; index < kBlocks; ++index) outcomes.push_back(link.use(index, round));
    return outcomes;
  }

  TimePoint now{};
  NeighborLink link;
};

std::vector<BlockOutcome> all(BlockOutcome outcome) { return std::vector<BlockOutcome>(kBlocks, outcome); }

TEST_F(NeighborLinkTest, APayloadCountsOnceAsNewAndThenAsOldUntilItsAgeIsOver) {
  begin(1);
  receive_all(1, 1);
  EXPECT_TRUE(link.fresh());
  EXPECT_EQ(use_all(1), all(BlockOutcome::kCounted));
  for (uint64_t round = 2; round <= 1 + NeighborLink::kAgeMax; ++round) {
    begin(round);
    EXPECT_FALSE(link.fresh());
    EXPECT_EQ(use_all(round), all(BlockOutcome::kOld)) << "round " << round;
  }
  EXPECT_EQ(use_all(2 + NeighborLink::kAgeMax), all(BlockOutcome::kMissing));
}

TEST_F(NeighborLinkTest, ABadPayloadIsRefusedOnceAndDoesNotReplaceAGoodOne) {
  begin(1);
  EXPECT_TRUE(receive(1, 0, 1, false));
  EXPECT_FALSE(link.heard());
  EXPECT_EQ(link.use(0, 1), BlockOutcome::kRefused);
  EXPECT_EQ(link.use(0, 1), BlockOutcome::kMissing);
  EXPECT_TRUE(receive(2, 0, 1));
  EXPECT_TRUE(receive(3, 0, 1, false));
  EXPECT_TRUE(link.heard());
  EXPECT_EQ(link.use(0, 1), BlockOutcome::kCounted);
}

TEST_F(NeighborLinkTest, KnowsDuplicatesAndKeepsTheNewestRound) {
  begin(1);
  EXPECT_TRUE(receive(5, 0, 1));
  EXPECT_FALSE(receive(5, 0, 1));
  EXPECT_EQ(link.peer_round(), 5u);
  EXPECT_TRUE(receive(6, 1, 1));  // a new stream: block 0 is due again
  EXPECT_TRUE(receive(6, 0, 1));
  EXPECT_FALSE(link.wants({0, 5, 0, 0, 1, 0})) << "older than the payload held";
  EXPECT_TRUE(link.wants({0, 5, 0, 2, 1, 0})) << "of no block is an older payload worse than none";
}

// Jobs end in any order.
TEST_F(NeighborLinkTest, AnOlderPayloadThatIsJudgedLaterDoesNotReplaceTheNewer) {
  begin(1);
  for (int i = 0; i < 2; ++i) link.judging(8);
  EXPECT_TRUE(link.judged({6, 0, payload('n'), true, 4}, 1, now));
  EXPECT_FALSE(link.judged({5, 0, payload('o'), true, 9}, 1, now));
  EXPECT_EQ(link.payload(0).data[0], static_cast<std::byte>('n'));
  EXPECT_EQ(link.squared_distance(0), 4);
}

TEST_F(NeighborLinkTest, BlocksBeingJudgedAreBounded) {
  begin(1);
  size_t wanted = 0;
  for (uint64_t round = 1; round <= 100; ++round) {
    if (!link.wants({0, round, 0, 0, 1, 0})) continue;
    link.judging(8);
    ++wanted;
  }
  EXPECT_EQ(wanted, 2 * kBlocks);
}

TEST_F(NeighborLinkTest, PaysOutCreditAndRepeatsItWhileBlocksAreMissing) {
  begin(1);
  const RoundBlock first{0, 1, 0, 0, 1, 0};
  ASSERT_TRUE(link.arrived(first));
  const std::optional<RoundCredit> credit = link.credit_after(first, now);
  ASSERT_TRUE(credit.has_value());
  EXPECT_EQ(credit->credit, 3u);  // one received, and a window of two
  EXPECT_FALSE(link.repeated_credit(now).has_value());
  now = link.credit_repeat_at();
  EXPECT_EQ(now, TimePoint() + milliseconds(10));  // an eighth of the longest deadline
  ASSERT_TRUE(link.repeated_credit(now).has_value());
  EXPECT_EQ(link.credit_repeat_at(), now + milliseconds(10));
  for (uint32_t index = 1; index < kBlocks; ++index) {
    const RoundBlock block{0, 1, 0, index, 1, 0};
    ASSERT_TRUE(link.arrived(block));
    (void)link.credit_after(block, now);
  }
  EXPECT_EQ(link.credit_repeat_at(), TimePoint::max()) << "all are here";
}

TEST_F(NeighborLinkTest, SendsWithinTheCreditAndNothingAfterCancel) {
  std::vector<uint32_t> sent;
  const auto send = [&](uint32_t index, const SharedBytes&) { sent.push_back(index); };
  EXPECT_FALSE(link.takes_credit());
  begin(1);
  EXPECT_TRUE(link.takes_credit());
  link.pump(send);
  EXPECT_EQ(sent, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(link.bytes_sent(), 16u);
  link.grant(3);
  link.pump(send);
  EXPECT_EQ(sent.size(), 3u);
  EXPECT_FALSE(link.drained());
  link.cancel();
  link.grant(4);
  link.pump(send);
  EXPECT_EQ(sent.size(), 3u);
  EXPECT_FALSE(link.takes_credit());
}

TEST_F(NeighborLinkTest, TheWaitForALatePayloadIsMeasuredFromTheFirstRoundThatLackedIt) {
  for (uint64_t round = 1; round <= AdaptiveDeadline::kSamplesMin; ++round) {
    begin(2 * round);
    now += milliseconds(10);
    link.end_round(false, milliseconds(10));  // nothing came: counts as twice the deadline
    begin(2 * round + 1);
    now += milliseconds(15);
    receive_all(2 * round + 1, 2 * round + 1);  // 25 ms after the first of the two began
    link.end_round(true, milliseconds(10));
  }
  EXPECT_NEAR(seconds(link.lateness().usual()), 0.025, 1e-9);  // the upper median of as many 20 ms and 25 ms
}

TEST(NeighborPace, IsThePartOfRecentRoundsWithNewsAndOneUntilItIsKnown) {
  NeighborPace pace;
  for (int round = 1; round < NeighborPace::kHistoryMin; ++round) {
    pace.add(false);
    EXPECT_EQ(pace.value(), 1);
  }
  pace.add(true);
  EXPECT_EQ(pace.value(), 0.25);
  for (int round = 0; round < NeighborPace::kHistory; ++round) pace.add(round % 2 == 0);
  EXPECT_EQ(pace.value(), 0.5) << "only the last rounds count";
}

}  // namespace
}  // namespace starling
