// Members that send tables first, and hand in what the owners ask for.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "compression/update_sketch.h"
#include "tests/gossip/updates/update_harness.h"

namespace starling::exchange_test {
namespace {

using std::chrono::seconds;

constexpr size_t kElements = 3000;

class UpdateTablesInAGroup : public testing::Test {
 protected:
  UpdateTablesInAGroup() {
    agents_.codec = codec_.get();
    agents_.elements = kElements;
  }

  // Of R to the mean of what all have learned and not kept, where everybody holds one log.
  void expect_conserved(UpdateSwarm& swarm) const {
    for (auto& [id, agent] : swarm.agents) agent->still = true;
    swarm.run_for(seconds(2));
    for (int i = 0; i < 100 && !swarm.all_heads_equal(); ++i) swarm.run_for(milliseconds(1));
    ASSERT_TRUE(swarm.all_heads_equal());
    const auto n = static_cast<double>(swarm.agents.size());
    for (auto& [id, agent] : swarm.agents) EXPECT_EQ(agent->params, swarm.at(1).params);
    for (size_t i = 0; i < swarm.at(1).count(); ++i) {
      double sum = 0;
      for (auto& [id, agent] : swarm.agents) sum += agent->drifts[i] - static_cast<double>(agent->accumulator[i]);
      ASSERT_NEAR(static_cast<double>(swarm.at(1).params[i]), sum / n, 1e-2 * (1 + std::fabs(sum / n))) << i;
    }
  }

