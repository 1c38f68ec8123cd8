// Pairs that mix matrices along a few directions: the two turns of their dialogue, and what becomes of a matrix of
// which a half is lost, refused or late.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "gossip/exchange/pair_parts.h"
#include "tests/gossip/exchange/harness.h"

namespace starling::exchange_test {
namespace {

using Turns = PairOf<PairTurns>;
using TurnAgent = TestAgentOf<PairTurns>;

// A matrix, a vector, another matrix: five parts, of which 0 and 3 are the first one's halves, 2 and 4 the other's.
constexpr size_t kRows = 6, kColumns = 10, kMatrix = kRows * kColumns, kVector = 8;
constexpr size_t kParams = 2 * kMatrix + kVector;
constexpr size_t kHalves = 2 * (kRows + kColumns);   // bytes of both

PairAgentOptions in_halves() {
  return {.params = kParams, .rank = 1, .matrices = {{0, kRows, kColumns}, {kMatrix + kVector, kRows, kColumns}}};
}

struct Halves : Turns {
  explicit Halves(const PairAgentOptions& options = in_halves()) : Turns(options) {
    Rng rng(7);
    for (float& x : a.params) x = static_cast<float>(rng.below(64)) / 64;
    b.params = a.params;
    for (size_t i = 0; i < kParams; ++i) b.params[i] += apart(i);
    began_a = a.params;
    began_b = b.params;
    sum = swarm.weighted_sum();
  }

  // Of rank 1, and each element at least .1.
  static float apart(size_t i) {
    if (i >= kMatrix && i < kMatrix + kVector) return 1;
    const size_t at = i >= kMatrix ? i - kMatrix - kVector : i;
    return 0.1f * static_cast<float>((at / kColumns + 1) * (at % kColumns + 1));
  }

  void exchange(Duration duration = milliseconds(2000)) {
    publish();
    ASSERT_TRUE(a.pairwise->propose(b.id));
    swarm.run_for(duration);
    a.apply();
    b.apply();
  }

  enum class Part { kFirstMatrix, kVector, kOtherMatrix };
  // 0: as they began, bit for bit. 1: they met, but for what binary16 rounds.
  double met(Part part) const {
    const size_t begin = part == Part::kFirstMatrix ? 0 : part == Part::kVector ? kMatrix : kMatrix + kVector;
    const size_t count = part == Part::kVector ? kVector : kMatrix;
    double before = 0, after = 0;
    bool stayed = true;
    for (size_t i = begin; i < begin + count; ++i) {
      before += std::pow(began_b[i] - began_a[i], 2);
      after += std::pow(b.params[i] - a.params[i], 2);
      stayed = stayed && a.params[i] == began_a[i] && b.params[i] == began_b[i];
    }
    return stayed ? 0 : 1 - std::sqrt(after / before);
  }
  void expect_met(double first, double vector, double other) const {
    EXPECT_NEAR(met(Part::kFirstMatrix), first, first > 0 ? 0.01 : 1e-7);   // what was taken back was rounded twice
    EXPECT_EQ(met(Part::kVector), vector);
    EXPECT_NEAR(met(Part::kOtherMatrix), other, other > 0 ? 0.01 : 1e-7);
    const std::vector<double> now = swarm.weighted_sum();
    for (size_t i = 0; i < kParams; ++i) EXPECT_NEAR(now[i], sum[i], 2e-6) << i;
    EXPECT_TRUE(swarm.all_idle());
  }

