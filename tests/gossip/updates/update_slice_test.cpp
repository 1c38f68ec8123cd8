// One slice at one member: whom it asks, which states it believes, and what others send that it refuses.
#include "gossip/updates/update_slice.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "gossip/net/hash.h"
#include "gossip/sim/virtual_network.h"
#include "gossip/updates/update_parts.h"
#include "gossip/updates/update_pulls.h"

namespace starling {
namespace {

using std::chrono::milliseconds;

PeerId peer(uint8_t tag) {
  PeerId id;
  id.bytes.fill(tag);
  return id;
}

class Sent final : public Outbox {
 public:
  void send(const PeerId& to, const Message& message, SharedBytes) override {
    pulls.emplace_back(to, std::get<LogPull>(std::get<ExchangeMessage>(message)));
  }
  void send(const PeerAddress&, const Message&, SharedBytes) override { std::abort(); }
  std::vector<std::pair<PeerId, LogPull>> pulls;
};

// A log that counts four payloads of each of two members, and states that others show.
class UpdateSliceTest : public testing::Test {
 protected:
  UpdateSliceTest() {
    slice.restore(state({4, 8, {4}}, {}));
    slice.begin_round(2);
  }

  // Of the log with this head, after these entries.
  SliceState state(const LogHead& head, std::vector<Digest16> before, bool split = false) {
    SliceState made{0, head, {{peer(1), 1, 4, 7, head.length}, {peer(2), 1, 4, 7, head.length}}, {}, {}, 0};
    if (split) made.table[0].newest = 3, made.table[1].newest = 5;
    for (const Digest16& hash : before) made.recent.push_back({hash, 1, 1});
    if (head.length > 0) made.recent.push_back({head.hash, 1, 1});
    made.hashes = {xxh3_128(block.span())};
    return made;
  }
  // Of a log that lacks a payload that the own one counts, and counts one that the own one lacks.
  SliceState split(uint64_t weight, uint8_t hash, std::vector<Digest16> before = {}) {
    return state({5, weight, {hash}}, std::move(before), true);
  }

  SharedBytes payload(float value) const {
    std::vector<std::byte> bytes(exact->bytes_max(UpdateRole::kEntry, 1));
    bytes.resize(exact->encode(UpdateRole::kEntry, std::vector<float>{value}, {}, bytes).value());
    return SharedBytes::take(std::move(bytes));
  }
  // Of weight 10, if the log is as at first.
  LogEntry next_entry(float value) const {
    LogEntry entry{1, 9, 0, {5, 10, {}}, slice.log().head().hash, 2, {{peer(1), 1, 5, 1, 1}, {peer(2), 1, 5, 1, 1}}};
    entry.codec = static_cast<uint8_t>(exact->kind());
    entry.head.hash = entry_hash(entry, xxh3_128(payload(value).span()));
    return entry;
  }
  void receive_entry(uint8_t from, const LogEntry& entry, float value) {
    slice.receive(peer(from), entry, payload(value));
    while (worker.has_completions()) worker.run_completions();
  }

