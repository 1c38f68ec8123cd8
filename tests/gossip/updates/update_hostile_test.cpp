// Members of an update group that lie, and damage that passes the checksums.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "gossip/updates/update_exchange.h"
#include "gossip/updates/update_parts.h"
#include "tests/gossip/updates/update_harness.h"

namespace starling::exchange_test {
namespace {

using std::chrono::seconds;

SharedBytes with_value(const SharedBytes& payload, float value) {
  std::vector<std::byte> bytes(payload.data, payload.data + payload.size);
  std::memcpy(bytes.data(), &value, sizeof value);
  return SharedBytes::take(std::move(bytes));
}

// Half of all entries that agent 1 makes, and all that it is handed, come damaged.
TEST(UpdateHostile, EntriesThatAreNotWhatTheirHashSaysAreRefused) {
  UpdateSwarm swarm(4, {});
  swarm.network.damage = [](Flight& flight) {
    if (is<LogEntry>(flight) && flight.from == test_peer(1)) flight.payload = with_value(flight.payload, 1e6f);
  };
  swarm.run_for(seconds(3));
  uint64_t refused = 0;
  for (auto& [id, agent] : swarm.agents) refused += agent->exchange().tally().refused.entries;
  EXPECT_GT(refused, 0u);
  for (uint8_t tag = 2; tag <= 4; ++tag) {
    EXPECT_EQ(swarm.at(tag).exchange().tally().refused.last, test_peer(1));
    for (float value : swarm.at(tag).params) EXPECT_LT(std::abs(value), 1e5f);
  }
  // The others go on, and agent 1 with them: its entries never became the log.
  EXPECT_GT(swarm.at(2).exchange().log(0).head().length, 10u);
}

TEST(UpdateHostile, PayloadsThatAreNotFiniteCountNowhere) {
  UpdateSwarm swarm(4, {});
  swarm.network.damage = [](Flight& flight) {
    const bool theirs = flight.from == test_peer(1);
    if (theirs && is<Contribution>(flight)) flight.payload = with_value(flight.payload, NAN);
    if (theirs && is<LogEntry>(flight)) flight.payload = with_value(flight.payload, INFINITY);
  };
  swarm.run_for(seconds(3));
  uint64_t payloads = 0, entries = 0;
  for (uint8_t tag = 2; tag <= 4; ++tag) {
    const UpdateTally tally = swarm.at(tag).exchange().tally();
    payloads += tally.refused.payloads;
    entries += tally.refused.entries;
    EXPECT_EQ(tally.refused.last, test_peer(1));
    for (float value : swarm.at(tag).params) EXPECT_TRUE(std::isfinite(value));
  }
  EXPECT_GT(payloads, 0u);
  EXPECT_GT(entries, 0u);
  EXPECT_GT(swarm.at(2).exchange().log(0).head().length, 10u) << "three of four are enough";
}

TEST(UpdateHostile, AHeadThatNobodyDeliversStopsAnOwnerForTwoRoundsOnly) {
  UpdateSwarm swarm(4, {});
  swarm.network.damage = [](Flight& flight) {
    auto* message = message_as<Contribution>(flight.message);
    if (message == nullptr || flight.from != test_peer(1)) return;
    message->head = {message->head.length + 1000, 4 * (message->head.length + 1000), {1, 2, 3}};
  };
  swarm.run_for(seconds(4));
  EXPECT_GT(swarm.at(2).exchange().log(0).head().length, 30u);
  EXPECT_GT(swarm.at(2).exchange().log(1).head().length, 30u);
}

// Member 1 claims just a little more than each owner holds, and claims it again when the owner's log has outgrown that.
TEST(UpdateHostile, HeadsThatTheLogSoonOutgrowsStopNoOwnerEachTime) {
  for (const uint64_t more : {1, 4, 8}) {
    UpdateSwarm swarm(4, {});
    swarm.run_for(seconds(1));
    uint64_t lies = 0;
    swarm.network.damage = [&](Flight& flight) {
      auto* message = message_as<Contribution>(flight.message);
      if (message == nullptr || flight.from != test_peer(1)) return;
      message->head = {message->head.length + 1, message->head.weight + more, {1, 2, static_cast<uint8_t>(++lies)}};
    };
    const uint64_t length = swarm.at(2).exchange().log(0).head().length, round = swarm.at(2).exchange().round();
    swarm.run_for(seconds(6));
    EXPECT_GT(lies, 100u);
    EXPECT_GT(static_cast<double>(swarm.at(2).exchange().log(0).head().length - length),
              .75 * static_cast<double>(swarm.at(2).exchange().round() - round))
        << more;
  }
}

// Since an agent last took an entry, each round can have made one more.
TEST(UpdateHostile, AHeadOfMoreEntriesThanThereWereRoundsIsRefused) {
  for (const bool weight : {false, true}) {
    UpdateSwarm swarm(4, {});
    swarm.run_for(seconds(1));
    swarm.network.damage = [&](Flight& flight) {
      auto* message = message_as<Contribution>(flight.message);
      if (message == nullptr || flight.from != test_peer(1)) return;
      const uint64_t length = message->head.length + (weight ? 0 : 20);
      message->head = {length, message->head.weight + 80, {1, 2, 3}};
    };
    const uint64_t length = swarm.at(2).exchange().log(0).head().length;
    swarm.run_for(seconds(2));
    EXPECT_GT(swarm.at(2).exchange().log(0).head().length, length + 30) << "no owner stopped for it";
    for (const uint8_t tag : {2, 3, 4}) {
      EXPECT_GT(swarm.at(tag).exchange().tally().ignored_messages, 0u);
      EXPECT_GT(swarm.at(tag).exchange().tally().refused.heads, 0u);
      EXPECT_EQ(swarm.at(tag).exchange().tally().refused.last, test_peer(1));
      EXPECT_EQ(swarm.at(tag).exchange().tally().pulls_sent, 0u);
    }
  }
}

// Most of five make a few entries among themselves, then none. The others' own log becomes heavier.
// Members follow the rounds of the log, so one such entry would carry them beyond all rounds.
TEST(UpdateHostile, AnEntryOfARoundThatNeverComesOrThatAMinorityMadeIsRefused) {
  for (const bool minority : {false, true}) {
    SCOPED_TRACE(minority);
    UpdateSwarm swarm(4, {.slices = 1});
    swarm.run_for(seconds(1));
    size_t forged = 0;
    swarm.network.damage = [&](Flight& flight) {
      auto* entry = message_as<LogEntry>(flight.message);
      if (entry == nullptr || flight.from != test_peer(1)) return;
      ++forged;
      if (minority) {
        entry->head.weight -= entry->counted.size() - 2;
        entry->counted.resize(2);
      } else {
        entry->round = kUpdateRoundMax;
      }
      entry->head.hash = entry_hash(*entry, xxh3_128(flight.payload.span()));
    };
    const uint64_t length = swarm.at(2).exchange().log(0).head().length;
    swarm.run_for(seconds(4));
    EXPECT_GT(forged, 12u);
    EXPECT_GT(swarm.at(2).exchange().log(0).head().length, length + 20);
    EXPECT_LT(swarm.at(2).exchange().round(), 1000u);
    for (const uint8_t tag : {2, 3, 4}) {
      EXPECT_GT(swarm.at(tag).exchange().tally().ignored_messages, 0u);
      EXPECT_GT(swarm.at(tag).exchange().tally().refused.entries, 0u);
      EXPECT_EQ(swarm.at(tag).exchange().tally().refused.last, test_peer(1));
      for (const LoggedEntry& logged : swarm.at(tag).exchange().log(0).entries()) {
        EXPECT_GT(logged.entry.counted.size(), 2u);
      }
    }
  }
}

TEST(UpdateHostile, OfFourOrMoreTwoMustShowASplitBeforeAnyoneMovesToIt) {
  for (const int shown_by : {1, 2}) {
    UpdateSwarm swarm(5, {});
    swarm.run_for(seconds(1));
    const auto apart = [&](const PeerId& id) { return id.bytes[0] > 5 - shown_by; };
    swarm.network.drop = [&](const Flight& flight) { return apart(flight.from) != apart(flight.to); };
    for (auto& [id, agent] : swarm.agents) {
      std::erase_if(agent->view, [&, side = apart(id)](const auto& member) { return apart(member.first) != side; });
    }
    swarm.run_for(milliseconds(200));
    swarm.network.drop = [&](const Flight& flight) { return !apart(flight.from) || !apart(flight.to); };
    swarm.run_for(seconds(10));
    const LogHead split = swarm.at(5).exchange().log(0).head();
    ASSERT_TRUE(greater(split, swarm.at(1).exchange().log(0).head()));
    swarm.network.drop = nullptr;
    swarm.share_views();
    swarm.run_for(seconds(3));
    EXPECT_EQ(swarm.observer.continues(swarm.at(1).exchange().log(0).head(), split), shown_by == 2);
    EXPECT_LE(swarm.at(1).exchange().log(0).head().length, swarm.at(5).exchange().log(0).head().length + 1);
    EXPECT_TRUE(swarm.runs_empty(seconds(1)));
  }
}

// The last of n members made a log alone, so much longer than the others' that all that they hand in is void in it. It
// is in a round of all again, and owns this slice. What it sends from now on is lost; whom it asks for what is noted.
struct Alone {
  static constexpr size_t kStateBytes = 3 * sizeof(float);

