// A codec whose payloads differ in size, and which remembers values rather than one exponent, in a whole exchange.
#include <gtest/gtest.h>

#include <set>

#include "gossip/rng.h"
#include "tests/conformance/sparse_codec.h"
#include "tests/gossip/pairs/pair_harness.h"

namespace starling::exchange_test {
namespace {

PairAgentOptions sparse() {
  PairAgentOptions options;
  options.make_codec = [] { return std::make_unique<SparseCodec>(); };
  return options;
}

void randomize(TestAgent& agent, uint64_t rng_seed) {
  Rng rng(rng_seed);
  for (float& x : agent.params) x = rng.chance(0.85) ? 0 : static_cast<float>(rng.uniform() - 0.5);
}

TEST(CodecExchange, PayloadsOfAnySizeAreExchangedLearnedFromAndConserved) {
  Pair pair(sparse());
  randomize(pair.a, 1);
  randomize(pair.b, 2);
  const size_t size_max = pair.a.encoder.payload_bytes_max(0);
  std::set<size_t> sizes;
  pair.swarm.network.watch = [&](const Flight& flight) {
    if (is<BlockPayload>(flight)) sizes.insert(flight.payload.size);
  };
  const std::vector<double> before = pair.swarm.weighted_sum();
  for (int i = 0; i < 40; ++i) {
    pair.publish();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(200));
    ASSERT_EQ(only_report(pair.a).outcome, ExchangeOutcome::kDone);
    (void)only_report(pair.b);
  }
  EXPECT_GT(sizes.size(), 2u) << "every payload had the same size: this shows nothing";
  EXPECT_EQ(*sizes.rbegin(), size_max);
  EXPECT_EQ(pair.a.pairwise->counters().blocks_refused, 0u);
  pair.a.apply();
  pair.b.apply();
  const std::vector<double> after = pair.swarm.weighted_sum();
  for (size_t i = 0; i < after.size(); ++i) EXPECT_NEAR(after[i], before[i], 1e-5) << i;

  // What was exchanged waits no more: with a quarter sent each time, nobody waits much longer than four.
  const std::vector<std::byte> saved = pair.a.encoder.save();
  Encoder other(std::make_unique<SparseCodec>(), pair.a.layout);
  ASSERT_TRUE(other.load(saved));
  EXPECT_EQ(other.save(), saved);
  SparseMemory memory(16);
  ASSERT_TRUE(memory.load(Bytes(saved).subspan(12, 64)));
  EXPECT_LE(*std::max_element(memory.waited.begin(), memory.waited.end()), 5u);
}

TEST(CodecExchange, AFailedExchangeTeachesToo) {
  Pair pair(sparse());
  randomize(pair.a, 1);
  randomize(pair.b, 2);
  pair.swarm.network.drop = [](const Flight& flight) { return is<Have>(flight); };  // nobody decides
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(std::chrono::seconds(2));
  EXPECT_EQ(only_report(pair.a).outcome, ExchangeOutcome::kFailed);
  const Decided decided = pair.a.pairwise->take_decided();
  EXPECT_TRUE(decided.deltas.empty());
  ASSERT_EQ(decided.lessons.size(), pair.a.layout.blocks.size());
  for (const BlockLesson& lesson : decided.lessons) {
    EXPECT_EQ(lesson.status, PairStatus::kOk);
    EXPECT_GT(lesson.own.size, sizeof(uint32_t));
    EXPECT_EQ(SparseCodec().check(lesson.peer.span(), 16), PayloadStatus::kOk);
  }
}

TEST(CodecExchange, APayloadBeyondTheBoundIsRefusedUnread) {
  Pair pair(sparse());
  randomize(pair.a, 1);
  randomize(pair.b, 2);
  const size_t size_max = pair.a.encoder.payload_bytes_max(0);
  pair.swarm.network.damage = [&](Flight& flight) {
    if (is<BlockPayload>(flight)) flight.payload = shared_copy(std::vector<std::byte>(size_max + 1));
  };
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(std::chrono::seconds(2));
  EXPECT_EQ(only_report(pair.a).outcome, ExchangeOutcome::kFailed);
  EXPECT_GT(pair.b.pairwise->counters().blocks_refused, 0u);
  EXPECT_TRUE(pair.b.pairwise->take_decided().lessons.empty());
}

// An agent that is asked again and again, and takes no boundary, keeps what it learned of a limited number.
TEST(CodecExchange, LessonsThatNobodyTakesAreLimited) {
  Pair pair(sparse());
  randomize(pair.a, 1);
  randomize(pair.b, 2);
  pair.swarm.network.drop = [](const Flight& flight) { return is<Have>(flight); };
  pair.publish();
  for (int i = 0; i < 400; ++i) {  // the other says BUSY to most: no exchange with this one was ever decided
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(std::chrono::seconds(2));
  }
  EXPECT_EQ(pair.a.pairwise->take_decided().lessons.size(), 64 * pair.a.layout.blocks.size());
}

}  // namespace
}  // namespace starling::exchange_test