  std::unique_ptr<UpdateCodec> exact = make_update_codec({});
  const UpdateCodecs codecs{exact.get(), exact.get()};
  const SharedBytes block = SharedBytes::take(std::vector<std::byte>(sizeof(float)));
  InlineWorker worker;
  UpdateRefusals refusals;
  int changes = 0;
  UpdateSlice slice{{0, 1, 1}, 1e30f, codecs, worker, refusals, [this] { ++changes; }};
};

TEST_F(UpdateSliceTest, OneMembersClaimStopsNoOwnerOnceItIsKnownToBeASplit) {
  HeadAnnouncements& claims = slice.claims();
  const LogHead own = slice.log().head();
  const SliceState other = split(9, 9);
  EXPECT_TRUE(claims.hear(peer(3), other.head, own, 1));
  EXPECT_TRUE(claims.lacks(own, 1));
  EXPECT_TRUE(slice.receive(peer(3), other, block)) << "complete, and one shows it";
  EXPECT_EQ(changes, 1) << "the owner may merge now";
  EXPECT_FALSE(claims.lacks(own, 1));
  EXPECT_TRUE(claims.hear(peer(4), {6, 10, {10}}, own, 1));
  EXPECT_TRUE(claims.lacks(own, 1)) << "another head";
  claims.doubt({6, 10, {10}});
  EXPECT_TRUE(claims.lacks(own, 1)) << "two members";
}

// A liar claims a little more than the own log has, and again when that has outgrown it.
TEST_F(UpdateSliceTest, AClaimThatTheOwnLogOutgrewGivesTheNextOneNoNewRounds) {
  HeadAnnouncements& claims = slice.claims();
  const LogHead own = slice.log().head(), grown{own.length + 1, own.weight + 3, {7}};
  const LogHead more{own.length + 1, own.weight + 1, {9}}, again{own.length + 2, own.weight + 4, {10}};
  EXPECT_TRUE(claims.hear(peer(3), more, own, 1));
  EXPECT_TRUE(claims.lacks(own, 3));
  claims.settle(grown);
  EXPECT_TRUE(claims.hear(peer(3), again, grown, 4));
  EXPECT_FALSE(claims.lacks(grown, 4));
  EXPECT_TRUE(claims.hear(peer(4), again, grown, 4));
  EXPECT_TRUE(claims.lacks(grown, 4)) << "another member's claim";
  claims.settle(again);
  EXPECT_TRUE(claims.hear(peer(3), {20, 90, {11}}, again, 5));
  EXPECT_TRUE(claims.lacks(again, 7)) << "what it claimed last is here";
  claims.settle({21, 91, {12}});
  EXPECT_TRUE(claims.hear(peer(3), {22, 92, {13}}, {21, 91, {12}}, 6 + HeadAnnouncements::kVainRounds));
  EXPECT_TRUE(claims.lacks({21, 91, {12}}, 6 + HeadAnnouncements::kVainRounds)) << "long after that";
}

TEST_F(UpdateSliceTest, NobodySharesALogThatAllOthersHoldAnotherOneOf) {
  HeadAnnouncements& claims = slice.claims();
  const GroupMembers members{1, {peer(1), peer(2), peer(3), peer(4)}, 0};
  const LogHead own = slice.log().head(), apart{3, 6, {9}};
  const auto alone = [&] { return claims.nobody_shares(members, slice.log()); };
  for (const uint8_t tag : {2, 3}) EXPECT_FALSE(claims.hear(peer(tag), apart, own, 1));
  EXPECT_FALSE(alone()) << "one was not heard";
  for (const LogHead& other : {own, LogHead(), LogHead{5, 9, {9}}}) {
    (void)claims.hear(peer(4), other, own, 1);
    EXPECT_FALSE(alone()) << "it holds the own log, or none yet, or a greater one";
  }
  EXPECT_FALSE(claims.hear(peer(4), apart, own, 1));
  EXPECT_TRUE(alone());
  claims.forget(peer(3));
  EXPECT_FALSE(alone()) << "another process";
  EXPECT_FALSE(claims.hear(peer(3), apart, own, 1));
  EXPECT_TRUE(alone());
  claims.settle(own);
  EXPECT_FALSE(alone()) << "what was said before the own log moved";
}

// Nobody sends the same state again who does not know that it is missing a second one who shows it.
TEST_F(UpdateSliceTest, WhoSaysThatItHoldsTheStateThatIsCompleteShowsIt) {
  const LogHead own = slice.log().head();
  EXPECT_TRUE(slice.receive(peer(3), split(9, 9), block));
  EXPECT_TRUE(slice.claims().hear(peer(4), {5, 10, {10}}, own, 1));
  slice.look_again();
  EXPECT_EQ(slice.log().head(), own) << "it holds another one";
  EXPECT_TRUE(slice.claims().hear(peer(5), {5, 9, {9}}, own, 1));
  slice.look_again();
  EXPECT_EQ(slice.log().head().weight, 9u);
}

// The others will move to a log that two hold, so who holds it must not leave it.
TEST_F(UpdateSliceTest, WhoMovesToALogKnowsFromWhomItHasIt) {
  HeadAnnouncements& claims = slice.claims();
  const LogEntry entry = next_entry(3);
  claims.note_holder(peer(3), entry.head, 1);
  claims.note_holder(peer(4), {5, 10, {77}}, 1);
  receive_entry(3, entry, 3);
  ASSERT_EQ(slice.log().head(), entry.head);
  EXPECT_TRUE(claims.somebody_shares(entry.head, 2));
  EXPECT_FALSE(claims.somebody_shares(entry.head, 3)) << "it may have moved on";
  EXPECT_FALSE(claims.somebody_shares({5, 10, {77}}, 2)) << "what was said before the own log moved";
}

TEST_F(UpdateSliceTest, ALighterLogTakesItsPlaceOnlyIfMostGoOnWithoutItAndTwoShowIt) {
  const SliceState lighter = split(7, 9);
  EXPECT_FALSE(slice.receive(peer(3), lighter, block));
  EXPECT_EQ(slice.collecting(), nullptr);
  slice.yield();
  EXPECT_EQ(slice.asks_after(), LogHead());
  EXPECT_FALSE(slice.receive(peer(4), state({3, 6, {3}}, {}), block)) << "only behind";
  EXPECT_EQ(slice.collecting(), nullptr);
  EXPECT_TRUE(slice.receive(peer(3), lighter, block));
  EXPECT_EQ(slice.log().head().weight, 8u) << "one may lie";
  EXPECT_FALSE(slice.receive(peer(4), lighter, block));
  EXPECT_EQ(slice.log().head().weight, 7u);
  slice.begin_round(2);
  EXPECT_EQ(slice.asks_after(), slice.log().head());
}

// Whoever is asked while a state is collected sends blocks of that one, so no greater state would ever come.
TEST_F(UpdateSliceTest, AStateIsDroppedOnceTheLogHasPassedItOrNoLongerYields) {
  slice.yield();
  EXPECT_TRUE(slice.receive(peer(3), split(7, 7), block));
  ASSERT_NE(slice.collecting(), nullptr);
  slice.begin_round(2);
  EXPECT_EQ(slice.collecting(), nullptr);
  EXPECT_TRUE(slice.receive(peer(3), split(9, 9), block));
  ASSERT_NE(slice.collecting(), nullptr);
  receive_entry(3, next_entry(3), 3);
  ASSERT_EQ(slice.log().head().weight, 10u);
  EXPECT_EQ(slice.collecting(), nullptr);
}

TEST_F(UpdateSliceTest, WhoWasHeardTooSoonAfterAPullIsAskedLater) {
  VirtualClock clock;
  Sent sent;
  UpdatePulls pulls(1, clock, sent, 1);
  pulls.begin_round({1, {peer(1), peer(2), peer(3)}, 0}, 1, milliseconds(25));
  UpdateSlices slices;
  slices.push_back(std::make_unique<UpdateSlice>(UpdateSlice::Shape{0, 1, 1}, 1e30f, codecs, worker, refusals, [] {}));
  UpdateSlice& of = *slices[0];
  pulls.ask(of, peer(2));
  ASSERT_EQ(sent.pulls.size(), 1u);
  EXPECT_EQ(pulls.next_deadline(slices), TimePoint::max());
  EXPECT_TRUE(of.claims().hear(peer(3), {1, 2, {1}}, of.log().head(), 1));
  pulls.ask(of, peer(3));
  EXPECT_EQ(sent.pulls.size(), 1u);
  ASSERT_EQ(pulls.next_deadline(slices), clock.now() + milliseconds(25));
  clock.advance(milliseconds(25));
  pulls.tick(slices);
  ASSERT_EQ(sent.pulls.size(), 2u);
  EXPECT_EQ(sent.pulls[1].first, peer(3));
  pulls.ask(of, peer(2));  // who claims nothing that is lacking
  clock.advance(milliseconds(25));
  pulls.tick(slices);
  EXPECT_EQ(sent.pulls.size(), 2u);
}

// Where it was only late it comes twice, and the answers make all else later still.
TEST_F(UpdateSliceTest, WhereMostOfWhatWasAskedForComesTwiceItIsAskedForLater) {
  VirtualClock clock;
  Sent sent;
  constexpr uint32_t kSlices = 200;  // each is asked for once
  UpdatePulls pulls(kSlices, clock, sent, 1);
  pulls.begin_round({1, {peer(1), peer(2), peer(3)}, 0}, 1, milliseconds(25));
  UpdateSlices slices;
  for (uint32_t i = 0; i < kSlices; ++i) {
    const UpdateSlice::Shape shape{i, 1, 1};
    slices.push_back(std::make_unique<UpdateSlice>(shape, 1e30f, codecs, worker, refusals, [] {}));
    EXPECT_TRUE(slices[i]->claims().hear(peer(2), {1, 2, {1}}, slices[i]->log().head(), 1));
  }
  uint32_t next = 0;
  const auto ask = [&](bool twice) {
    const uint32_t slice = next++;
    pulls.ask(*slices[slice], peer(2));
    clock.advance(milliseconds(10000));
    pulls.tick(slices);
    pulls.came(slice, twice ? peer(3) : peer(2), 1, false);
    if (twice) pulls.came(slice, peer(2), 1, true);
    pulls.came(slice, peer(2), 7, true);  // another entry
  };
  for (int i = 0; i < 5; ++i) ask(true);
  EXPECT_EQ(pulls.patience(), 1) << "several may have been asked";
  for (int i = 0; i < 15; ++i) ask(true);
  EXPECT_GT(pulls.patience(), 2);
  const size_t before = sent.pulls.size();
  pulls.ask(*slices[next++], peer(2));
  EXPECT_EQ(sent.pulls.size(), before);
  const TimePoint at = pulls.next_deadline(slices);
  EXPECT_EQ(at, clock.now() + from_seconds((pulls.patience() - 1) * 0.025));
  clock.advance(at - clock.now());
  pulls.tick(slices);
  EXPECT_EQ(sent.pulls.size(), before + 1);
  for (int i = 0; i < 100; ++i) ask(true);
  EXPECT_LT(pulls.patience(), 100);
  for (int i = 0; i < 20; ++i) ask(false);
  EXPECT_EQ(pulls.patience(), 1);
}

// A liar that is quicker than the owner: nobody could ever take the entry, and no other follows.
TEST_F(UpdateSliceTest, AFrameThatIsNotWhatItsHashSaysTakesNoEntrysPlace) {
  const LogEntry entry = next_entry(3);
  LogEntry other = entry;
  other.head.length += 3;
  receive_entry(3, other, 3);
  EXPECT_EQ(refusals.last, peer(3));
  receive_entry(4, entry, 4);
  EXPECT_FALSE(slice.checking());
  EXPECT_EQ(refusals.entries, 2u);
  EXPECT_EQ(refusals.last, peer(4));
  EXPECT_EQ(slice.log().head().length, 4u);
  other = entry;
  other.parts = 2;
  receive_entry(3, other, 3);  // of which the second part never comes
  receive_entry(1, entry, 3);
  EXPECT_EQ(slice.log().head(), entry.head);
}

// Entries with true hashes that follow no log stay until the log has passed them.
TEST_F(UpdateSliceTest, WhoFillsThePlacesOfEntriesTakesOnlyItsOwn) {
  const LogEntry entry = next_entry(3);
  LogEntry other = entry;
  other.previous = {9};
  for (size_t lies = 0; lies < 2 * UpdateEntries::kHeldMax;) {
    ++other.round;
    other.head.hash = entry_hash(other, xxh3_128(payload(3).span()));
    if (other.head.hash < entry.head.hash) continue;  // the smallest one went first
    receive_entry(3, other, 3);
    ++lies;
  }
  receive_entry(1, entry, 3);
  EXPECT_EQ(slice.log().head(), entry.head);
}

// Its own steps go on, and the others make entries.
TEST_F(UpdateSliceTest, ABacklogBeyondTheSizeOfTheStateTakesNoMore) {
  constexpr size_t kElements = 1 << 20;
  UpdateSlice large({0, kElements, kElements}, 1e30f, codecs, worker, refusals, [] {});
  std::vector<std::byte> bytes(exact->bytes_max(UpdateRole::kEntry, kElements));
  bytes.resize(exact->encode(UpdateRole::kEntry, std::vector<float>(kElements, 1.0f), {}, bytes).value());
  const SharedBytes update = SharedBytes::take(std::move(bytes));
  const auto receive_next = [&] {
    const LogHead& head = large.log().head();
    const uint64_t next = head.length + 1;
    LogEntry entry{1, next, 0, {next, 2 * next, {}}, head.hash, 2, {}};
    for (const uint8_t tag : {1, 2}) entry.counted.push_back({peer(tag), 1, next, 1, 1});
    entry.codec = static_cast<uint8_t>(exact->kind());
    entry.parts = parts_of(update.size);
    entry.head.hash = entry_hash(entry, xxh3_128(update.span()));
    for (entry.part = 0; entry.part < entry.parts; ++entry.part) {
      large.receive(peer(3), entry, part_of(update, entry.part));
    }
    while (worker.has_completions()) worker.run_completions();
  };
  for (int i = 0; i < 20; ++i) receive_next();
  EXPECT_TRUE(large.full());
  EXPECT_EQ(large.log().head().length, kRecentEntries);
  (void)large.take_backlog();
  EXPECT_FALSE(large.full());
  receive_next();
  EXPECT_EQ(large.log().head().length, kRecentEntries + 1);
}

// One of them lies, and nobody knows which one.
TEST_F(UpdateSliceTest, ABadEntryWhosePartsSeveralSentNamesNobody) {
  LogEntry entry{1, 9, 0, {5, 10, {7}}, slice.log().head().hash, 2, {{peer(1), 1, 5, 1, 1}, {peer(2), 1, 5, 1, 1}}};
  entry.codec = static_cast<uint8_t>(exact->kind());
  entry.parts = 2;
  const auto receive = [&](uint8_t from, uint32_t part, size_t bytes) {
    entry.part = part;
    slice.receive(peer(from), entry, SharedBytes::take(std::vector<std::byte>(bytes)));
    while (worker.has_completions()) worker.run_completions();
  };
  for (const uint8_t second : {3, 4}) {
    receive(3, 0, kUpdatePartBytes);
    receive(second, 1, 8);
    EXPECT_EQ(refusals.last, second == 3 ? std::optional(peer(3)) : std::nullopt);
  }
  EXPECT_EQ(refusals.entries, 2u);
}

TEST_F(UpdateSliceTest, AStateOfAnotherModelAndABlockThatIsDamagedOrNotFiniteAreRefused) {
  SliceState larger = split(9, 9);
  larger.hashes.resize(2);
  EXPECT_FALSE(slice.receive(peer(3), larger, block));
  EXPECT_EQ(refusals.blocks, 1u);
  EXPECT_EQ(refusals.last, peer(3));
  EXPECT_EQ(slice.collecting(), nullptr);
  SliceState other = split(9, 9);
  other.hashes[0][0] ^= 1;
  EXPECT_FALSE(slice.receive(peer(3), other, block));
  slice.stop_collecting();
  EXPECT_FALSE(slice.receive(peer(3), split(9, 9), SharedBytes::take(std::vector<std::byte>(8))));
  EXPECT_FALSE(slice.receive(peer(3), split(9, 9), SharedBytes::take(std::vector<std::byte>(3))));
  EXPECT_EQ(refusals.blocks, 4u);
  slice.stop_collecting();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto bytes = std::as_bytes(std::span(&nan, 1));
  const SharedBytes not_finite = SharedBytes::take({bytes.begin(), bytes.end()});
  other.hashes[0] = xxh3_128(not_finite.span());
  for (const uint8_t tag : {3, 4}) EXPECT_FALSE(slice.receive(peer(tag), other, not_finite));
  EXPECT_EQ(refusals.blocks, 6u);
  EXPECT_EQ(refusals.last, peer(4));
  EXPECT_FALSE(slice.has_backlog());
  EXPECT_EQ(slice.log().head().weight, 8u);
}

}  // namespace
}  // namespace starling