  explicit Alone(uint8_t n) : swarm(n, {.slices = n}), agent(swarm.at(n)) {
    swarm.run_for(seconds(1));
    theirs = swarm.at(1).exchange().log(0).head();
    swarm.network.drop = [](const Flight&) { return true; };
    agent.view = {{agent.id, agent.mass}};
    swarm.run_for(seconds(2));
    swarm.share_views();
    while (agent.roster.size() < n) swarm.run_for(milliseconds(1));
    members = update_members(agent, agent.id).value();
    round = agent.exchange().round();
    while (members.owner(slice, round) != members.self) ++slice;
    own = agent.exchange().log(slice).head();
    EXPECT_GT(own.length, theirs.length + CountedTable::kEntriesToCount);
    theirs.hash = {7};
    swarm.network.drop = [this](const Flight& flight) {
      const auto* pull = message_as<LogPull>(flight.message);
      if (flight.from == agent.id && pull != nullptr && pull->slice == slice) {
        asked_after.push_back(pull->head);
        if (pull->head == own) told.insert(flight.to);
      }
      return true;
    };
  }

  void hear(uint8_t from, const ExchangeMessage& message, size_t payload_bytes = 12) {
    agent.exchange().handle(test_peer(from), 1, message, SharedBytes::take(std::vector<std::byte>(payload_bytes)));
    agent.complete();
  }
  Contribution contribution(const LogHead& head) const {
    return {members.group, round, slice, 1000, head.length, head, 1, 1, 0, 1, {}};
  }
  // In an early round: nothing that this member's owner could count.
  LogPull pull(const LogHead& head) const { return {slice, head, {}, {}, members.group, 1}; }
  // Members 1 to 3 made it, and the entries before it that are not of the own log.
  LogEntry entry() const {
    const LogHead before{theirs.length + 5, theirs.weight + 5, {8}};
    LogEntry made{members.group, round, slice, {before.length + 1, before.weight + 3, {9}}, before.hash};
    for (const uint8_t tag : {1, 2, 3}) made.counted.push_back({test_peer(tag), 1, 1000, 1, 1});
    made.codec = static_cast<uint8_t>(agent.codec().kind());
    return made;
  }
  // Of a log that counts what the own one does not, and the reverse.
  SliceState state(const LogHead& head) const {
    const SharedBytes block = SharedBytes::take(std::vector<std::byte>(kStateBytes));
    return {slice, head, {{test_peer(1), 1, 5000, 0, head.length}}, {{head.hash, 1, 1}}, {xxh3_128(block.span())}, 0};
  }
  bool asks_for_another() const {
    return std::find(asked_after.begin(), asked_after.end(), LogHead()) != asked_after.end();
  }

