#include "gossip/pairs/commit.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

PeerId peer(uint8_t tag) {
  PeerId id;
  id.bytes[0] = tag;
  return id;
}

ExchangeId xid(uint8_t proposer, uint64_t generation, uint64_t counter) {
  return {peer(proposer), generation, counter};
}

TEST(CommitDecider, CommitsTheIntersectionAtTheSmallerScale) {
  CommitDecider decider;
  decider.open(1, peer(2));
  EXPECT_EQ(decider.vote(1), nullptr);
  EXPECT_EQ(decider.on_have(1, peer(2), {Bitmap{0b0110}, 0.5}), CommitAnswer::kNone);
  EXPECT_EQ(decider.on_have(1, peer(2), {Bitmap{0b1111}, 1}), CommitAnswer::kNone);  // it voted already
  const CommitTerms* terms = decider.commit(1, {Bitmap{0b0011}, 0.75});
  ASSERT_NE(terms, nullptr);
  EXPECT_EQ(*terms, (CommitTerms{Bitmap{0b0010}, 0.5}));
  EXPECT_FALSE(decider.abort(1));  // a commit is never undone
  EXPECT_EQ(decider.on_have(1, peer(2), {Bitmap{1}, 1}), CommitAnswer::kCommit);
  EXPECT_EQ(decider.on_query(1, peer(2)), CommitAnswer::kCommit);
  EXPECT_TRUE(decider.waits_for_ack_from(peer(2)));
  EXPECT_TRUE(decider.on_ack(1, peer(2)));
  EXPECT_EQ(decider.on_query(1, peer(2)), CommitAnswer::kAbort);
}

TEST(CommitDecider, NothingInCommonIsAnAbort) {
  CommitDecider decider;
  decider.open(1, peer(2));
  EXPECT_EQ(decider.on_have(1, peer(2), {Bitmap{0b01}, 1}), CommitAnswer::kNone);
  EXPECT_EQ(decider.commit(1, {Bitmap{0b10}, 1}), nullptr);
  EXPECT_TRUE(decider.empty());
}

TEST(CommitDecider, AQuestionAbortsWhatIsUndecided) {
  CommitDecider decider;
  decider.open(1, peer(2));
  EXPECT_EQ(decider.on_query(1, peer(2)), CommitAnswer::kAbort);
  EXPECT_EQ(decider.on_have(1, peer(2), {Bitmap{1}, 1}), CommitAnswer::kAbort);
}

TEST(CommitDecider, AStrangerChangesNothing) {
  CommitDecider decider;
  decider.open(1, peer(2));
  EXPECT_EQ(decider.on_query(1, peer(3)), CommitAnswer::kAbort);
  EXPECT_EQ(decider.on_have(1, peer(3), {Bitmap{1}, 1}), CommitAnswer::kAbort);
  EXPECT_TRUE(decider.is_open(1));
  EXPECT_EQ(decider.vote(1), nullptr);
  EXPECT_EQ(decider.on_have(1, peer(2), {Bitmap{1}, 1}), CommitAnswer::kNone);
  ASSERT_NE(decider.commit(1, {Bitmap{1}, 1}), nullptr);
  EXPECT_FALSE(decider.on_ack(1, peer(3)));
  decider.forget(2);
  EXPECT_NE(decider.decision(1), nullptr);
  decider.forget(1);
  EXPECT_TRUE(decider.empty());
}

TEST(CommitVoter, NeverAcceptsWhatItHasSeenOrWhatIsOlder) {
  CommitVoter voter;
  EXPECT_TRUE(voter.accept(xid(1, 5, 10)));
  EXPECT_FALSE(voter.accept(xid(1, 5, 10)));
  EXPECT_FALSE(voter.accept(xid(1, 5, 9)));
  EXPECT_FALSE(voter.accept(xid(1, 4, 99)));
  EXPECT_TRUE(voter.accept(xid(2, 1, 1)));  // another proposer counts by itself
  EXPECT_TRUE(voter.accept(xid(1, 6, 1)));  // a new life begins anew
  EXPECT_TRUE(voter.refuse(xid(1, 6, 2)));
  EXPECT_FALSE(voter.accept(xid(1, 6, 2)));
  voter.on_abort(xid(1, 6, 3));  // the ABORT overtook its PROPOSE
  EXPECT_FALSE(voter.accept(xid(1, 6, 3)));
  voter.forget(peer(1), 7);
  EXPECT_FALSE(voter.accept(xid(1, 6, 3)));  // forgetting ends exchanges, not what was seen
}