  std::vector<float> began_a, began_b;
  std::vector<double> sum;
};

const BlockPayload* block_of(const Flight& flight) { return message_as<BlockPayload>(flight.message); }

auto is_part(const PeerId& from, uint32_t index) {
  return [from, index](const Flight& flight) {
    return flight.from == from && is<BlockPayload>(flight) && block_of(flight)->index == index;
  };
}

TEST(PairHalves, MeetAlongTheDirectionInWhichTheyDiffer) {
  Halves pair;
  pair.exchange(milliseconds(200));
  pair.expect_met(1, 1, 1);
  for (TurnAgent* agent : {&pair.a, &pair.b}) {
    const ExchangeReport report = only_report(*agent);
    EXPECT_EQ(report.outcome, ExchangeOutcome::kDone);
    EXPECT_EQ(report.blocks_mixed, 5u);
    EXPECT_EQ(report.payload_bytes_sent, 2 * kHalves + 4 * kVector);
    EXPECT_EQ(report.payload_bytes_received, 2 * kHalves + 4 * kVector);
    double squares = 0;
    for (size_t i = 0; i < kParams; ++i) squares += std::pow(pair.began_b[i] - pair.began_a[i], 2);
    EXPECT_NEAR(report.distance, std::sqrt(squares / kParams), 0.01 * report.distance);
  }
}

// Each turn answers the one before. The proposer is free after two latencies, as in any pair, the acceptor after three.
TEST(PairHalves, AreTwoTurnsOfOneDialogue) {
  Halves pair;
  std::vector<std::pair<uint8_t, uint32_t>> sent;
  std::vector<int64_t> at;
  const TimePoint began = pair.swarm.clock.now();
  pair.swarm.network.watch = [&](const Flight& flight) {
    if (!is<BlockPayload>(flight)) return;
    sent.push_back({flight.from.bytes[0], block_of(flight)->index});
    at.push_back(std::chrono::duration_cast<milliseconds>(pair.swarm.clock.now() - began).count());
  };
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.a.worker.run_completions();
  pair.swarm.run_for(milliseconds(21));
  EXPECT_FALSE(pair.a.pairwise->under_way());
  EXPECT_TRUE(pair.b.pairwise->under_way());
  pair.swarm.run_for(milliseconds(10));
  EXPECT_FALSE(pair.b.pairwise->under_way());
  pair.swarm.run_for(milliseconds(10));
  EXPECT_EQ(pair.a.pairwise->counters().done, 1u);
  EXPECT_EQ(pair.a.pairwise->counters().taken_back, 0u);
  ASSERT_EQ(sent.size(), 10u);
  for (size_t i = 0; i < sent.size(); ++i) {
    const uint8_t from = i < 3 || i >= 8 ? 1 : 2;
    EXPECT_EQ(sent[i].first, from) << i;
    EXPECT_EQ(at[i], i < 3 ? 0 : i < 8 ? 10 : 20) << i;
  }
  EXPECT_EQ(sent[8].second, 3u);
  EXPECT_EQ(sent[9].second, 4u);
}

// Of no rank in particular: with the same q each time the second exchange would find nothing that the first one left.
TEST(PairHalves, EachExchangeLooksInOtherDirections) {
  Halves pair;
  Rng rng(8);
  for (float& x : pair.b.params) x = static_cast<float>(rng.uniform());
  const auto apart = [&] {
    double squares = 0;
    for (size_t i = 0; i < kParams; ++i) squares += std::pow(pair.b.params[i] - pair.a.params[i], 2);
    return std::sqrt(squares);
  };
  pair.exchange(milliseconds(300));
  const double first = apart();
  for (int i = 0; i < 40; ++i) pair.exchange(milliseconds(300));
  EXPECT_EQ(pair.a.pairwise->counters().done, 41u);
  EXPECT_LT(apart(), 0.01 * first);
}

TEST(PairHalves, OfTwoProposalsThatCrossOneIsMadeAndNoneFails) {
  for (int before = 0; before < 2; ++before) {   // with either's proposal standing
    Halves pair;
    if (before == 1) {
      pair.publish();
      ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
      pair.swarm.run_for(milliseconds(200));
    }
    pair.publish();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));
    pair.a.worker.run_completions();
    pair.b.worker.run_completions();
    pair.swarm.run_for(milliseconds(300));
    for (TurnAgent* agent : {&pair.a, &pair.b}) {
      EXPECT_EQ(agent->pairwise->counters().done, 1u + static_cast<unsigned>(before));
      EXPECT_EQ(agent->pairwise->counters().failed, 0u);
      EXPECT_EQ(agent->pairwise->counters().busy_sent, 0u);
      agent->apply();
    }
    pair.expect_met(1, 1, 1);
  }
}