  UpdateSwarm swarm;
  UpdateAgent& agent;
  GroupMembers members;
  uint64_t round = 0;
  uint32_t slice = 0;
  LogHead own, theirs;
  std::vector<LogHead> asked_after;
  std::set<PeerId> told;  // which log this member holds
};

// As the owner of a slice it hears where they are from what is void, and asks for their log instead of waiting for its
// whole turn.
TEST(UpdateHostile, AnOwnerAloneWithALongLogMovesToTheOthers) {
  Alone alone(5);
  LogHead behind = alone.theirs;
  behind.hash = alone.agent.exchange().log(alone.slice).recent().front().hash;
  alone.hear(4, alone.contribution(behind));
  for (const uint8_t tag : {1, 2, 3}) {
    alone.hear(tag, alone.contribution(alone.theirs));
    EXPECT_EQ(alone.asks_for_another(), tag == 3) << "three are most of five";
  }
}

// Who is not their owner, or in a later round than all others, hears it from whatever they send.
TEST(UpdateHostile, WhoAloneHoldsAHeavierLogAsksForThatOfTheOthers) {
  for (const bool all : {false, true}) {
    Alone alone(4);
    for (const uint8_t tag : {1, 2, 3}) {
      EXPECT_FALSE(alone.asks_for_another());
      alone.hear(tag, alone.pull(tag == 1 && !all ? alone.own : alone.theirs), 0);
    }
    EXPECT_EQ(alone.asks_for_another(), all) << "to a log that two hold the others move";
  }
}

// Nobody need have made an entry without it.
TEST(UpdateHostile, WhoHearsOfASplitAndThatItsHeavierSideIsSharedTellsAllOthers) {
  for (const bool parted : {false, true}) {
    Alone alone(5);
    const LogHead lighter{alone.own.length, alone.own.weight - 1, {9}};
    const LogHead behind{lighter.length - 8, 1, {9}};
    alone.hear(1, alone.pull(parted ? lighter : behind), 0);
    EXPECT_EQ(alone.told.size(), 0u);
    alone.hear(4, alone.pull(alone.own), 0);
    EXPECT_EQ(alone.told.size(), parted ? 4u : 0u);
  }
}

// Whoever shows a state says so by what else it sends.
TEST(UpdateHostile, AClaimShowsTheStateThatIsComplete) {
  Alone alone(5);
  const LogHead heavier{alone.own.length, alone.own.weight + 1, {9}};
  alone.hear(1, alone.state(heavier), alone.kStateBytes);
  EXPECT_EQ(alone.agent.exchange().log(alone.slice).head(), alone.own) << "one may lie";
  alone.hear(2, alone.pull(heavier), 0);
  EXPECT_EQ(alone.agent.exchange().log(alone.slice).head(), heavier);
}

// It heard just before that another log is there, and asked for what follows its own, which brings nothing.
TEST(UpdateHostile, WhoHearsThatMostGoOnWithoutItsLogAsksForTheirsAtOnce) {
  Alone alone(4);
  const LogEntry entry = alone.entry();
  alone.hear(1, alone.contribution({entry.head.length - 1, entry.head.weight - 3, entry.previous}));
  ASSERT_EQ(alone.asked_after, std::vector<LogHead>{alone.own});
  ASSERT_TRUE(greater(alone.own, entry.head));
  alone.hear(2, entry);
  EXPECT_EQ(alone.asked_after, (std::vector<LogHead>{alone.own, {}}));
}

// Nobody's log is shown by two, and two claims or more stop every owner.
TEST(UpdateHostile, MembersThatWereAllAloneFindOneLogAllTheSame) {
  UpdateSwarm swarm(5, {});
  swarm.run_for(seconds(1));
  swarm.network.drop = [](const Flight&) { return true; };
  for (auto& [id, agent] : swarm.agents) agent->view = {{id, agent->mass}};
  swarm.run_for(seconds(3));
  swarm.network.drop = nullptr;
  swarm.share_views();
  EXPECT_TRUE(swarm.runs_empty(seconds(10)));
}

TEST(UpdateHostile, ADamagedBlockOfAStateIsRefusedAndAskedForAgain) {
  const std::unique_ptr<UpdateCodec> exact = make_update_codec({});
  UpdateAgentOptions options;
  options.codec = exact.get();
  options.slices = 1;
  options.elements = 300 * 1000;
  options.compute = milliseconds(100);
  UpdateSwarm swarm(3, options);
  swarm.run_for(milliseconds(300));
  swarm.network.drop = [&](const Flight& flight) { return flight.from == test_peer(3) || flight.to == test_peer(3); };
  for (auto& [id, agent] : swarm.agents) agent->still = true;
  swarm.run_for(seconds(2));
  swarm.network.drop = nullptr;
  int damaged = 0;
  swarm.network.damage = [&](Flight& flight) {
    if (is<SliceState>(flight) && damaged++ % 2 == 0) flight.payload = with_value(flight.payload, 7e7f);
  };
  EXPECT_TRUE(swarm.runs_empty());
  EXPECT_GT(swarm.at(3).exchange().tally().refused.blocks, 0u);
  EXPECT_TRUE(swarm.at(3).exchange().tally().refused.last.has_value());
  EXPECT_GT(swarm.at(3).exchange().tally().states_adopted, 0u);
}

TEST(UpdateHostile, StrangersAndImpossibleMessagesAreCountedAndTouchNothing) {
  UpdateSwarm swarm(2, {});
  swarm.run_for(seconds(1));
  UpdateAgent& agent = swarm.at(1);
  const uint64_t before = agent.exchange().tally().ignored_messages;
  const LogHead head = agent.exchange().log(0).head();
  const PeerId stranger = test_peer(99), member = test_peer(2);
  const SharedBytes twelve = SharedBytes::take(std::vector<std::byte>(12));
  const LogHead greater_head{1000, 2000, {9}};
  const auto send = [&](const PeerId& from, const ExchangeMessage& message, const SharedBytes& payload) {
    agent.exchange().handle(from, 1, message, payload);
    agent.complete();
  };
  send(stranger, Contribution{1, 5, 0, 1, 0, greater_head, 1, 1, 0, 1, {}}, twelve);
  send(stranger, LogPull{0, {}, {}, {}}, {});
  send(stranger, SliceState{0, greater_head, {}, {}, {{}}, 0}, twelve);
  send(member, Contribution{1, 5, 7, 1, 0, {}, 1, 1, 0, 1, {}}, twelve);  // no such slice
  send(member, Contribution{1, 5, 0, 1, 0, {}, 1, 3, 0, 1, {}}, twelve);  // another codec
  send(member, Contribution{1, 5, 0, 1, 0, {}, 1, 1, 0, 1, {}}, SharedBytes::take(std::vector<std::byte>(4096)));
  send(member, Contribution{1, 5, 0, 1, 0, {}, 1, 1, 1, 2, {}}, twelve);  // a second part
  send(member, RoundCredit{0, 1, 0, 1}, {});                              // of a neighborhood
  send(member, Busy{}, {});
  EXPECT_EQ(agent.exchange().tally().ignored_messages, before + 9);
  EXPECT_EQ(agent.exchange().tally().refused.payloads, 4u) << "strangers' are not counted here";
  EXPECT_EQ(agent.exchange().tally().refused.last, member);
  EXPECT_EQ(agent.exchange().log(0).head(), head);
  swarm.run_for(seconds(1));
  EXPECT_GT(agent.exchange().log(0).head().length, head.length + 10);
}

TEST(UpdateHostile, TheStatusSaysHowMuchWasRefusedAndWhoSentTheLastOfIt) {
  VirtualClock clock;
  TestNetwork network(clock, 1);
  UpdateAgent agent(1, 1, {}, clock, network);
  for (const uint8_t tag : {1, 2, 3}) agent.view[test_peer(tag)] = 1;
  std::vector<float> params(4), accumulator(4);
  const std::unique_ptr<UpdateCodec> exact = make_update_codec({});
  const std::vector<SliceRange> slices = {{0, 4}};
  const UpdateGroupOptions options{
      .self = agent.id, .generation = 1, .deadline_min = milliseconds(20), .deadline_max = milliseconds(100)};
  UpdateExchange exchange(options, slices, {params, {}, accumulator, {}}, {exact.get(), exact.get()}, agent.worker,
                          clock, agent.port, agent);
  EXPECT_EQ(exchange.updates_status().counters.refused(), 0u);
  EXPECT_EQ(exchange.updates_status().refused_last, std::nullopt);
  const SharedBytes twelve = SharedBytes::take(std::vector<std::byte>(12));
  const uint32_t none = 7;  // no such slice
  exchange.handle(test_peer(2), 1, Contribution{1, 5, none, 1, 0, {}, 1, 1, 0, 1, {}}, twelve);
  EXPECT_EQ(exchange.updates_status().refused_last, test_peer(2));
  LogEntry entry;
  entry.slice = none;
  for (int i = 0; i < 2; ++i) exchange.handle(test_peer(3), 1, entry, twelve);
  for (int i = 0; i < 3; ++i) exchange.handle(test_peer(3), 1, SliceState{none, {}, {}, {}, {{}}, 0}, twelve);
  exchange.handle(test_peer(99), 1, entry, twelve);  // a stranger
  const UpdatesStatus status = exchange.updates_status();
  EXPECT_EQ(status.counters.payloads_refused, 1u);
  EXPECT_EQ(status.counters.entries_refused, 2u);
  EXPECT_EQ(status.counters.blocks_refused, 3u);
  EXPECT_EQ(status.counters.refused(), 6u);
  EXPECT_EQ(status.refused_last, test_peer(3));
}

// A value of a replica changes by itself: the entries still chain, and the audit finds it.
TEST(UpdateHostile, AReplicaThatIsNotWhatItsHeadSaysIsReplaced) {
  const std::unique_ptr<UpdateCodec> exact = make_update_codec({});
  for (const size_t slices : {1, 2, 3, 16}) {
    UpdateAgentOptions options;
    options.codec = exact.get();
    options.slices = slices;
    UpdateSwarm swarm(4, options);
    swarm.run_for(seconds(1));
    ASSERT_GT(swarm.at(2).exchange().log(0).head().length, kRecentEntries);
    swarm.judge_bits = false;
    swarm.at(2).params[0] += 64;
    swarm.run_for(seconds(static_cast<int>(2 + slices)));
    EXPECT_EQ(swarm.at(2).exchange().tally().audits_failed, 1u) << slices;
    for (const uint8_t tag : {1, 3, 4}) EXPECT_EQ(swarm.at(tag).exchange().tally().audits_failed, 0u);
    EXPECT_EQ(swarm.at(2).exchange().replicas().tally().long_splits, 0u);
    swarm.judge_bits = true;
    EXPECT_TRUE(swarm.runs_empty());
    swarm.run_for(milliseconds(200));
    for (const uint8_t tag : {1, 3, 4}) EXPECT_EQ(swarm.at(tag).params, swarm.at(2).params);
  }
}

// Member 1 hands in a million times what it should, from its ninth entry on. The others' model moves by about three
// times an honest payload.
TEST(UpdateHostile, APayloadCountsAtMostThreeTimesTheUsualNorm) {
  const std::unique_ptr<UpdateCodec> exact = make_update_codec({});
  UpdateAgentOptions options;
  options.codec = exact.get();
  options.elements = 100;
  UpdateSwarm swarm(5, options);
  swarm.run_for(seconds(1));
  ASSERT_GT(swarm.at(2).exchange().log(0).head().length, 8u);
  swarm.network.damage = [](Flight& flight) {
    if (!is<Contribution>(flight) || flight.from != test_peer(1)) return;
    flight.payload = with_value(flight.payload, 1e6f);
  };
  swarm.run_for(seconds(2));
  for (uint8_t tag = 2; tag <= 5; ++tag) {
    double squared = 0;
    for (float value : swarm.at(tag).params) squared += std::pow(static_cast<double>(value), 2);
    // 50 rounds of at most 3 * sqrt(200) * 6 / 5 from the liar, in one direction.
    EXPECT_LT(std::sqrt(squared), 50 * 3 * 6 * std::sqrt(200.0) / 5 * 2);
  }
}

// What it handed in says that it was made a long time hence, and does not decode, so it neither counts nor is void.
TEST(UpdateHostile, NothingIsHeldOfAMemberThatLeft) {
  UpdateSwarm swarm(4, {});
  swarm.run_for(seconds(1));
  UpdateAgent& agent = swarm.at(1);
  const SharedBytes payload = SharedBytes::take(std::vector<std::byte>(3));
  Contribution message;
  message.group = group_id(agent.group());
  message.round = agent.exchange().round();
  message.seq = 1 << 20;
  message.length = 1ull << 40;
  message.head = agent.exchange().log(0).head();
  message.codec = static_cast<uint8_t>(UpdateKind::kFp32);
  agent.exchange().handle(test_peer(4), 1, message, payload);
  swarm.agents.erase(test_peer(4));
  ASSERT_GT(payload.owner.use_count(), 1) << "it is held while its sender may hand in more";
  swarm.share_views();
  swarm.run_for(seconds(1));
  EXPECT_EQ(payload.owner.use_count(), 1);
}

// The buffer for all parts is taken when the first one comes.
TEST(UpdateHostile, NoPayloadHasMorePartsThanItsSizeAllows) {
  const size_t bytes_max = 3 * kUpdatePartBytes;
  EXPECT_TRUE(PartBuffer::fits(0, 3, kUpdatePartBytes, bytes_max));
  EXPECT_TRUE(PartBuffer::fits(2, 3, kUpdatePartBytes, bytes_max));
  EXPECT_FALSE(PartBuffer::fits(0, 4, kUpdatePartBytes, bytes_max));
  EXPECT_FALSE(PartBuffer::fits(0, 1'000'000, kUpdatePartBytes, bytes_max));
}

}  // namespace
}  // namespace starling::exchange_test
