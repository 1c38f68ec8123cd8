#include "gossip/pairs/peer_blocks.h"

#include <gtest/gtest.h>

#include "gossip/pairs/early_pair_blocks.h"

namespace starling {
namespace {

SharedBytes bytes_of(size_t size) {
  auto owner = std::make_shared<std::vector<std::byte>>(size);
  return {owner, owner->data(), owner->size()};
}

TEST(Bitmap, KnowsItsLengthAndItsPadding) {
  Bitmap bits = make_bitmap(10);
  EXPECT_EQ(bits.size(), 2u);
  set_bit(bits, 0);
  set_bit(bits, 9);
  EXPECT_EQ(bits, (Bitmap{0x01, 0x02}));
  EXPECT_EQ(count_bits(bits), 2u);
  EXPECT_TRUE(fits(bits, 10));
  EXPECT_FALSE(fits(bits, 9));  // bit 9 lies past the last block
  EXPECT_FALSE(fits(bits, 17));
  EXPECT_TRUE(fits({0xFF}, 8));
  EXPECT_FALSE(fits({}, 1));
  EXPECT_TRUE(subset({0x01, 0x00}, bits));
  EXPECT_FALSE(subset({0x03, 0x00}, bits));
  EXPECT_FALSE(subset({0x01}, bits));
  EXPECT_EQ(intersection(bits, {0x03, 0x03}), bits);
  EXPECT_TRUE(intersection(bits, {0x01}).empty());
}

Bitmap all(size_t count) {
  Bitmap bits = make_bitmap(count);
  for (size_t i = 0; i < count; ++i) set_bit(bits, i);
  return bits;
}

TEST(PeerBlocks, TellsWhatPassedAndWhatIsStillOpen) {
  PeerBlocks blocks(all(4), 4, 8);
  EXPECT_FALSE(blocks.all_judged());
  for (size_t i = 0; i < 3; ++i) blocks.arrived(i, bytes_of(16));
  EXPECT_EQ(blocks.judging_count(), 3u);
  blocks.judged(0, BlockVerdict::kPassed, {.squared_distance = 2});
  blocks.judged(1, BlockVerdict::kRefused, {});
  blocks.judged(2, BlockVerdict::kLeftOut, {});
  EXPECT_EQ(blocks.passed(), Bitmap{0b0001});
  EXPECT_EQ(blocks.stats(0).squared_distance, 2);
  EXPECT_TRUE(blocks.all_judged(Bitmap{0b0111}));
  EXPECT_FALSE(blocks.all_judged(Bitmap{0b1000}));
  EXPECT_TRUE(blocks.late_outside(Bitmap{0b0001}));   // block 3 never came
  EXPECT_FALSE(blocks.late_outside(Bitmap{0b1001}));  // refused and wrapped ones are not late
}

TEST(PeerBlocks, FreesWhatItDoesNotNeed) {
  PeerBlocks blocks(all(3), 3, 8);
  std::vector<std::weak_ptr<const void>> alive;
  for (size_t i = 0; i < 3; ++i) {
    SharedBytes payload = bytes_of(16);
    alive.push_back(payload.owner);
    blocks.arrived(i, std::move(payload));
  }
  blocks.judged(0, BlockVerdict::kRefused, {});
  EXPECT_TRUE(alive[0].expired());
  blocks.judged(1, BlockVerdict::kPassed, {});
  blocks.judged(2, BlockVerdict::kPassed, {});
  const std::vector<SharedBytes> taken = blocks.take(Bitmap{0b010});
  EXPECT_FALSE(alive[1].expired());
  EXPECT_TRUE(alive[2].expired());
  EXPECT_EQ(taken[1].size, 16u);
  EXPECT_TRUE(taken[0].empty() && taken[2].empty());
}

TEST(PeerBlocks, CreditGrowsByHalfWindowsUpToTheEnd) {
  PeerBlocks blocks(all(10), 10, 4);
  EXPECT_EQ(blocks.credit(), 4u);
  EXPECT_EQ(blocks.next_credit(), std::nullopt);
  blocks.arrived(0, bytes_of(1));
  EXPECT_EQ(blocks.next_credit(), std::nullopt);
  blocks.arrived(1, bytes_of(1));
  EXPECT_EQ(blocks.next_credit(), 6u);
  blocks.arrived(5, bytes_of(1));  // 2..4 are lost: the highest index counts
  EXPECT_EQ(blocks.next_credit(), 10u);
  EXPECT_EQ(blocks.next_credit(), std::nullopt);
}

// Of a fragment: two runs of blocks. What lies between them needs no credit, is never missing, and nobody waits for it.
TEST(PeerBlocks, WhatIsNotDueIsNeitherMissingNorCounted) {
  Bitmap due = make_bitmap(20);
  for (size_t i : {2, 3, 4, 12, 13, 14}) set_bit(due, i);
  PeerBlocks blocks(due, 20, 4);
  EXPECT_EQ(blocks.due_count(), 6u);
  EXPECT_EQ(blocks.missing_count(), 6u);
  EXPECT_EQ(blocks.verdict(0), BlockVerdict::kNotDue);
  EXPECT_EQ(blocks.credit(), 13u) << "four due blocks: 2, 3, 4 and 12";
  blocks.arrived(2, bytes_of(1));
  EXPECT_EQ(blocks.next_credit(), std::nullopt);
  blocks.arrived(3, bytes_of(1));
  EXPECT_EQ(blocks.next_credit(), 20u) << "two more, and nothing is due behind them";
  blocks.arrived(4, bytes_of(1));
  for (size_t i : {12, 13, 14}) blocks.arrived(i, bytes_of(1));
  EXPECT_EQ(blocks.missing_count(), 0u);
  for (size_t i : {2, 3, 4, 12, 13}) blocks.judged(i, BlockVerdict::kPassed, {});
  EXPECT_FALSE(blocks.all_judged());
  blocks.judged(14, BlockVerdict::kPassed, {});
  EXPECT_TRUE(blocks.all_judged());
  EXPECT_TRUE(blocks.all_judged(all(20)));
  EXPECT_EQ(blocks.passed(), due);
  EXPECT_FALSE(blocks.late_outside(due));
}

TEST(PeerBlocks, SmallPayloadsNeedNoCredit) {
  PeerBlocks blocks(all(3), 3, 64);
  EXPECT_EQ(blocks.credit(), 3u);
  blocks.arrived(2, bytes_of(1));
  EXPECT_EQ(blocks.next_credit(), std::nullopt);
}

ExchangeId xid(uint8_t proposer, uint64_t counter) {
  ExchangeId id{.generation = 1, .counter = counter};
  id.proposer.bytes[0] = proposer;
  return id;
}

TEST(EarlyPairBlocks, HoldsTheNewestExchangeOfAProposer) {
  const TimePoint later{std::chrono::seconds(1)};
  EarlyPairBlocks early;
  EXPECT_TRUE(early.add({xid(1, 5), 0, 0}, bytes_of(8), later));
  EXPECT_TRUE(early.add({xid(1, 5), 1, 0}, bytes_of(8), later));
  EXPECT_FALSE(early.add({xid(1, 4), 0, 0}, bytes_of(8), later));
  EXPECT_TRUE(early.take(xid(1, 4)).empty());  // too old to clear what is held
  EXPECT_EQ(early.take(xid(1, 5)).size(), 2u);
  EXPECT_TRUE(early.take(xid(1, 5)).empty());
  EXPECT_TRUE(early.add({xid(1, 5), 0, 0}, bytes_of(8), later));
  EXPECT_TRUE(early.add({xid(1, 6), 0, 0}, bytes_of(8), later));
  EXPECT_EQ(early.take(xid(1, 6)).size(), 1u);
}

TEST(EarlyPairBlocks, IsBoundedAndExpires) {
  const TimePoint later{std::chrono::seconds(1)};
  EarlyPairBlocks early;
  EXPECT_TRUE(early.add({xid(1, 1), 0, 0}, bytes_of(100 * 1024), later));
  EXPECT_FALSE(early.add({xid(1, 1), 1, 0}, bytes_of(100 * 1024), later));
  for (uint8_t peer = 2; peer <= EarlyPairBlocks::kPeersMax; ++peer) {
    EXPECT_TRUE(early.add({xid(peer, 1), 0, 0}, bytes_of(8), later));
  }
  EXPECT_FALSE(early.add({xid(200, 1), 0, 0}, bytes_of(8), later));
  EXPECT_EQ(early.next_expiry(), later);
  early.expire(later - std::chrono::nanoseconds(1));
  EXPECT_EQ(early.next_expiry(), later);
  early.expire(later);
  EXPECT_EQ(early.next_expiry(), TimePoint::max());
}

TEST(EarlyPairBlocks, AllTogetherAreBoundedToo) {
  const TimePoint later{std::chrono::seconds(1)};
  EarlyPairBlocks early(2 << 20, 4 << 20);
  EXPECT_TRUE(early.add({xid(1, 1), 0, 0}, bytes_of(2 << 20), later));
  EXPECT_TRUE(early.add({xid(2, 1), 0, 0}, bytes_of(2 << 20), later));
  EXPECT_FALSE(early.add({xid(3, 1), 0, 0}, bytes_of(1), later));
  (void)early.take(xid(1, 1));
  EXPECT_TRUE(early.add({xid(3, 1), 0, 0}, bytes_of(2 << 20), later));
}

}  // namespace
}  // namespace starling