TEST(PairHalves, EachLostHalfIsSentAgain) {
  for (const uint8_t from : {1, 2}) {
    for (uint32_t part = 0; part < 5; ++part) {
      SCOPED_TRACE(testing::Message() << "part " << part << " of " << int{from});
      Halves pair;
      int lost = 0;
      pair.swarm.network.drop = [&](const Flight& flight) {
        return is_part(test_peer(from), part)(flight) && lost++ == 0;
      };
      pair.exchange();
      EXPECT_GT(lost, 0);
      pair.expect_met(1, 1, 1);
    }
  }
}

// The acceptor waits a round trip for second halves, and neither asks for them sooner nor takes that for the pause
// between two blocks: what is lost is asked for after twice that pause, 5 ms at least.
TEST(PairHalves, ARoundTripBetweenTheTurnsIsNoPause) {
  for (uint32_t part = 0; part < 5; ++part) {
    SCOPED_TRACE(testing::Message() << "part " << part);
    Halves pair;
    int asked = 0;
    pair.swarm.network.watch = [&](const Flight& flight) { asked += is<Missing>(flight); };
    for (int i = 0; i < 3; ++i) {
      pair.publish();
      ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
      pair.a.worker.run_completions();
      pair.swarm.run_for(milliseconds(300));
      EXPECT_EQ(asked, 0) << i;
    }
    int lost = 0;
    pair.swarm.network.drop = [&](const Flight& flight) { return is_part(pair.a.id, part)(flight) && lost++ == 0; };
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.a.worker.run_completions();
    pair.swarm.run_for(milliseconds(66));   // three latencies, the pause, a round trip
    EXPECT_FALSE(pair.b.pairwise->under_way());
    EXPECT_EQ(lost, 2);
    const bool first = part == 0 || part == 2;   // its proposer asks too, for what the acceptor cannot make yet
    EXPECT_LE(asked, first ? 4 : 1);
  }
}

// Both leave it out whole, and mix the rest.
TEST(PairHalves, AMatrixOfWhichAHalfIsLostForGoodStaysAsItIs) {
  for (const uint8_t from : {1, 2}) {
    for (const uint32_t part : {0u, 2u, 3u, 4u}) {
      SCOPED_TRACE(testing::Message() << "part " << part << " of " << int{from});
      Halves pair;
      pair.swarm.network.drop = is_part(test_peer(from), part);
      pair.exchange();
      const bool first = part == 0 || part == 3;
      pair.expect_met(first ? 0 : 1, 1, first ? 1 : 0);
    }
  }
}

// Of what came, no block is whole: no vote, and no exchange of nothing.
TEST(PairHalves, FirstHalvesAloneAreNoExchange) {
  Halves pair;
  pair.swarm.network.drop = [&](const Flight& flight) {
    const bool lost = flight.from == pair.a.id && is<BlockPayload>(flight);
    return lost && (block_of(flight)->index == 1 || block_of(flight)->index >= 3);
  };
  int votes = 0;
  pair.swarm.network.watch = [&](const Flight& flight) { votes += is<Have>(flight); };
  pair.exchange();
  pair.expect_met(0, 0, 0);
  EXPECT_EQ(votes, 0);
  EXPECT_EQ(pair.a.pairwise->counters().failed, 1u);
  EXPECT_EQ(pair.b.pairwise->counters().failed, 1u);
}

TEST(PairHalves, ASecondHalfThatOvertakesItsFirstWaitsForIt) {
  for (const uint8_t from : {1, 2}) {
    Halves pair;
    pair.swarm.network.more_delay = [&](const Flight& flight) {
      return is_part(test_peer(from), 0)(flight) ? milliseconds(from == 1 ? 0 : 45) : milliseconds(0);
    };
    if (from == 1) {   // the first copy is lost; the acceptor's own halves of the other matrix go on
      int lost = 0;
      pair.swarm.network.drop = [&, lost](const Flight& flight) mutable {
        return is_part(test_peer(1), 0)(flight) && lost++ == 0;
      };
    }
    pair.exchange();
    pair.expect_met(1, 1, 1);
  }
}

