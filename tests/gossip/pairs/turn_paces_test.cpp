// Who takes longer steps than the others, by what each says of its own.
#include "gossip/pairs/turn_paces.h"

#include <gtest/gtest.h>

#include <limits>
#include <tuple>
#include <vector>

#include "tests/gossip/exchange/harness.h"

namespace starling::exchange_test {
namespace {

constexpr Duration kUsual = milliseconds(40);

std::vector<PeerId> others(size_t count) {
  std::vector<PeerId> peers;
  for (size_t a = 0; a < count; ++a) peers.push_back(test_peer(static_cast<uint8_t>(2 + a)));
  return peers;
}

TurnPaces among(size_t count, Duration own = kUsual) {
  TurnPaces paces;
  paces.stepped(own);
  for (const PeerId& peer : others(count)) paces.heard(peer, kUsual);
  paces.compare_with(others(count));
  return paces;
}

TEST(TurnPaces, WhoTakesMoreThanHalfAgainAsLongIsSlow) {
  for (const auto& [its, slow] : {std::pair{milliseconds(59), false},
                                  {milliseconds(60), false},
                                  {milliseconds(61), true},
                                  {milliseconds(320), true}}) {
    TurnPaces paces = among(7);
    paces.heard(test_peer(5), its);
    paces.compare_with(others(7));
    std::vector<PeerId> found;
    paces.add_slow(found);
    EXPECT_EQ(paces.slow(test_peer(5)), slow) << its.count();
    EXPECT_EQ(found, slow ? std::vector<PeerId>{test_peer(5)} : std::vector<PeerId>());
    EXPECT_FALSE(paces.slow());
    EXPECT_EQ(among(7, its).slow(), slow);
  }
}

// So that the others still have each other; of two agents neither is slow.
TEST(TurnPaces, LessThanHalfAreSlow) {
  for (size_t count = 1; count <= 9; ++count) {
    for (size_t slow = 0; slow <= count; ++slow) {
      TurnPaces paces;
      paces.stepped(kUsual);
      for (size_t a = 0; a < count; ++a) paces.heard(others(count)[a], a < slow ? 8 * kUsual : kUsual);
      paces.compare_with(others(count));
      std::vector<PeerId> found;
      paces.add_slow(found);
      EXPECT_EQ(found.size(), count >= 2 && 2 * slow < count + 1 ? slow : 0) << slow << " of " << count + 1;
    }
  }
}

TEST(TurnPaces, WhoseUplinkTakesLongIsSlow) {
  for (const auto& [upload, slow, thin] : {std::tuple{milliseconds(10), false, false},
                                           {milliseconds(30), true, false},
                                           {milliseconds(50), true, true},
                                           {milliseconds(400), true, true}}) {
    TurnPaces paces = among(7);
    paces.sends_in(upload);
    EXPECT_EQ(paces.own(), kUsual + upload);
    EXPECT_EQ(paces.slow(), slow) << upload.count();
    EXPECT_EQ(paces.thin(), thin) << upload.count();
    for (const PeerId& peer : others(7)) paces.heard(peer, kUsual + upload);
    paces.compare_with(others(7));
    EXPECT_FALSE(paces.slow()) << "all are on such links";
    EXPECT_FALSE(paces.thin());
  }
  EXPECT_FALSE(among(7, 8 * kUsual).thin()) << "by its steps";
}

TEST(TurnPaces, OneLongStepIsNoSlowAgent) {
  TurnPaces paces;
  EXPECT_EQ(paces.own(), Duration::zero());
  for (int i = 0; i < 40; ++i) {
    paces.stepped(i % 5 < 2 ? std::chrono::seconds(3) : kUsual);  // an evaluation, a checkpoint
    if (i >= 8) {
      EXPECT_EQ(paces.own(), kUsual) << i;
    }
  }
  for (int i = 0; i < 5; ++i) paces.stepped(4 * kUsual);
  EXPECT_EQ(paces.own(), 4 * kUsual) << "it has become slower";
}

TEST(TurnPaces, LiarsMakeNobodySlowButThemselves) {
  for (const Duration lie : {Duration(1), Duration(std::chrono::microseconds(std::numeric_limits<uint32_t>::max()))}) {
    TurnPaces paces = among(7);
    for (uint8_t liar = 2; liar <= 4; ++liar) paces.heard(test_peer(liar), lie);
    paces.compare_with(others(7));
    EXPECT_FALSE(paces.slow());
    for (uint8_t honest = 5; honest <= 8; ++honest) EXPECT_FALSE(paces.slow(test_peer(honest)));
    EXPECT_EQ(paces.slow(test_peer(2)), lie > kUsual);
  }
}

// Programs of before say nothing.
TEST(TurnPaces, WhoSaysNothingIsNotSlow) {
  TurnPaces paces;
  paces.stepped(8 * kUsual);
  for (const PeerId& peer : others(7)) paces.heard(peer, Duration::zero());
  paces.compare_with(others(7));
  EXPECT_FALSE(paces.slow());
  EXPECT_FALSE(paces.slow(test_peer(2)));
  paces.heard(test_peer(2), kUsual);
  paces.heard(test_peer(3), kUsual);
  paces.compare_with(others(7));
  EXPECT_TRUE(paces.slow());
  paces.heard(test_peer(2), Duration::zero());
  paces.forget(test_peer(3));
  paces.compare_with(others(7));
  EXPECT_FALSE(paces.slow()) << "two times are too few";
  paces.heard(test_peer(9), kUsual);
  paces.compare_with(others(7));
  EXPECT_FALSE(paces.slow()) << "it is none of those that are compared";
}

TEST(TurnPaces, ManyIdsFillNoMemory) {
  TurnPaces paces = among(2, 8 * kUsual);
  for (uint32_t i = 0; i < 3 * kMembersMax; ++i) {
    PeerId id = test_peer(200);
    std::memcpy(id.bytes.data(), &i, sizeof i);
    paces.heard(id, std::chrono::hours(1));
  }
  std::vector<PeerId> found;
  paces.compare_with(others(2));
  paces.add_slow(found);
  EXPECT_LE(found.size(), kMembersMax);
}

}  // namespace
}  // namespace starling::exchange_test