TEST(CommitVoter, AppliesOnceAndAcknowledgesEachRepeat) {
  CommitVoter voter;
  const ExchangeId id = xid(1, 1, 1);
  ASSERT_TRUE(voter.accept(id));
  EXPECT_EQ(voter.on_commit(id, {Bitmap{1}, 1}), CommitVoter::OnCommit::kIgnore);  // it never voted
  ASSERT_TRUE(voter.vote(id, {Bitmap{0b11}, 0.5}));
  EXPECT_FALSE(voter.vote(id, {Bitmap{0b11}, 0.5}));
  EXPECT_FALSE(voter.leave(id));  // the point of no return
  EXPECT_EQ(voter.on_commit(id, {Bitmap{0b100}, 0.5}), CommitVoter::OnCommit::kIgnore);
  EXPECT_EQ(voter.on_commit(id, {Bitmap{0b01}, 0.6}), CommitVoter::OnCommit::kIgnore);
  EXPECT_EQ(voter.on_commit(id, {Bitmap{0}, 0.5}), CommitVoter::OnCommit::kIgnore);
  EXPECT_EQ(voter.on_commit(id, {Bitmap{0b01}, 0.5}), CommitVoter::OnCommit::kApply);
  EXPECT_EQ(voter.on_commit(id, {Bitmap{0b01}, 0.5}), CommitVoter::OnCommit::kAcknowledge);
  EXPECT_FALSE(voter.on_abort(id));
}

TEST(CommitVoter, BoundsItsDoubts) {
  CommitVoter voter(2);
  for (uint64_t counter = 1; counter <= 3; ++counter) ASSERT_TRUE(voter.accept(xid(1, 1, counter)));
  EXPECT_TRUE(voter.vote(xid(1, 1, 1), {Bitmap{1}, 1}));
  EXPECT_TRUE(voter.vote(xid(1, 1, 2), {Bitmap{1}, 1}));
  EXPECT_FALSE(voter.may_vote());
  EXPECT_FALSE(voter.vote(xid(1, 1, 3), {Bitmap{1}, 1}));
  EXPECT_TRUE(voter.on_abort(xid(1, 1, 1)));
  EXPECT_TRUE(voter.vote(xid(1, 1, 3), {Bitmap{1}, 1}));
  voter.forget(peer(1), 1);  // this very life goes on
  EXPECT_EQ(voter.in_doubt_count(), 2u);
  voter.forget(peer(1), 2);
  EXPECT_EQ(voter.in_doubt_count(), 0u);
  EXPECT_EQ(voter.on_commit(xid(1, 1, 3), {Bitmap{1}, 1}), CommitVoter::OnCommit::kAcknowledge);
}

TEST(CommitVoter, AParkedDoubtFreesItsPlaceAndStaysADoubt) {
  CommitVoter voter(1);
  for (uint8_t tag = 1; tag <= 3; ++tag) ASSERT_TRUE(voter.accept(xid(tag, 1, 1)));
  ASSERT_TRUE(voter.vote(xid(1, 1, 1), {Bitmap{0b11}, 1}));
  voter.park(xid(1, 1, 1));
  voter.park(xid(1, 1, 1));
  EXPECT_EQ(voter.parked_count(), 1u);
  ASSERT_TRUE(voter.vote(xid(2, 1, 1), {Bitmap{1}, 1}));
  EXPECT_FALSE(voter.vote(xid(3, 1, 1), {Bitmap{1}, 1}));
  EXPECT_EQ(voter.in_doubt_count(), 2u);
  EXPECT_EQ(voter.on_commit(xid(1, 1, 1), {Bitmap{0b01}, 1}), CommitVoter::OnCommit::kApply);
  EXPECT_EQ(voter.parked_count(), 0u);
  EXPECT_FALSE(voter.may_vote());  // the other one never was parked

  voter.park(xid(2, 1, 1));
  voter.break_doubt(xid(2, 1, 1));
  EXPECT_EQ(voter.parked_count(), 0u);
  EXPECT_EQ(voter.in_doubt_count(), 0u);
  EXPECT_EQ(voter.on_commit(xid(2, 1, 1), {Bitmap{1}, 1}), CommitVoter::OnCommit::kAcknowledge);  // never applied

  ASSERT_TRUE(voter.vote(xid(3, 1, 1), {Bitmap{1}, 1}));
  voter.park(xid(3, 1, 1));
  voter.forget(peer(3), UINT64_MAX);
  EXPECT_EQ(voter.parked_count(), 0u);
  EXPECT_TRUE(voter.may_vote());
}

}  // namespace
}  // namespace starling