TEST(PairHalves, WhatIsNoNumberIsRefusedWithItsMatrixAlone) {
  for (const uint8_t from : {1, 2}) {
    for (const uint32_t part : {0u, 3u}) {
      SCOPED_TRACE(testing::Message() << "part " << part << " of " << int{from});
      Halves pair;
      pair.swarm.network.damage = [&](Flight& flight) {
        if (!is_part(test_peer(from), part)(flight)) return;
        std::vector<std::byte> bytes(flight.payload.span().begin(), flight.payload.span().end());
        bytes[1] = std::byte{0x7E};
        flight.payload = shared_copy(bytes);
      };
      pair.exchange();
      pair.expect_met(0, 1, 1);
      TurnAgent& judge = from == 1 ? pair.b : pair.a;
      EXPECT_EQ(judge.pairwise->counters().blocks_refused, 1u);
    }
  }
}

TEST(PairHalves, OfAnotherSizeThanItsMatrixSaysAreRefused) {
  for (const int more : {-2, -1, 1, 4000}) {
    for (const uint32_t part : {0u, 3u}) {
      Halves pair;
      pair.swarm.network.damage = [&](Flight& flight) {
        if (!is_part(pair.a.id, part)(flight)) return;
        std::vector<std::byte> bytes(flight.payload.span().begin(), flight.payload.span().end());
        bytes.resize(bytes.size() + static_cast<size_t>(more));
        flight.payload = shared_copy(bytes);
      };
      pair.exchange();
      pair.expect_met(0, 1, 1);
      EXPECT_EQ(pair.b.pairwise->counters().blocks_refused, 1u) << more;
    }
  }
}

// Both applied before the decision, and the vote never came: they undo p z^T with the very same bytes. Adding and
// taking away rounds each element once.
TEST(PairHalves, WhatIsAbortedIsTakenBack) {
  Halves pair;
  pair.swarm.network.drop = [](const Flight& flight) { return is<Have>(flight); };
  pair.exchange();
  EXPECT_EQ(pair.a.pairwise->counters().taken_back, 1u);
  EXPECT_EQ(pair.b.pairwise->counters().taken_back, 1u);
  for (size_t i = 0; i < kParams; ++i) {
    EXPECT_NEAR(pair.a.params[i], pair.began_a[i], 1e-6) << i;
    EXPECT_NEAR(pair.b.params[i], pair.began_b[i], 1e-6) << i;
  }
  EXPECT_EQ(pair.swarm.network.payloads_held(), 0u);
}

// The proposer applied, and is free: it proposes again before its second halves are here. They are asked for, and the
// first exchange counts too.
TEST(PairHalves, TheNextProposalLeavesTheFirstExchangeAsItIs) {
  Halves pair;
  int lost = 0;
  pair.swarm.network.drop = [&](const Flight& flight) {
    return (is_part(pair.a.id, 3)(flight) || is_part(pair.a.id, 4)(flight)) && lost++ < 2;
  };
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.a.worker.run_completions();
  pair.swarm.run_for(milliseconds(25));
  ASSERT_EQ(lost, 2);
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(600));
  EXPECT_EQ(pair.a.pairwise->counters().done, 2u);
  EXPECT_EQ(pair.b.pairwise->counters().done, 2u);
  EXPECT_EQ(pair.a.pairwise->counters().taken_back, 0u);
  pair.a.apply();
  pair.b.apply();
  pair.expect_met(1, 1, 1);
}

// A doubt may last for hours: it holds what travelled, not the floats.
TEST(PairHalves, ADoubtHoldsNoFloats) {
  Halves pair;
  pair.swarm.network.drop = [](const Flight& flight) { return is<Commit>(flight); };
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  const std::weak_ptr<const void> floats = pair.b.first_block;
  pair.swarm.run_for(milliseconds(100));
  EXPECT_TRUE(pair.b.pairwise->in_doubt());
  EXPECT_TRUE(floats.expired());
}

