// Whom agents by turns meet by a schedule that they reckon alike.
#include "gossip/pairs/turn_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "gossip/rng.h"
#include "tests/gossip/exchange/harness.h"

namespace starling::exchange_test {
namespace {

constexpr uint64_t kSlots = TurnSchedule::kSlots;

std::vector<PeerId> all_but(size_t own, size_t count) {
  std::vector<PeerId> others;
  for (size_t a = 0; a < count; ++a) {
    if (a != own) others.push_back(test_peer(static_cast<uint8_t>(1 + a)));
  }
  return others;
}

size_t index_of(const PeerId& peer, size_t count) {
  for (size_t a = 0; a < count; ++a) {
    if (peer == test_peer(static_cast<uint8_t>(1 + a))) return a;
  }
  return count;
}

std::vector<TurnSchedule> schedules_of(size_t count) {
  std::vector<TurnSchedule> all;
  for (size_t a = 0; a < count; ++a) all.emplace_back(test_peer(static_cast<uint8_t>(1 + a)));
  return all;
}

// Whom each meets in this slot of a boundary, which is over then; itself: it rests.
std::vector<size_t> meet(std::vector<TurnSchedule>& all, uint64_t which) {
  std::vector<size_t> partners;
  for (size_t a = 0; a < all.size(); ++a) {
    partners.push_back(a);
    if (all[a].slot() % kSlots != which || !all[a].partner()) continue;
    partners.back() = index_of(*all[a].partner(), all.size());
    all[a].tried();
  }
  return partners;
}

TEST(TurnSchedule, EachIsThePartnerOfItsPartner) {
  for (size_t count = 2; count <= 17; ++count) {
    for (uint64_t slots = 1; slots <= TurnSchedule::slots_to_mix(count); ++slots) {
      std::vector<TurnSchedule> all = schedules_of(count);
      std::vector<std::vector<bool>> met(count, std::vector<bool>(count));
      for (uint64_t boundary = 1; boundary <= 2 * count * kSlots; ++boundary) {
        for (size_t a = 0; a < count; ++a) all[a].begin(1, slots, all_but(a, count));
        for (uint64_t slot = 0; slot < slots; ++slot) {
          const std::vector<size_t> partners = meet(all, slot);
          size_t rest = 0;
          for (size_t a = 0; a < count; ++a) {
            EXPECT_EQ(partners[partners[a]], a);
            met[a][partners[a]] = true;
            rest += partners[a] == a;
          }
          EXPECT_EQ(rest, count % 2) << count;
        }
        EXPECT_EQ(all[0].open(), 0u);
      }
      // No pair of agents is the only link between two halves for long: each meets every other, or every second one.
      for (size_t a = 0; a < count; ++a) {
        EXPECT_GE(std::count(met[a].begin(), met[a].end(), true), static_cast<std::ptrdiff_t>(count / 2)) << count;
      }
    }
  }
}

TEST(TurnSchedule, AsManySlotsAsTheLogarithmBringTheMean) {
  for (const size_t count : {2, 4, 8, 16, 64}) {
    const uint64_t cycle = TurnSchedule::slots_to_mix(count);
    EXPECT_EQ(size_t{1} << cycle, count);
    std::vector<TurnSchedule> all = schedules_of(count);
    for (int boundary = 1; boundary < 30; ++boundary) {
      std::vector<double> params(count);
      for (size_t a = 0; a < count; ++a) params[a] = static_cast<double>(a * a);
      double mean = 0;
      for (const double one : params) mean += one / static_cast<double>(count);
      for (size_t a = 0; a < count; ++a) all[a].begin(1, cycle, all_but(a, count));
      for (uint64_t slot = 0; slot < cycle; ++slot) {
        const std::vector<size_t> partners = meet(all, slot);
        std::vector<double> mixed(count);
        for (size_t a = 0; a < count; ++a) mixed[a] = (params[a] + params[partners[a]]) / 2;
        params = mixed;
      }
      for (const double one : params) EXPECT_NEAR(one, mean, 1e-9 * mean) << count;
    }
  }
}

TEST(TurnSchedule, APeerIsExpectedInItsSlotsOnceEach) {
  TurnSchedule schedule(test_peer(1));
  EXPECT_FALSE(schedule.expects(test_peer(2), kSlots)) << "there is none yet";
  schedule.begin(1, 2, all_but(0, 4));
  const uint64_t slot = schedule.slot();
  const PeerId partner = *schedule.partner();
  EXPECT_TRUE(schedule.expects(partner, slot));
  for (uint8_t tag = 1; tag <= 5; ++tag) EXPECT_EQ(schedule.expects(test_peer(tag), slot), test_peer(tag) == partner);
  schedule.tried();
  EXPECT_TRUE(schedule.expects(partner, slot)) << "it may come late";
  schedule.mixed(partner, slot);
  EXPECT_FALSE(schedule.expects(partner, slot));
  uint64_t expected = 0;
  for (uint64_t claimed = 0; claimed < 100 * kSlots; ++claimed) {
    for (uint8_t tag = 1; tag <= 5; ++tag) expected += schedule.expects(test_peer(tag), claimed);
  }
  EXPECT_EQ(expected, 3u) << "the other slot of this boundary, and those of the next";
}

// Who is ahead has made the exchange of the slot that this agent comes to next.
TEST(TurnSchedule, AnExchangeOfTheNextBoundaryIsNotMadeAgain) {
  TurnSchedule schedule(test_peer(1));
  schedule.begin(1, 1, all_but(0, 4));
  const uint64_t slot = schedule.slot();
  schedule.mixed(*schedule.partner(), slot);
  EXPECT_EQ(schedule.open(), 0u);
  EXPECT_EQ(schedule.ahead(), 0u);
  for (uint8_t tag = 2; tag <= 4; ++tag) schedule.mixed(test_peer(tag), slot + kSlots);
  EXPECT_EQ(schedule.ahead(), 1u) << "of the two others none has that slot";
  schedule.begin(1, 1, all_but(0, 4));
  EXPECT_EQ(schedule.open(), 0u);
  schedule.begin(1, 1, all_but(0, 4));
  EXPECT_EQ(schedule.open(), 1u);
}

// ---- counting alike ----

// Agents that count from different starts mix with whom they happen to until all count alike.
TEST(TurnSchedule, AfterAFewExchangesAllCountAlikeOrWaitForEachOther) {
  for (const size_t count : {2, 3, 5, 8, 16, 64}) {
    Rng rng(count);
    std::vector<TurnSchedule> all = schedules_of(count);
    for (size_t a = 0; a < count; ++a) all[a].begin(100 * rng.below(90), 1, all_but(a, count));
    const size_t boundaries = 10 * TurnSchedule::slots_to_mix(count);
    for (size_t boundary = 0; boundary < boundaries; ++boundary) {
      for (size_t a = 0; a < count; ++a) {
        const size_t b = (a + 1 + rng.below(static_cast<uint32_t>(count - 1))) % count;
        all[a].heard(test_peer(static_cast<uint8_t>(1 + b)), all[b].slot());
        all[b].heard(test_peer(static_cast<uint8_t>(1 + a)), all[a].slot());
      }
      for (size_t a = 0; a < count; ++a) all[a].begin(1, 1, all_but(a, count));
    }
    uint64_t least = UINT64_MAX, most = 0;
    for (const TurnSchedule& one : all) {
      least = std::min(least, one.slot());
      most = std::max(most, one.slot());
    }
    EXPECT_LE(most - least, kSlots) << count;
  }
}

// It waits for this agent, and that is none of the few times that it may move it.
TEST(TurnSchedule, WhoIsOneBoundaryAheadMovesNobody) {
  TurnSchedule schedule(test_peer(1));
  schedule.begin(100, 1, all_but(0, 4));
  for (uint64_t i = 0; i <= TurnSchedule::kMovesFree; ++i) {
    const uint64_t before = schedule.slot();
    schedule.heard(test_peer(2), before + kSlots);
    schedule.begin(1, 1, all_but(0, 4));
    EXPECT_EQ(schedule.slot(), before + kSlots);
  }
  const uint64_t slot = schedule.slot();
  schedule.heard(test_peer(2), slot + 4 * kSlots);
  schedule.begin(1, 1, all_but(0, 4));
  EXPECT_EQ(schedule.slot(), slot + 4 * kSlots);
}

// Its partners there are in later slots, and would tell it BUSY: it would fall further behind. It may still be asked.
TEST(TurnSchedule, WhoIsBehindAsksNobodyBeforeItsNextBoundary) {
  TurnSchedule schedule(test_peer(1));
  schedule.begin(100, 2, all_but(0, 8));
  const uint64_t slot = schedule.slot();
  const std::optional<PeerId> partner = schedule.partner();
  ASSERT_TRUE(partner);
  schedule.heard(test_peer(2), slot + kSlots);
  EXPECT_EQ(schedule.open(), 2u) << "one boundary ahead: it waits for this agent";
  schedule.heard(test_peer(2), slot + 2 * kSlots);
  EXPECT_EQ(schedule.open(), 0u);
  EXPECT_EQ(schedule.rests(), 2u);
  EXPECT_FALSE(schedule.partner());
  EXPECT_TRUE(schedule.expects(*partner, slot));
  schedule.begin(1, 2, all_but(0, 8));
  EXPECT_EQ(schedule.slot(), slot + 2 * kSlots);
  EXPECT_EQ(schedule.open(), 2u);
  EXPECT_EQ(schedule.rests(), 0u);
}

// Which it can be in next is where it goes, so its partners there may wait for it.
TEST(TurnSchedule, WhoIsBehindExpectsItsPartnersWhereItGoes) {
  std::vector<TurnSchedule> all = schedules_of(8);
  for (size_t a = 0; a < 8; ++a) all[a].begin(a == 0 ? 100 : 105, 1, all_but(a, 8));
  const std::vector<size_t> partners = meet(all, 0);
  const size_t ahead = static_cast<size_t>(
      std::find_if(partners.begin() + 1, partners.end(), [](size_t one) { return one == 0; }) - partners.begin());
  ASSERT_LT(ahead, 8u);
  const PeerId peer = test_peer(static_cast<uint8_t>(1 + ahead));
  const uint64_t slot = 105 * kSlots;
  EXPECT_FALSE(all[0].expects(peer, slot));
  EXPECT_TRUE(all[0].reckons_alike(peer, slot));
  all[0].heard(peer, slot);
  EXPECT_TRUE(all[0].expects(peer, slot));
  EXPECT_FALSE(all[0].expects(peer, slot + kSlots));
  const PeerId another = test_peer(static_cast<uint8_t>(1 + (ahead == 7 ? 1 : ahead + 1)));
  EXPECT_FALSE(all[0].reckons_alike(another, slot));
  EXPECT_FALSE(all[0].reckons_alike(peer, slot + 7)) << "it pauses";
}

// Who counted otherwise than the others had partners that were late, and has none from now on.
TEST(TurnSchedule, WhoGoesAheadForgetsHowLateOthersWere) {
  for (const bool goes_ahead : {false, true}) {
    TurnSchedule schedule(test_peer(1));
    schedule.begin(100, 1, all_but(0, 8));
    for (uint32_t i = 1; i < TurnSchedule::kBadWindows * TurnSchedule::kWindow; ++i) schedule.answered(false);
    if (goes_ahead) schedule.heard(test_peer(2), schedule.slot() + 5 * kSlots);
    schedule.begin(1, 1, all_but(0, 8));
    schedule.answered(false);
    schedule.begin(1, 1, all_but(0, 8));
    EXPECT_EQ(schedule.on(), goes_ahead);
  }
}

TEST(TurnSchedule, OneThatLiesMovesNobodyForLong) {
  TurnSchedule schedule(test_peer(1));
  schedule.begin(100, 1, all_but(0, 6));
  uint64_t moved = 0;
  for (int lie = 0; lie < 50; ++lie) {
    const uint64_t slot = schedule.slot();
    schedule.heard(test_peer(2), slot + 8 * kSlots);
    schedule.begin(1, 1, all_but(0, 6));
    moved += schedule.slot() != slot + kSlots;
  }
  EXPECT_EQ(moved, TurnSchedule::kMovesFree);
  for (uint8_t tag = 3; tag <= 6; ++tag) {
    schedule.heard(test_peer(tag), schedule.slot() + 2 * kSlots);
    schedule.begin(1, 1, all_but(0, 6));
  }
  const uint64_t slot = schedule.slot();
  schedule.heard(test_peer(2), slot + 8 * kSlots);
  schedule.begin(1, 1, all_but(0, 6));
  EXPECT_EQ(schedule.slot(), slot + 8 * kSlots) << "as often as the others, and twice more";
  schedule.heard(test_peer(3), UINT64_MAX - kSlots);
  schedule.begin(1, 1, all_but(0, 6));
  EXPECT_EQ(schedule.slot(), slot + 9 * kSlots) << "no number that can be added to";
}

// The largest number that counts would leave no room for those after it, which nobody could hear then.
TEST(TurnSchedule, OneThatLiesLeavesRoomToCountAlike) {
  constexpr uint64_t kLargest = (uint64_t{1} << 62) - 1;
  TurnSchedule lied_to(test_peer(1)), newcomer(test_peer(3));
  lied_to.begin(100, 1, all_but(0, 6));
  newcomer.begin(1, 1, all_but(2, 6));
  for (uint64_t lie = 0; lie < TurnSchedule::kMovesFree; ++lie) {
    lied_to.heard(test_peer(2), kLargest / kSlots * kSlots);
    for (int boundary = 0; boundary < 3; ++boundary) lied_to.begin(1, 1, all_but(0, 6));
  }
  for (int heard = 0; heard < 4; ++heard) {
    for (const int tag : {1, 4, 5}) newcomer.heard(test_peer(static_cast<uint8_t>(tag)), lied_to.slot());
    newcomer.begin(1, 1, all_but(2, 6));
  }
  EXPECT_LE(lied_to.slot() / kSlots, newcomer.slot() / kSlots);
}

// ---- where it does not pay ----

TEST(TurnSchedule, WherePartnersAreOftenLateThereIsNoneForAWhile) {
  TurnSchedule schedule(test_peer(1));
  const auto ask = [&](uint32_t windows, uint32_t late) {
    for (uint32_t window = 0; window < windows; ++window) {
      for (uint32_t i = 0; i < TurnSchedule::kWindow; ++i) schedule.answered(i >= late);
    }
    schedule.begin(1, 1, all_but(0, 8));
  };
  ask(10, TurnSchedule::kLateFree);
  EXPECT_TRUE(schedule.on());
  ask(TurnSchedule::kBadWindows - 1, TurnSchedule::kWindow);
  EXPECT_TRUE(schedule.on());
  ask(1, 0);
  ask(TurnSchedule::kBadWindows - 1, TurnSchedule::kLateFree + 1);
  EXPECT_TRUE(schedule.on()) << "not in a row";
  for (const uint64_t pause : {16, 32, 64, 128}) {
    ask(TurnSchedule::kBadWindows, TurnSchedule::kLateFree + 1);
    EXPECT_FALSE(schedule.on());
    EXPECT_EQ(schedule.open(), 0u);
    EXPECT_EQ(schedule.rests(), 0u);
    while (!schedule.on()) schedule.begin(1, 1, all_but(0, 8));
    EXPECT_EQ(schedule.slot() % (pause * kSlots), 0u) << "where all that count alike begin again";
    EXPECT_EQ(schedule.open(), 1u);
  }
}

// It is barred for that, and those who waited for whoever waited for it are late no more. One or two of its turns may
// as well be the network's doing, which makes others late from then on too. Of one that is untried the first counts as
// three.
TEST(TurnSchedule, WhoLetsThreeTurnsEndInARowExplainsWhyOthersWereLate) {
  for (const auto& [one_peer, untried] : {std::pair(false, false), {true, false}, {true, true}}) {
    TurnSchedule schedule(test_peer(1));
    schedule.begin(1, 1, all_but(0, 8));
    for (uint32_t window = 0; window < 2 * TurnSchedule::kBadWindows; ++window) {
      if (window % 2 == 0) {
        for (int turn = 0; turn < (untried ? 1 : 3); ++turn) {
          schedule.ended(test_peer(2), true, false, untried);
          if (!one_peer) schedule.ended(test_peer(2), true, true, false);
        }
      }
      for (uint32_t i = 0; i < TurnSchedule::kWindow; ++i) schedule.answered(false);
    }
    schedule.begin(1, 1, all_but(0, 8));
    EXPECT_EQ(schedule.on(), one_peer);
  }
}

TEST(TurnSchedule, WhileMostPauseAllDo) {
  TurnSchedule schedule(test_peer(1)), pausing(test_peer(2));
  pausing.begin(1, 1, all_but(1, 5));
  for (uint32_t i = 0; i < TurnSchedule::kBadWindows * TurnSchedule::kWindow; ++i) pausing.answered(false);
  const uint64_t said = pausing.slot();
  for (uint8_t tag = 2; tag <= 4; ++tag) {
    schedule.begin(1, 1, all_but(0, 5));
    EXPECT_TRUE(schedule.on()) << int{tag};
    schedule.heard(test_peer(tag), said);
  }
  schedule.begin(1, 1, all_but(0, 5));
  EXPECT_FALSE(schedule.on());
  EXPECT_NE(schedule.slot() % kSlots, said % kSlots) << "it says so only for itself, or they would go on for ever";
  schedule.heard(test_peer(2), schedule.slot());
  schedule.begin(1, 1, all_but(0, 5));
  EXPECT_TRUE(schedule.on());
}

// Of many, each is heard of once in many boundaries. Those that begin again together would take each other to pause
// still.
TEST(TurnSchedule, ThatAPeerPausesHoldsUpToAKnownBoundary) {
  TurnSchedule schedule(test_peer(1));
  schedule.begin(10, 1, all_but(0, 5));
  for (uint8_t tag = 2; tag <= 4; ++tag) schedule.heard(test_peer(tag), 10 * kSlots + TurnSchedule::kPauses);
  uint64_t boundary = 10;
  do {
    schedule.begin(1, 1, all_but(0, 5));
    ++boundary;
  } while (!schedule.on() && boundary < 1000);
  EXPECT_EQ(boundary, TurnSchedule::kHeldTrue);
}

// Its own exchanges and those of this agent apart, and each time for longer; one that is untried for longer at once.
TEST(TurnSchedule, WhoLetsATurnEndIsLetOut) {
  for (const auto& [initiated, untried] : {std::pair(false, false), {false, true}, {true, false}, {true, true}}) {
    TurnSchedule schedule(test_peer(1));
    schedule.begin(1, 1, all_but(0, 4));
    for (const uint64_t boundaries : untried ? std::vector<uint64_t>{256} : std::vector<uint64_t>{4, 32, 256}) {
      const uint64_t slot = schedule.slot();
      for (uint8_t tag = 2; tag <= 4; ++tag) {
        schedule.ended(test_peer(tag), initiated, false, untried);
        schedule.ended(test_peer(tag), !initiated, true, untried);
      }
      for (uint64_t boundary = 1; boundary < boundaries; ++boundary) {
        schedule.begin(1, 1, all_but(0, 4));
        bool expected = false;
        for (uint8_t tag = 2; tag <= 4; ++tag) expected |= schedule.expects(test_peer(tag), schedule.slot());
        EXPECT_EQ(expected, initiated);
        EXPECT_EQ(schedule.open(), initiated ? 0u : 1u);
        EXPECT_EQ(schedule.rests(), initiated ? 1u : 0u);
      }
      schedule.begin(1, 1, all_but(0, 4));
      EXPECT_EQ(schedule.slot(), slot + boundaries * kSlots);
      EXPECT_EQ(schedule.open(), 1u);
      EXPECT_TRUE(schedule.expects(*schedule.partner(), schedule.slot()));
    }
  }
}

TEST(TurnSchedule, WithoutAnExchangeInItsSlotAnAgentRests) {
  TurnSchedule schedule(test_peer(1));
  schedule.begin(1, 2, all_but(0, 4));
  EXPECT_EQ(schedule.rests(), 0u);
  schedule.rest();
  EXPECT_EQ(schedule.open(), 1u);
  EXPECT_EQ(schedule.rests(), 1u);
  schedule.tried();
  schedule.came_to_nothing();
  EXPECT_EQ(schedule.open(), 0u);
  EXPECT_EQ(schedule.rests(), 2u);
  schedule.begin(1, 2, all_but(0, 4));
  EXPECT_EQ(schedule.rests(), 0u);
}

TEST(TurnSchedule, AloneThereIsNone) {
  TurnSchedule schedule(test_peer(1));
  schedule.begin(1, 1, {});
  EXPECT_FALSE(schedule.on());
  EXPECT_EQ(schedule.open(), 0u);
  EXPECT_FALSE(schedule.partner());
}

}  // namespace
}  // namespace starling::exchange_test