  std::unique_ptr<UpdateCodec> codec_ = make_update_codec({.kind = UpdateKind::kSketch, .density = 0.02});
  UpdateAgentOptions agents_;
};

struct Seen {
  size_t tables = 0, requests = 0, entries = 0, counted = 0, unasked = 0;
  std::map<std::pair<uint64_t, uint32_t>, std::set<uint32_t>> requested;  // by round and slice
};

void watch(UpdateSwarm& swarm, const UpdateCodec& codec, Seen* seen) {
  swarm.network.watch = [seen, &codec](const Flight& flight) {
    if (message_as<SketchTable>(flight.message) != nullptr) ++seen->tables;
    if (const auto* request = message_as<SketchRequest>(flight.message)) {
      ++seen->requests;
      const std::vector<uint32_t> indices = SketchTables::requested(flight.payload.span());
      seen->requested[{request->round, request->slice}] = {indices.begin(), indices.end()};
    }
    if (const auto* message = message_as<Contribution>(flight.message)) {
      const std::set<uint32_t>& requested = seen->requested[{message->round, message->slice}];
      for (const uint32_t i : codec.support(flight.payload.span()).indices) seen->unasked += !requested.contains(i);
    }
    if (const auto* entry = message_as<LogEntry>(flight.message)) {
      ++seen->entries;
      seen->counted += entry->counted.size();
    }
  };
}

TEST_F(UpdateTablesInAGroup, MembersHandInWhatTheOwnerAsksFor) {
  UpdateSwarm swarm(4, agents_);
  Seen seen;
  watch(swarm, *codec_, &seen);
  swarm.run_for(seconds(3));
  EXPECT_LE(swarm.longest, milliseconds(41)) << "four latencies";
  EXPECT_EQ(swarm.entries, swarm.entries_due);
  EXPECT_GT(seen.entries, 100u);
  EXPECT_NEAR(static_cast<double>(seen.tables), static_cast<double>(seen.entries), 12) << "one of each of the others";
  EXPECT_NEAR(static_cast<double>(seen.requests), static_cast<double>(seen.entries), 12);
  EXPECT_EQ(seen.counted, 4 * seen.entries);
  EXPECT_EQ(seen.unasked, 0u);
  for (auto& [id, agent] : swarm.agents) EXPECT_EQ(agent->exchange().tally().refused.payloads, 0u);
  expect_conserved(swarm);
}

TEST_F(UpdateTablesInAGroup, AMemberAloneAsksItself) {
  UpdateSwarm swarm(1, agents_);
  swarm.run_for(seconds(1));
  EXPECT_EQ(swarm.entries, swarm.entries_due);
  EXPECT_GT(swarm.at(1).exchange().log(0).head().length, 20u);
  expect_conserved(swarm);
}

// A table chooses, and is not what counts.
TEST_F(UpdateTablesInAGroup, WhoseTableIsLostIsAskedAllTheSame) {
  UpdateSwarm swarm(4, agents_);
  swarm.network.drop = [](const Flight& flight) { return flight.from == test_peer(3) && is<SketchTable>(flight); };
  Seen seen;
  watch(swarm, *codec_, &seen);
  swarm.run_for(seconds(3));
  EXPECT_GE(seen.counted, 4 * seen.entries * 9 / 10);
  EXPECT_LE(swarm.longest, 2 * agents_.deadline_max);
  expect_conserved(swarm);
}

TEST_F(UpdateTablesInAGroup, WhoHearsNoRequestKeepsItsWork) {
  UpdateSwarm swarm(4, agents_);
  swarm.network.drop = [](const Flight& flight) { return flight.to == test_peer(3) && is<SketchRequest>(flight); };
  swarm.run_for(seconds(2));
  EXPECT_GT(swarm.at(1).exchange().log(0).head().length, 15u) << "three of four are enough";
  swarm.network.drop = nullptr;
  expect_conserved(swarm);
}

TEST_F(UpdateTablesInAGroup, LossesLoseNothing) {
  UpdateSwarm swarm(4, agents_);  // a fourth of an integer fits the eight bits of a bf16
  swarm.network.options.loss = 0.1;
  swarm.run_for(seconds(3));
  EXPECT_GT(swarm.at(1).exchange().log(0).head().length, 10u);
  swarm.network.options.loss = 0;
  expect_conserved(swarm);
}

TEST_F(UpdateTablesInAGroup, TablesOfAnotherSizeOrWithNoNumbersAreRefused) {
  for (const bool shorter : {false, true}) {
    UpdateSwarm swarm(4, agents_);
    swarm.network.damage = [shorter](Flight& flight) {
      if (flight.from != test_peer(1) || !is<SketchTable>(flight)) return;
      std::vector<std::byte> bytes(flight.payload.data, flight.payload.data + flight.payload.size);
      const float bad = 1e38f;
      std::memcpy(bytes.data() + 8, &bad, sizeof bad);
      if (shorter) bytes.pop_back();
      flight.payload = SharedBytes::take(std::move(bytes));
    };
    swarm.run_for(seconds(2));
    uint64_t refused = 0;
    for (auto& [id, agent] : swarm.agents) refused += agent->exchange().tally().refused.payloads;
    EXPECT_GT(refused, 10u);
    EXPECT_EQ(swarm.entries, swarm.entries_due) << "the others' tables are enough";
    swarm.network.damage = nullptr;
    expect_conserved(swarm);
  }
}

// Agent 1 asks owners for nothing, in place of its tables.
TEST_F(UpdateTablesInAGroup, RequestsOfWhoDoesNotOwnTheSliceAreIgnored) {
  UpdateSwarm swarm(4, agents_);
  size_t sent = 0;
  swarm.network.damage = [&sent](Flight& flight) {
    const auto* table = message_as<SketchTable>(flight.message);
    if (table == nullptr || flight.from != test_peer(1)) return;
    flight.message = SketchRequest{table->group, table->round, table->slice, 0, 1};
    const std::vector<std::byte> none(4);  // of small slices: no elements
    flight.payload = SharedBytes::copy_of(none);
    ++sent;
  };
  Seen seen;
  watch(swarm, *codec_, &seen);
  swarm.run_for(seconds(2));
  EXPECT_GT(sent, 20u);
  EXPECT_EQ(swarm.entries, swarm.entries_due);
  EXPECT_EQ(seen.counted, 4 * seen.entries);
  swarm.network.damage = nullptr;
  expect_conserved(swarm);
}

TEST_F(UpdateTablesInAGroup, RequestsThatDoNotDecodeAreRefused) {
  UpdateSwarm swarm(4, agents_);
  swarm.network.damage = [](Flight& flight) {
    if (flight.from != test_peer(1) || !is<SketchRequest>(flight)) return;
    std::vector<std::byte> bytes(flight.payload.data, flight.payload.data + flight.payload.size);
    std::memset(bytes.data() + 4, 0xFF, 4);  // the first index: beyond the slice
    flight.payload = SharedBytes::take(std::move(bytes));
  };
  swarm.run_for(seconds(2));
  EXPECT_GT(swarm.at(2).exchange().tally().refused.payloads, 0u);
  EXPECT_GT(swarm.at(2).exchange().log(0).head().length, 10u) << "the slices of other owners";
  swarm.network.damage = nullptr;
  expect_conserved(swarm);
}

// Tables of 1.2 MiB: two parts.
TEST_F(UpdateTablesInAGroup, LargeTablesTravelInParts) {
  codec_ = make_update_codec({.kind = UpdateKind::kSketch, .density = 0.001, .table = 1});
  agents_.codec = codec_.get();
  agents_.slices = 1;
  agents_.elements = 1'200'000;
  agents_.compute = milliseconds(200);
  UpdateSwarm swarm(3, agents_);
  swarm.run_for(milliseconds(900));
  EXPECT_EQ(swarm.entries, swarm.entries_due);
  EXPECT_GE(swarm.at(1).exchange().log(0).head().length, 3u);
  EXPECT_EQ(swarm.at(1).exchange().log(0).head().weight, 3 * swarm.at(1).exchange().log(0).head().length);
}

}  // namespace
}  // namespace starling::exchange_test