// Who sends what it was not asked for, or all at once, moves nothing.
TEST(PairHalves, OnRequestOnlyWhatIsMadeIsSentAgain) {
  Halves pair;
  pair.publish();
  std::map<uint32_t, int> sent;
  pair.swarm.network.watch = [&](const Flight& flight) {
    if (is<BlockPayload>(flight) && flight.from == pair.b.id) ++sent[block_of(flight)->index];
  };
  const ExchangeId xid{pair.a.id, 1, 1};
  pair.swarm.deliver({pair.a.id, pair.b.id, 1, Propose{.xid = xid, .deadline_ms = 400, .credit = 5, .payload = 1}, {}});
  Bitmap everything = make_bitmap(5);
  for (size_t i = 0; i < 5; ++i) set_bit(everything, i);
  pair.swarm.deliver({pair.a.id, pair.b.id, 1, Missing{xid, everything}, {}});
  EXPECT_EQ(sent, (std::map<uint32_t, int>{{0, 2}, {1, 2}, {2, 2}}));
}

// Distances are those of what moves: whoever sends a second half out of all proportion is clipped by it.
TEST(PairHalves, TheGuardJudgesWhatTheSecondHalvesMove) {
  PairAgentOptions options = in_halves();
  options.clip = 3;
  options.drift = 1;
  Halves pair(options);
  for (int i = 0; i < 30; ++i) {
    pair.a.params = pair.began_a;
    pair.b.params = pair.began_b;
    pair.exchange(milliseconds(300));
  }
  EXPECT_EQ(pair.a.pairwise->counters().clipped, 0u);
  pair.swarm.network.damage = [&](Flight& flight) {
    if (!is_part(pair.b.id, 3)(flight)) return;
    flight.payload = shared_copy(std::vector<std::byte>(flight.payload.size, std::byte{0x77}));   // some 30000
  };
  pair.a.params = pair.began_a;
  pair.b.params = pair.began_b;
  pair.exchange(milliseconds(300));
  EXPECT_EQ(pair.a.pairwise->counters().clipped, 1u);
  double moved = 0, usual = 0;
  for (size_t i = 0; i < kParams; ++i) {
    moved += std::pow(pair.a.params[i] - pair.began_a[i], 2);
    usual += std::pow(pair.began_b[i] - pair.began_a[i], 2);
  }
  EXPECT_LT(std::sqrt(moved), 3 * std::sqrt(usual));
}

// ---- parts ----

TEST(PairParts, AreTheBlocksAndThenTheSecondHalves) {
  const Layout layout = Layout::cut({{"params", kParams, in_halves().matrices}, {"averaged", 5}}, 100, 2);
  ASSERT_EQ(layout.blocks.size(), 4u);
  const auto codec = make_codec(CodecKind::kFp32, MemorySpace::kHost);
  const PairParts parts(layout, *codec);
  ASSERT_EQ(parts.count(), 6u);
  const size_t bytes[] = {4 * kRows, 4 * kVector, 4 * kRows, 20, 4 * kColumns, 4 * kColumns};
  const uint32_t blocks[] = {0, 1, 2, 3, 0, 2}, others[] = {4, 0, 5, 0, 0, 2};
  for (size_t i = 0; i < parts.count(); ++i) {
    EXPECT_EQ(parts[i].bytes_max, bytes[i]) << i;
    EXPECT_EQ(parts[i].block, blocks[i]) << i;
    EXPECT_EQ(parts[i].other, others[i]) << i;
  }
  EXPECT_DOUBLE_EQ(parts.reach(), 2 * 2.0 / kRows);
  for (unsigned set = 0; set < 64; ++set) {
    const Bitmap kept = parts.without_lone_halves({static_cast<uint8_t>(set)});
    unsigned expected = set & 0b001010u;
    if ((set & 0b010001u) == 0b010001u) expected |= 0b010001u;
    if ((set & 0b100100u) == 0b100100u) expected |= 0b100100u;
    EXPECT_EQ(kept[0], expected) << set;
  }
}

}  // namespace
}  // namespace starling::exchange_test
