// The log of one slice and one member's replica of it, without any network: what counts, what is settled, what is taken
// back. All values are small integers, so every float sum is exact.
#include "gossip/updates/update_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "gossip/net/hash.h"
#include "gossip/rng.h"
#include "gossip/updates/update_inbox.h"
#include "gossip/updates/update_replicas.h"
#include "tests/support/seeds.h"

namespace starling {
namespace {

PeerId peer(uint8_t tag) {
  PeerId id;
  id.bytes.fill(tag);
  return id;
}

// ---- the counted table ----

TEST(CountedTable, RemembersWhatItCountsAndWhatItNeverCan) {
  CountedTable table;
  EXPECT_EQ(table.counting(peer(1), 5, 1), Counting::kNot);
  table.count({peer(1), 5, 3}, 1);
  table.count({peer(1), 5, 4}, 2);
  table.count({peer(1), 5, 7}, 3);
  for (const uint64_t seq : {3, 4, 7}) EXPECT_EQ(table.counting(peer(1), 5, seq), Counting::kCounted) << seq;
  for (const uint64_t seq : {1, 2, 5, 6, 8}) EXPECT_EQ(table.counting(peer(1), 5, seq), Counting::kNot) << seq;
  EXPECT_FALSE(table.may_count(peer(1), 5, 6)) << "older than the newest";
  EXPECT_FALSE(table.may_count(peer(1), 5, 7)) << "twice";
  EXPECT_TRUE(table.may_count(peer(1), 5, 8));
  EXPECT_FALSE(table.may_count(peer(1), 4, 9)) << "of a process that was replaced";
  table.count({peer(1), 6, 1}, 4);
  EXPECT_EQ(table.counting(peer(1), 5, 7), Counting::kUnknown);
  EXPECT_EQ(table.rows().size(), 1u);
  EXPECT_FALSE(CountedTable::too_old(10, 18));
  EXPECT_TRUE(CountedTable::too_old(10, 19));
}

TEST(CountedTable, AgreesWithASetOfSeqs) {
  for (uint64_t seed = 0; seed < seed_count(50); ++seed) {
    Rng rng(seed);
    CountedTable table;
    std::set<uint64_t> counted;
    uint64_t newest = 0, before_far = 0, far = 0;  // the last step of more than 8
    for (int i = 0; i < 200; ++i) {
      const uint64_t before = newest;
      newest += 1 + rng.below(rng.chance(0.05) ? 300 : 4);
      if (newest > before + 8) before_far = before, far = newest;
      table.count({peer(1), 1, newest}, static_cast<uint64_t>(i + 1));
      counted.insert(newest);
      for (uint64_t seq = newest > 500 ? newest - 500 : 1; seq <= newest + 2; ++seq) {
        const bool known = seq + 64 >= newest || (seq + 64 >= before_far && seq <= far);
        const Counting expected = !known                  ? Counting::kUnknown
                                  : counted.contains(seq) ? Counting::kCounted
                                                          : Counting::kNot;
        ASSERT_EQ(table.counting(peer(1), 1, seq), expected) << seq << " of " << newest << ", seed " << seed;
      }
    }
  }
}

// Else one entry that counts the last seq there is would shut a member out for ever.
TEST(CountedTable, NoSeqIsFarBeyondTheOneBefore) {
  CountedTable table;
  EXPECT_FALSE(table.may_count(peer(1), 1, UINT64_MAX));
  EXPECT_TRUE(table.may_count(peer(1), 1, CountedTable::kSeqStepMax));
  table.count({peer(1), 1, 9}, 1);
  EXPECT_TRUE(table.may_count(peer(1), 1, 9 + CountedTable::kSeqStepMax));
  EXPECT_FALSE(table.may_count(peer(1), 1, 10 + CountedTable::kSeqStepMax));
  EXPECT_FALSE(table.may_count(peer(1), 2, UINT64_MAX));
}

TEST(CountedTable, DropsTheRowThatCountedNothingForLongest) {
  CountedTable table;
  for (size_t i = 0; i < kCountedRowsMax; ++i) table.count({peer(static_cast<uint8_t>(i + 1)), 1, 1}, i + 1);
  table.count({peer(1), 1, 2}, 100);
  table.count({peer(200), 1, 1}, 101);
  EXPECT_EQ(table.rows().size(), kCountedRowsMax);
  EXPECT_EQ(table.row(peer(2)), nullptr);
  EXPECT_NE(table.row(peer(1)), nullptr);
  EXPECT_NE(table.row(peer(200)), nullptr);
}

// Its owner waits for nobody any more then.
TEST(UpdateInbox, SaysThatAPayloadIsHereAgainInEachRound) {
  UpdateInbox inbox;
  const SharedBytes payload = SharedBytes::take(std::vector<std::byte>(4));
  Contribution message{.round = 5, .seq = 1};
  EXPECT_TRUE(inbox.add(peer(1), 1, message, payload));
  EXPECT_FALSE(inbox.add(peer(1), 1, message, payload));
  message.round = 6;
  EXPECT_FALSE(inbox.handed_in(peer(1), 6));
  EXPECT_TRUE(inbox.add(peer(1), 1, message, payload));
  EXPECT_TRUE(inbox.handed_in(peer(1), 6));
  message.round = 5;
  EXPECT_FALSE(inbox.add(peer(1), 1, message, payload)) << "late";
}

// ---- the log ----

constexpr size_t kAllPayloads = SIZE_MAX;

struct Made {
  LogEntry entry;
  SharedBytes payload;
  double norm = 1;
};

Made make_entry(const LogHead& after, std::vector<CountedPayload> counted, std::span<const float> values,
                const UpdateCodec& codec, uint64_t round = 1) {
  std::vector<std::byte> bytes(codec.bytes_max(UpdateRole::kEntry, values.size()));
  const std::optional<size_t> size = codec.encode(UpdateRole::kEntry, values, {}, bytes);
  bytes.resize(size.value());
  Made made;
  made.norm = codec.norm(bytes);
  made.payload = SharedBytes::take(std::move(bytes));
  made.entry = {1,
                round,
                0,
                {after.length + 1, after.weight + counted.size(), {}},
                after.hash,
                1,
                std::move(counted),
                static_cast<uint8_t>(codec.kind())};
  made.entry.head.hash = entry_hash(made.entry, xxh3_128(made.payload.span()));
  return made;
}

LogStatus append(UpdateLog& log, const Made& made) {
  return log.append(made.entry, made.payload, xxh3_128(made.payload.span()), made.norm);
}

struct Codecs {
  std::unique_ptr<UpdateCodec> exact = make_update_codec({});
  std::unique_ptr<UpdateCodec> topk = make_update_codec({.kind = UpdateKind::kTopk, .density = 0.25, .reply = 1});
};

TEST(UpdateLog, TakesOnlyWhatFollowsAndHoldsItsHash) {
  const Codecs codecs;
  const std::vector<float> values = {1, 2, 3, 4};
  UpdateLog log(1e9f, kAllPayloads);
  const Made first = make_entry(log.head(), {{peer(1), 1, 1, 1, 1}, {peer(2), 1, 1, 1, 1}}, values, *codecs.exact);
  Made bad = first;
  bad.payload = make_entry(log.head(), {{peer(1), 1, 1, 1, 1}}, std::vector<float>{9, 9, 9, 9}, *codecs.exact).payload;
  EXPECT_EQ(append(log, bad), LogStatus::kWrongHash) << "other bytes";
  bad = first;
  bad.entry.counted[0].scale = 0.5f;
  EXPECT_EQ(append(log, bad), LogStatus::kWrongHash) << "another header";
  bad = first;
  bad.entry.head.weight = 31;
  EXPECT_EQ(append(log, bad), LogStatus::kWrongWeight);
  EXPECT_EQ(log.head(), LogHead{}) << "touched";
  EXPECT_EQ(append(log, first), LogStatus::kOk);
  EXPECT_EQ(append(log, first), LogStatus::kNotNext) << "again";
  EXPECT_EQ(append(log, make_entry(log.head(), {{peer(1), 1, 1, 1, 1}}, values, *codecs.exact)),
            LogStatus::kCountedTwice);
  EXPECT_EQ(append(log, make_entry(log.head(), {{peer(1), 1, 2, 1, 1}}, values, *codecs.exact)), LogStatus::kOk);
  EXPECT_EQ(log.head().length, 2u);
  EXPECT_EQ(log.head().weight, 3u);
}

TEST(UpdateLog, GivesTheLastEightEntriesToWhoMissedThem) {
  const Codecs codecs;
  UpdateLog log(1e9f, kAllPayloads);
  std::vector<LogHead> heads = {log.head()};
  for (uint64_t i = 1; i <= 12; ++i) {
    ASSERT_EQ(append(log, make_entry(log.head(), {{peer(1), 1, i, 1, 1}}, std::vector<float>{1}, *codecs.exact)),
              LogStatus::kOk);
    heads.push_back(log.head());
  }
  for (size_t i = 0; i < heads.size(); ++i) {
    const auto after = log.after(heads[i]);
    ASSERT_EQ(after.has_value(), i >= 4 && i < 12) << i;
    if (after) {
      EXPECT_EQ(after->size(), 12 - i);
    }
    EXPECT_EQ(log.has_recent(heads[i].hash), i >= 5) << i;
  }
}

// Eight entries of fp32 would be eight models. Who misses more of them than a state is large gets the state.
TEST(UpdateLog, KeepsNoMorePayloadsThanAStateIsLargeAndTwoAtLeast) {
  const Codecs codecs;
  const auto held_by = [&](const UpdateCodec& codec, size_t count, size_t bytes_max) {
    UpdateLog log(1e9f, bytes_max);
    std::vector<LogHead> heads = {log.head()};
    for (uint64_t seq = 1; seq <= kRecentEntries + 2; ++seq) {
      const std::vector<float> values(count, static_cast<float>(seq));
      EXPECT_EQ(append(log, make_entry(log.head(), {{peer(1), 1, seq, 1, 1}}, values, codec)), LogStatus::kOk);
      heads.push_back(log.head());
    }
    EXPECT_EQ(log.recent().size(), kRecentEntries) << "what entries are measured by stays";
    size_t given = 0;
    for (size_t back = 1; back < heads.size(); ++back) {
      const auto entries = log.after(heads[heads.size() - 1 - back]);
      if (!entries) continue;
      EXPECT_EQ(given + 1, back) << "a gap";
      given = entries->size();
      for (const LoggedEntry& entry : *entries) EXPECT_FALSE(entry.payload.empty());
    }
    return given;
  };
  constexpr size_t kCount = 1000, kState = 4 * kCount;
  EXPECT_EQ(held_by(*codecs.exact, kCount, kState), UpdateLog::kPayloadsMin) << "params alone";
  EXPECT_EQ(held_by(*codecs.exact, kCount, 3 * kState), 3u);
  EXPECT_EQ(held_by(*codecs.topk, kCount, 100 * kState), kRecentEntries) << "all of them are smaller than a state";
}

TEST(UpdateLog, TheHeavierHeadIsGreaterThenTheHash) {
  const LogHead light{9, 10, {9}}, heavy{5, 11, {1}}, heavy_too{5, 11, {2}};
  EXPECT_TRUE(greater(heavy, light));
  EXPECT_TRUE(greater(heavy_too, heavy));
  EXPECT_FALSE(greater(heavy, heavy));
}

// A lying owner has four rounds in a row; the median of the entries before stays honest. An honest jump is at its full
// size once half of the last entries have it.
TEST(UpdateLog, AnEntryCountsAtMostThreeTimesTheMedianOfThoseBefore) {
  const Codecs codecs;
  UpdateLog log(8, kAllPayloads);
  uint64_t seq = 0;
  const auto next = [&](float value) {
    const Made made = make_entry(log.head(), {{peer(1), 1, ++seq, 1, 1}}, std::vector<float>{value}, *codecs.exact);
    EXPECT_EQ(append(log, made), LogStatus::kOk);
    return log.newest().factor;
  };
  EXPECT_EQ(next(16), 0.5f) << "the bound of the settings, for the first ones";
  for (int i = 0; i < 8; ++i) EXPECT_EQ(next(2), 1);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(next(2048), 6 / 2048.0f);
  EXPECT_EQ(next(6), 1);
  EXPECT_EQ(next(2048), 18 / 2048.0f) << "half of the last eight are large now, and the median is the lower one: 6";
  int limited = 0;
  while (next(2048) < 1) ASSERT_LT(++limited, 8);
}

// The owner limits payloads first, so its entries grow late: both medians must follow.
TEST(UpdateLog, AnHonestJumpByAThousandCountsInFullAfterTenRounds) {
  const Codecs codecs;
  UpdateLog log(1e9f, kAllPayloads);
  uint64_t seq = 0;
  const auto next = [&](float norm) {
    const float scale = log.payload_norm_max() ? std::min(1.0f, *log.payload_norm_max() / norm) : 1;
    const std::vector<float> merged = {scale * norm};
    EXPECT_EQ(append(log, make_entry(log.head(), {{peer(1), 1, ++seq, scale, norm}}, merged, *codecs.exact)),
              LogStatus::kOk);
    return scale * log.newest().factor;
  };
  for (int i = 0; i < 8; ++i) EXPECT_EQ(next(1), 1);
  for (int i = 0; i < 10; ++i) EXPECT_LT(next(1000), 1);
  EXPECT_EQ(next(1000), 1);
}

// One of eight owners, for four rounds in each 32: its entries fill half of what the next are measured by.
TEST(UpdateLog, ALyingOwnersEntriesCountAtThreeTimesTheUsualAndHonestOnesInFull) {
  const Codecs codecs;
  for (const float lie : {1e6f, 1e3f, 10.0f}) {
    UpdateLog log(1e9f, kAllPayloads);
    uint64_t seq = 0;
    for (int round = 0; round < 320; ++round) {
      const bool lies = round / 4 % 8 == 7;
      const Made made =
          make_entry(log.head(), {{peer(1), 1, ++seq, 1, 1}}, std::vector<float>{lies ? lie : 1.0f}, *codecs.exact);
      ASSERT_EQ(append(log, made), LogStatus::kOk);
      ASSERT_NEAR(log.newest().factor, lies ? 3 / lie : 1, 1e-6) << round;
    }
  }
}

// Who has nothing to hand in any more would else make what comes late count at a fraction of itself.
TEST(UpdateLog, ZerosSayNothingAboutWhatIsUsual) {
  const Codecs codecs;
  UpdateLog log(1e9f, kAllPayloads);
  uint64_t seq = 0;
  const auto next = [&](std::vector<float> norms, float value) {
    std::vector<CountedPayload> counted;
    for (const float norm : norms) {
      counted.push_back({peer(static_cast<uint8_t>(counted.size() + 1)), 1, ++seq, 1, norm});
    }
    EXPECT_EQ(append(log, make_entry(log.head(), counted, std::vector<float>{value}, *codecs.exact)), LogStatus::kOk);
  };
  for (int i = 0; i < 8; ++i) next({2, 2, 2}, 2);
  for (int i = 0; i < 8; ++i) next({0, 0, 0}, 0);
  EXPECT_EQ(log.payload_norm_max(), 6);
  EXPECT_TRUE(log.counts_nothing_of({peer(1), peer(2), peer(3)}));
  EXPECT_FALSE(log.counts_nothing_of({peer(1), peer(4)}));
  next({0, 5, 0}, 5);
  EXPECT_EQ(log.newest().factor, 1);
  EXPECT_FALSE(log.counts_nothing_of({peer(1)}));
  next({0, 0, 0}, 0);
  EXPECT_FALSE(log.counts_nothing_of({peer(1)})) << "counted once since";
  next({0, 0, 0}, 0);
  EXPECT_TRUE(log.counts_nothing_of({peer(1), peer(2), peer(3)}));
}

// ---- the replica ----

constexpr size_t kElements = 8;

struct Member {
  Member(uint8_t tag, const UpdateCodecs& codecs, const OuterRule& rule = {})
      : id(peer(tag)),
        momentum(rule.has_momentum() ? kElements : 0),
        velocity(codecs.running->velocity().used ? kElements : 0),
        replica(id, 1, {params, momentum, accumulator, velocity}, rule, codecs) {}

  void train(Rng& rng) {
    std::vector<float> x = params;
    for (size_t i = 0; i < x.size(); ++i) {
      const float step = static_cast<float>(rng.below(9)) - 4;
      x[i] += step;
      drifts[i] += step;
    }
    ASSERT_TRUE(replica.add_drift(x));
  }
  const SentPayload submit(const UpdateCodec& codec) {
    const SentPayload sent = replica.submit(codec).value();
    handed_in[sent.seq].resize(kElements);
    codec.decode(sent.bytes.span(), handed_in[sent.seq]);
    return sent;
  }
  SliceState state() const { return {0, replica.head(), replica.table().rows(), {{replica.head().hash, 1, 1}}, {}, 0}; }

  PeerId id;
  std::vector<float> params = std::vector<float>(kElements, 0), momentum, velocity;
  std::vector<float> accumulator = std::vector<float>(kElements, 0), drifts = std::vector<float>(kElements, 0);
  std::map<uint64_t, std::vector<float>> handed_in;
  SliceReplica replica;
};

// accumulator = own drifts - own payloads that the held log counts, on the entries' supports.
void expect_conserved(const Member& member, const std::map<uint64_t, std::vector<float>>& counted) {
  std::vector<float> expected = member.drifts;
  for (const auto& [seq, values] : counted) {
    for (size_t i = 0; i < kElements; ++i) expected[i] -= values[i];
  }
  EXPECT_EQ(member.accumulator, expected);
}

TEST(SliceReplica, ATopKEntrySettlesOnItsSupportOnly) {
  const Codecs codecs;
  Member member(1, {codecs.topk.get(), codecs.exact.get()});
  UpdateLog log(1e9f, kAllPayloads);
  ASSERT_TRUE(member.replica.add_drift(std::vector<float>{9, 0, 0, 5, 0, 1, 0, 0}));
  const SentPayload sent = member.submit(*codecs.topk);  // 9 and 5, of 8 elements at density 1/4
  // The owner's entry keeps elements 0 and 6.
  const Made made = make_entry(log.head(), {{member.id, 1, sent.seq, 1, 1}},
                               std::vector<float>{4.5f, 0, 0, 0, 0, 0, 7, 0}, *codecs.topk);
  ASSERT_EQ(append(log, made), LogStatus::kOk);
  member.replica.apply(log.newest());
  EXPECT_EQ(member.accumulator, (std::vector<float>{0, 0, 0, 5, 0, 1, 0, 0}));
  EXPECT_EQ(member.params, (std::vector<float>{4.5f, 0, 0, 0, 0, 0, 7, 0}));

  // A log that lacks the entry takes over: 9 comes back, and nothing else does.
  Member other(2, {codecs.topk.get(), codecs.exact.get()});
  UpdateLog rival(1e9f, kAllPayloads);
  ASSERT_EQ(append(rival, make_entry(rival.head(), {{peer(2), 1, 1, 1, 1}, {peer(3), 1, 1, 1, 1}},
                                     std::vector<float>(kElements, 0), *codecs.topk)),
            LogStatus::kOk);
  other.replica.apply(rival.newest());
  member.replica.adopt(other.state(), other.params, {});
  EXPECT_EQ(member.accumulator, (std::vector<float>{9, 0, 0, 5, 0, 1, 0, 0}));
  EXPECT_EQ(member.params, other.params);
  EXPECT_EQ(member.replica.tally().short_splits, 1u);
  EXPECT_EQ(member.replica.tally().long_splits, 0u);
}

// A member whose contributions are lost, and whose steps end at `aim` wherever they begin.
TEST(SliceReplica, WhatWaitsIsNotLearnedTwice) {
  const Codecs codecs;
  Member member(1, {codecs.exact.get(), codecs.exact.get()});
  UpdateLog log(1e9f, kAllPayloads);
  const std::vector<float> aim = {8, 0, -3, 5, 0, 1, 2, 0};
  ASSERT_TRUE(member.replica.add_drift(aim));
  (void)member.submit(*codecs.exact);
  // Meanwhile an entry of the others alone moves R.
  ASSERT_EQ(
      append(log, make_entry(log.head(), {{peer(2), 1, 1, 1, 1}}, std::vector<float>(kElements, 1), *codecs.exact)),
      LogStatus::kOk);
  member.replica.apply(log.newest());
  std::vector<float> x = member.params;
  member.replica.resume_with_residual(x);
  EXPECT_EQ(x, (std::vector<float>{9, 1, -2, 6, 1, 2, 3, 1}));
  ASSERT_TRUE(member.replica.add_drift(aim));
  EXPECT_EQ(member.accumulator, (std::vector<float>{7, -1, -4, 4, -1, 0, 1, -1})) << "aim - R, and that once";
  // From R itself a drift joins what waits.
  ASSERT_TRUE(member.replica.add_drift(aim));
  EXPECT_EQ(member.accumulator, (std::vector<float>{14, -2, -8, 8, -2, 0, 2, -2}));
}

TEST(SliceReplica, AVelocityGoesOnUntilItsElementIsCounted) {
  const auto dgc = make_update_codec({.kind = UpdateKind::kDgc, .density = 0.25, .momentum = 0.5});
  const auto exact = make_update_codec({});
  Member member(1, {dgc.get(), exact.get()});
  UpdateLog log(1e9f, kAllPayloads);
  const std::vector<float> x = {8, 0, 0, 4, 0, 2, 0, 0};
  ASSERT_TRUE(member.replica.add_drift(x));
  EXPECT_EQ(member.accumulator, x);
  ASSERT_TRUE(member.replica.add_drift(member.params));  // no drift: the velocity alone
  EXPECT_EQ(member.velocity, (std::vector<float>{4, 0, 0, 2, 0, 1, 0, 0}));
  EXPECT_EQ(member.accumulator, (std::vector<float>{12, 0, 0, 6, 0, 3, 0, 0}));
  const SentPayload sent = member.submit(*dgc);  // 12 and 6
  ASSERT_EQ(append(log, make_entry(log.head(), {{member.id, 1, sent.seq, 1, 1}},
                                   std::vector<float>{12, 0, 0, 0, 0, 0, 7, 0}, *dgc)),
            LogStatus::kOk);
  member.replica.apply(log.newest());
  EXPECT_EQ(member.velocity, (std::vector<float>{0, 0, 0, 2, 0, 1, 0, 0})) << "the entry holds element 0 alone of both";
  EXPECT_EQ(member.accumulator, (std::vector<float>{0, 0, 0, 6, 0, 3, 0, 0}));
  // A boundary in the middle of a round takes the drift, and moves no velocity.
  std::vector<float> between = member.params;
  between[3] += 1;
  ASSERT_TRUE(member.replica.add_drift(between, false));
  EXPECT_EQ(member.velocity, (std::vector<float>{0, 0, 0, 3, 0, 1, 0, 0}));
  EXPECT_EQ(member.accumulator, (std::vector<float>{0, 0, 0, 7, 0, 3, 0, 0}));
  member.replica.keep_only_sent();
  EXPECT_EQ(member.velocity, std::vector<float>(kElements)) << "no steps follow";
}

// SKETCHED-SGD's momentum factor masking. A velocity goes on where no entry holds what was sent, and where an entry
// holds what this member did not send.
TEST(SliceReplica, ASketchsVelocityEndsWhereAnEntryHoldsWhatWasAskedFor) {
  const auto sketch = make_update_codec({.kind = UpdateKind::kSketch, .density = 0.25, .momentum = 0.5});
  const auto exact = make_update_codec({});
  Member member(1, {sketch.get(), exact.get()});
  UpdateLog log(1e9f, kAllPayloads);
  ASSERT_TRUE(member.replica.add_drift(std::vector<float>{8, 0, 6, 4, 0, 2, 0, 0}));
  ASSERT_TRUE(member.replica.add_drift(member.params));  // no drift: the velocity alone
  EXPECT_EQ(member.accumulator, (std::vector<float>{12, 0, 9, 6, 0, 3, 0, 0}));
  const std::vector<uint32_t> asked = {0, 3, 4};
  const SentPayload sent = member.replica.submit(*sketch, asked).value();  // 12 and 6
  ASSERT_EQ(append(log, make_entry(log.head(), {{member.id, 1, sent.seq, 1, 1}},
                                   std::vector<float>{12, 0, 11, 0, 0, 0, 0, 0}, *sketch)),
            LogStatus::kOk);
  member.replica.apply(log.newest());
  EXPECT_EQ(member.accumulator, (std::vector<float>{0, 0, 9, 6, 0, 3, 0, 0}));
  EXPECT_EQ(member.velocity, (std::vector<float>{0, 0, 3, 2, 0, 1, 0, 0})) << "element 0 alone is in both";
}

TEST(UpdateReplicas, ADriftLongerThanItsMembersShareOfTheClipIsShortened) {
  const auto dgc = make_update_codec({.kind = UpdateKind::kDgc, .density = 1, .momentum = 0, .clip = 10});
  const auto exact = make_update_codec({});
  std::vector<float> params(4), accumulator(4), velocity(4);
  const std::vector<SliceRange> slices = {{0, 2}, {2, 2}};
  UpdateReplicas replicas(peer(1), 1, slices, {params, {}, accumulator, velocity}, {}, {dgc.get(), exact.get()});
  for (const auto& [members, scale] : {std::pair(1, 1.0f), std::pair(4, 0.5f)}) {  // 10, and 10 / sqrt(4)
    std::vector<float> x = {6, 0, 0, 8};
    std::fill(accumulator.begin(), accumulator.end(), 0.0f);
    BoundaryJob job;
    job.x = x;
    job.backlogs.resize(2);
    job.hands_in = false;
    job.members = static_cast<size_t>(members);
    replicas.run(job);
    EXPECT_EQ(accumulator, (std::vector<float>{6 * scale, 0, 0, 8 * scale})) << members;
    EXPECT_EQ(x, params);
  }
}

// Its drift is taken once; the next boundary, without steps between the two, makes x the replica.
TEST(UpdateReplicas, ABoundaryThatLeavesXTakesItsDriftOnce) {
  const auto exact = make_update_codec({});
  std::vector<float> params(4, 1.0f), accumulator(4), x = {3, 1, 1, -1};
  UpdateReplicas replicas(peer(1), 1, std::vector<SliceRange>{{0, 2}, {2, 2}}, {params, {}, accumulator}, {},
                          {exact.get(), exact.get()});
  const std::vector<float> before = x;
  for (const bool makes_x : {false, true}) {
    BoundaryJob job;
    job.x = x;
    job.backlogs.resize(2);
    job.hands_in = false;
    job.makes_x = makes_x;
    replicas.run(job);
    EXPECT_EQ(accumulator, (std::vector<float>{2, 0, 0, -2}));
    EXPECT_EQ(x, makes_x ? params : before);
    EXPECT_EQ(job.rest, makes_x ? 8 : 0);
  }
}

TEST(SliceReplica, WhereNothingIsKeptThePayloadTakesThePlaceOfTheDrift) {
  const auto ternary = make_update_codec({.kind = UpdateKind::kTernary}), exact = make_update_codec({});
  Member member(1, {ternary.get(), exact.get()});
  UpdateLog log(1e9f, kAllPayloads);
  ASSERT_TRUE(member.replica.add_drift(std::vector<float>{3, 0, 0, 4, 0, 0, 0, 0}));  // each is sent as 0 or 4
  const SentPayload first = member.submit(*ternary);
  EXPECT_EQ(member.accumulator, member.handed_in[first.seq]);
  // A second one waits beside it, of all that is there now.
  ASSERT_TRUE(member.replica.add_drift(std::vector<float>{0, 0, 2, 0, 0, 0, 0, 0}));
  const SentPayload second = member.submit(*ternary);
  EXPECT_EQ(member.accumulator, member.handed_in[second.seq]);
  ASSERT_EQ(append(log, make_entry(log.head(), {{member.id, 1, second.seq, 1, 1}}, std::vector<float>(kElements, 0),
                                   *ternary)),
            LogStatus::kOk);
  member.replica.apply(log.newest());
  EXPECT_EQ(member.accumulator, std::vector<float>(kElements));
}

TEST(SliceReplica, AQuietEntryIsNoStepOfMomentum) {
  const Codecs codecs;
  Member member(1, {codecs.exact.get(), codecs.exact.get()}, {.momentum = 0.5f, .rate = 0.5f});
  UpdateLog log(1e9f, kAllPayloads);
  uint64_t seq = 0;
  const auto apply = [&](std::vector<float> norms, float value) {
    std::vector<CountedPayload> counted;
    for (const float norm : norms) {
      counted.push_back({peer(static_cast<uint8_t>(counted.size() + 2)), 1, ++seq, 1, norm});
    }
    const std::vector<float> values(kElements, value);
    ASSERT_EQ(append(log, make_entry(log.head(), counted, values, *codecs.exact)), LogStatus::kOk);
    member.replica.apply(log.newest());
  };
  apply({1, 1, 0}, 8);  // m = 8, R = (8 + 4) / 2
  EXPECT_EQ(member.params[0], 6);
  EXPECT_EQ(member.momentum[0], 8);
  apply({0, 0, 0}, 0);
  EXPECT_EQ(member.params[0], 6);
  apply({0, 1, 0}, 2);
  EXPECT_EQ(member.params[0], 7);
  EXPECT_EQ(member.momentum[0], 8);
}

TEST(SliceReplica, KeepsOfItsWorkOnlyWhatItHandedIn) {
  const Codecs codecs;
  Member member(1, {codecs.topk.get(), codecs.exact.get()});
  ASSERT_TRUE(member.replica.add_drift(std::vector<float>{9, 0, 0, 5, 0, 1, 0, 0}));
  const SentPayload sent = member.submit(*codecs.topk);
  member.replica.keep_only_sent();
  EXPECT_EQ(member.accumulator, (std::vector<float>{9, 0, 0, 5, 0, 0, 0, 0}));
  UpdateLog log(1e9f, kAllPayloads);
  ASSERT_EQ(append(log, make_entry(log.head(), {{member.id, 1, sent.seq, 1, 1}},
                                   std::vector<float>{4, 0, 0, 2, 0, 0, 0, 0}, *codecs.topk)),
            LogStatus::kOk);
  member.replica.apply(log.newest());
  member.replica.keep_only_sent();
  EXPECT_EQ(member.accumulator, std::vector<float>(kElements));
}

// Who loses several in a row hands in its newest drift all the same, as long as what waits is small.
TEST(SliceReplica, OfLargePayloadsTwoWaitOfSmallOnesMore) {
  const std::unique_ptr<UpdateCodec> exact = make_update_codec({});
  const UpdateCodecs codecs{exact.get(), exact.get()};
  struct Case { size_t elements, wait; };
  for (const auto& [elements, wait] : {Case{8, 8}, Case{60'000, 5}, Case{200'000, 2}, Case{1'000'000, 2}}) {
    std::vector<float> params(elements), accumulator(elements), x(elements, 1);
    SliceReplica replica(peer(1), 1, {params, {}, accumulator, {}}, {}, codecs);
    for (size_t i = 1; i <= wait + 2; ++i) {
      ASSERT_TRUE(replica.add_drift(x));
      const std::optional<SentPayload> sent = replica.submit(*exact);
      ASSERT_TRUE(sent);
      EXPECT_EQ(sent->seq, std::min(i, wait)) << elements << " elements: beyond that the newest goes again";
    }
    EXPECT_EQ(accumulator[0], static_cast<float>(wait + 2));
  }
}

// A payload is the whole accumulator, so what was lost comes with the next one.
TEST(SliceReplica, HandsInAllThatWaitsAndNothingTwice) {
  const Codecs codecs;
  Member member(1, {codecs.exact.get(), codecs.exact.get()});
  Rng rng(1);
  member.train(rng);
  EXPECT_EQ(member.submit(*codecs.exact).seq, 1u);
  member.train(rng);
  EXPECT_EQ(member.submit(*codecs.exact).seq, 2u);

  // The second counts, and holds what the first does, which is void now.
  UpdateLog log(1e9f, kAllPayloads);
  ASSERT_EQ(
      append(log, make_entry(log.head(), {{member.id, 1, 2, 1, 1}}, std::vector<float>(kElements, 1), *codecs.exact)),
      LogStatus::kOk);
  member.replica.apply(log.newest());
  expect_conserved(member, {{2, member.handed_in[2]}});
  EXPECT_EQ(member.submit(*codecs.exact).seq, 3u);
  std::vector<float> rest = member.drifts;
  for (size_t i = 0; i < kElements; ++i) rest[i] -= member.handed_in[2][i];
  EXPECT_EQ(member.handed_in[3], rest);
}

// The second payload holds the first, so where the late first one has counted, the second would count it again.
TEST(SliceReplica, APayloadIsVoidOnceAnotherCountedAfterItWasEncoded) {
  const Codecs codecs;
  Member member(1, {codecs.exact.get(), codecs.exact.get()});
  Rng rng(5);
  member.train(rng);
  const SentPayload first = member.submit(*codecs.exact);
  member.train(rng);
  const SentPayload second = member.submit(*codecs.exact);
  UpdateLog log(1e9f, kAllPayloads);
  ASSERT_EQ(append(log, make_entry(log.head(), {{member.id, 1, first.seq, 1, 1}}, member.handed_in[1], *codecs.exact)),
            LogStatus::kOk);
  UpdateInbox inbox;
  Contribution message;
  message.seq = second.seq;
  message.length = second.length;
  message.parts = 1;
  ASSERT_TRUE(inbox.add(member.id, 1, message, second.bytes));
  EXPECT_FALSE(inbox.can_count(member.id, log));
  message.seq = 3;
  message.length = log.head().length;
  ASSERT_TRUE(inbox.add(member.id, 1, message, second.bytes));
  EXPECT_TRUE(inbox.can_count(member.id, log)) << "made with the entry known";

  member.replica.apply(log.newest());
  expect_conserved(member, {{1, member.handed_in[1]}});
  EXPECT_EQ(member.submit(*codecs.exact).seq, 3u);
  EXPECT_EQ(member.handed_in[3], member.accumulator);
  member.train(rng);
  EXPECT_EQ(member.submit(*codecs.exact).seq, 4u) << "one waits, for the second does no longer";
  expect_conserved(member, {{1, member.handed_in[1]}});
}

// Two logs go on apart, for one entry (short) or for many (long); then the lighter side takes over the other's state.
TEST(SliceReplica, TheLighterSideOfASplitKeepsItsWork) {
  for (const uint64_t apart : {1, 5, 100}) {
    const Codecs codecs;
    const UpdateCodecs both{codecs.exact.get(), codecs.exact.get()};
    Member heavy(1, both), light(2, both);
    UpdateLog common(1e9f, kAllPayloads);
    Rng rng(apart);
    const auto step = [&](Member& member, UpdateLog& log, uint64_t round) {
      member.train(rng);
      const SentPayload sent = member.submit(*codecs.exact);
      ASSERT_EQ(append(log, make_entry(log.head(), {{member.id, 1, sent.seq, 1, 1}}, member.handed_in[sent.seq],
                                       *codecs.exact, round)),
                LogStatus::kOk);
    };
    step(heavy, common, 1);
    heavy.replica.apply(common.newest());
    light.replica.apply(common.newest());
    UpdateLog left = common, right = common;
    for (uint64_t i = 0; i < apart; ++i) {
      step(heavy, left, i + 2);
      heavy.replica.apply(left.newest());
      step(light, right, i + 2);
      light.replica.apply(right.newest());
    }
    const std::vector<float> before = light.params;
    light.train(rng);
    light.replica.adopt(heavy.state(), heavy.params, {});
    EXPECT_EQ(light.params, heavy.params);
    EXPECT_EQ(light.replica.tally().short_splits, apart == 1 ? 1u : 0u);
    EXPECT_EQ(light.replica.tally().long_splits, apart == 1 ? 0u : 1u);
    // Short: the payload is back. Long: what its own log had made of all drifts but the last step is drift again.
    std::vector<float> expected = light.drifts;
    if (apart > 1) {
      for (size_t i = 0; i < kElements; ++i) {
        for (const auto& [seq, values] : light.handed_in) expected[i] -= values[i];
        expected[i] += before[i] - heavy.params[i];
      }
    }
    EXPECT_EQ(light.accumulator, expected) << apart;
  }
}

// Both logs may count what was under way when they parted. What only the own one counted became drift, so that what the
// other one counts later must leave it, though it was settled long ago.
TEST(SliceReplica, WhatAnotherLogCountsAfterALongSplitLeavesTheDrift) {
  const Codecs codecs;
  const UpdateCodecs both{codecs.exact.get(), codecs.exact.get()};
  for (const bool counted_here : {true, false}) {
    Member heavy(1, both), light(2, both);
    UpdateLog left(1e9f, kAllPayloads), right(1e9f, kAllPayloads);
    Rng rng(3);
    const auto step = [&](Member& member, UpdateLog& log, std::vector<CountedPayload> more = {}) {
      member.train(rng);
      const SentPayload sent = member.submit(*codecs.exact);
      more.push_back({member.id, 1, sent.seq, 1, 1});
      ASSERT_EQ(append(log, make_entry(log.head(), more, std::vector<float>(kElements, 2), *codecs.exact)),
                LogStatus::kOk);
      member.replica.apply(log.newest());
    };
    if (!counted_here) {
      light.train(rng);
      (void)light.submit(*codecs.exact);  // lost on its way to the own log's owner
    }
    for (int i = 0; i < 40; ++i) step(light, right);
    for (int i = 0; i < 3; ++i) step(heavy, left);
    light.replica.adopt(heavy.state(), heavy.params, {});
    EXPECT_EQ(light.replica.tally().long_splits, 1u);
    const std::vector<float> before = light.accumulator;
    step(heavy, left, {{light.id, 1, 1, 1, 1}});
    light.replica.apply(left.newest());
    for (size_t i = 0; i < kElements; ++i) EXPECT_EQ(light.accumulator[i], before[i] - light.handed_in[1][i]);
    EXPECT_EQ(light.replica.tally().lost_payloads, 0u);
  }
}

TEST(SentPayloads, HoldsOfPastPayloadsNoMoreThanAQuarterOfTheSliceOr32KiB) {
  for (const size_t elements : {1000, 1000 * 1000}) {
    for (const size_t bytes : {100, 30 * 1000, 900 * 1000}) {
      SentPayloads sent(elements);
      CountedTable table;
      for (uint64_t i = 0; i < 300; ++i) {
        const uint64_t seq = sent.add(i, 1, SharedBytes::take(std::vector<std::byte>(bytes))).seq;
        table.count({peer(1), 1, seq, 1, 1}, i + 1);
        sent.find(seq)->settled = SentPayload::Settled{};
        sent.prune(table, peer(1), 1, i + 1);
      }
      const size_t past = sent.all().size() - 1;
      EXPECT_FALSE(sent.all().back().past);
      EXPECT_LE(past * bytes, std::max<size_t>(32 * 1024, elements));
      EXPECT_EQ(past, std::min<size_t>(128, std::max<size_t>(32 * 1024, elements) / bytes));
    }
  }
}

// Each is made from the whole accumulator, so what was encoded before another one counted holds that one's part too.
TEST(SentPayloads, WaitOnlyAsLongAsTheLogMayYetCountThem) {
  SentPayloads sent(1000);
  CountedTable table;
  const auto add = [&](uint64_t length) {
    return sent.add(length, 1, SharedBytes::take(std::vector<std::byte>(100))).seq;
  };
  const auto live = [&](uint64_t length) {
    std::vector<uint64_t> seqs;
    for (const SentPayload* one : sent.live(table, peer(1), 1, length)) seqs.push_back(one->seq);
    return seqs;
  };
  const uint64_t first = add(5), second = add(5);
  EXPECT_EQ(live(5), (std::vector{first, second}));
  table.count({peer(1), 1, first, 1, 1}, 6);
  sent.find(first)->settled = SentPayload::Settled{};
  EXPECT_EQ(live(6), std::vector<uint64_t>{}) << "counted too, the second would count the first again";
  const uint64_t third = add(6);
  EXPECT_EQ(live(6 + CountedTable::kEntriesToCount), std::vector{third});
  EXPECT_EQ(live(7 + CountedTable::kEntriesToCount), std::vector<uint64_t>{}) << "too old";
}

// An owner that lies may count what this member has yet to hand in. All up to there is void, so the next one is beyond
// it; and that this log counts it, and another does not, makes no long split.
TEST(SliceReplica, WhatALiarCountsAheadStopsNobody) {
  const Codecs codecs;
  const UpdateCodecs both{codecs.exact.get(), codecs.exact.get()};
  Member liar(1, both), member(2, both);
  UpdateLog log(1e9f, kAllPayloads);
  Rng rng(5);
  liar.train(rng);
  const CountedPayload own{liar.id, 1, liar.submit(*codecs.exact).seq, 1, 1};
  const std::vector<float> zeros(kElements, 0);
  ASSERT_EQ(append(log, make_entry(log.head(), {own, {member.id, 1, 50, 1, 1}}, zeros, *codecs.exact)), LogStatus::kOk);
  member.train(rng);
  (void)member.submit(*codecs.exact);
  member.replica.apply(log.newest());
  EXPECT_EQ(member.replica.tally().forged, 1u);
  EXPECT_EQ(member.replica.tally().lost_payloads, 0u);
  EXPECT_EQ(member.accumulator, member.drifts);
  const SentPayload next = member.submit(*codecs.exact);
  EXPECT_EQ(next.seq, 51u);
  UpdateLog rival(1e9f, kAllPayloads);
  ASSERT_EQ(append(rival, make_entry(rival.head(), {own, {member.id, 1, next.seq, 1, 1}, {peer(3), 1, 1, 1, 1}}, zeros,
                                     *codecs.exact)),
            LogStatus::kOk);
  liar.replica.apply(rival.newest());
  member.replica.adopt(liar.state(), liar.params, {});
  EXPECT_EQ(member.replica.tally().long_splits, 0u);
  expect_conserved(member, {{next.seq, member.handed_in[next.seq]}});
}

// A member that was behind takes over a log in whose table a liar's jump moved out of the window all that it counts of
// this member: some of what waits is counted there, or none.
TEST(SliceReplica, WhatIsCountedBeforeALiarsJumpIsSettledByWhoWasBehind) {
  const Codecs codecs;
  const UpdateCodecs both{codecs.exact.get(), codecs.exact.get()};
  for (const uint64_t counted : {0, 3, 4}) {
    Member liar(1, both), slow(2, both);
    UpdateLog log(1e9f, kAllPayloads);
    Rng rng(counted);
    const auto count = [&](uint64_t seq) {
      liar.train(rng);
      const CountedPayload own{liar.id, 1, liar.submit(*codecs.exact).seq, 1, 1};
      const std::vector<float> ones(kElements, 1);
      ASSERT_EQ(append(log, make_entry(log.head(), {own, {slow.id, 1, seq, 1, 1}}, ones, *codecs.exact)),
                LogStatus::kOk);
      liar.replica.apply(log.newest());
    };
    std::map<uint64_t, std::vector<float>> settled;
    for (uint64_t seq = 1; seq <= 4; ++seq) {
      slow.train(rng);
      ASSERT_EQ(slow.submit(*codecs.exact).seq, seq);
      if (seq > 2 && seq != counted) continue;
      ASSERT_NO_FATAL_FAILURE(count(seq));
      if (seq <= 2) slow.replica.apply(log.newest());
      settled[seq] = slow.handed_in[seq];
    }
    ASSERT_NO_FATAL_FAILURE(count(100));
    slow.train(rng);
    slow.replica.adopt(liar.state(), liar.params, {});
    expect_conserved(slow, settled);
    EXPECT_EQ(slow.replica.tally().long_splits + slow.replica.tally().short_splits, 0u) << counted;
    EXPECT_EQ(slow.replica.tally().settled_blind, counted > 0 ? 1u : 0u) << counted;
    EXPECT_EQ(slow.submit(*codecs.exact).seq, 101u);
  }
}

// What another log counts of what this member let go long ago makes a long split, also before a liar's jump.
TEST(SliceReplica, WhatIsGoneAndCountedBeforeALiarsJumpMakesALongSplit) {
  const Codecs codecs;
  const UpdateCodecs both{codecs.exact.get(), codecs.exact.get()};
  Member other(1, both), member(2, both);
  UpdateLog log(1e9f, kAllPayloads), rival(1e9f, kAllPayloads);
  Rng rng(7);
  const std::vector<float> ones(kElements, 1);
  for (uint64_t i = 1; i <= 20 * SentPayloads::kPastMax; ++i) {
    member.train(rng);
    (void)member.submit(*codecs.exact);
    const CountedPayload counted{i <= 2 ? member.id : peer(3), 1, i, 1, 1};  // both logs begin with these two
    const Made made = make_entry(log.head(), {counted}, ones, *codecs.exact);
    ASSERT_EQ(append(log, made), LogStatus::kOk);
    member.replica.apply(log.newest());
    if (i > 2) continue;
    ASSERT_EQ(append(rival, made), LogStatus::kOk);
    other.replica.apply(rival.newest());
  }
  ASSERT_EQ(member.replica.sent().find(5), nullptr);
  ASSERT_GT(member.replica.sent().newest_seq(), SentPayloads::kPastMax);
  for (const uint64_t seq : {uint64_t{5}, member.replica.sent().newest_seq() + 100}) {
    ASSERT_EQ(append(rival, make_entry(rival.head(), {{member.id, 1, seq, 1, 1}}, ones, *codecs.exact)),
              LogStatus::kOk);
    other.replica.apply(rival.newest());
  }
  std::vector<float> expected = member.accumulator;
  for (size_t i = 0; i < kElements; ++i) expected[i] += member.params[i] - other.params[i];
  member.replica.adopt(other.state(), other.params, {});
  EXPECT_EQ(member.replica.tally().long_splits, 1u);
  EXPECT_EQ(member.accumulator, expected);
}

TEST(SliceReplica, WhoWasOnlyBehindSendsNobodysProgressBack) {
  const Codecs codecs;
  const UpdateCodecs both{codecs.exact.get(), codecs.exact.get()};
  for (const uint64_t behind : {9, 60, 200}) {
    Member ahead(1, both), slow(2, both);
    UpdateLog log(1e9f, kAllPayloads);
    Rng rng(behind);
    slow.train(rng);
    const SentPayload early = slow.submit(*codecs.exact);
    for (uint64_t i = 0; i < behind; ++i) {
      ahead.train(rng);
      const SentPayload sent = ahead.submit(*codecs.exact);
      std::vector<CountedPayload> counted = {{ahead.id, 1, sent.seq, 1, 1}};
      if (i == 1) counted.push_back({slow.id, 1, early.seq, 1, 1});
      ASSERT_EQ(append(log, make_entry(log.head(), counted, std::vector<float>(kElements, 1), *codecs.exact)),
                LogStatus::kOk);
      ahead.replica.apply(log.newest());
      if (i == 0) slow.replica.apply(log.newest());
    }
    slow.train(rng);
    slow.replica.adopt(ahead.state(), ahead.params, {});
    expect_conserved(slow, {{1, slow.handed_in[1]}});
    EXPECT_EQ(slow.replica.tally().long_splits + slow.replica.tally().short_splits, 0u);
    EXPECT_EQ(slow.replica.tally().settled_blind, 1u);
  }
}

TEST(SliceReplica, AnEntryBeyondAFloatsRangeCountsForNothingAtAnyMember) {
  const Codecs codecs;
  Member member(1, {codecs.exact.get(), codecs.exact.get()}, {.momentum = 0.9f, .rate = 0.7f});
  UpdateLog log(1e38f, kAllPayloads);
  Rng rng(3);
  member.train(rng);
  const SentPayload sent = member.submit(*codecs.exact);
  std::fill(member.params.begin(), member.params.end(), 3e38f);
  const Made made =
      make_entry(log.head(), {{member.id, 1, sent.seq, 1, 1}}, std::vector<float>(kElements, 3e38f), *codecs.exact);
  ASSERT_EQ(append(log, made), LogStatus::kOk);
  member.replica.apply({made.entry, made.payload, 1, log.recent().back()});
  EXPECT_EQ(member.params, std::vector<float>(kElements, 3e38f));
  EXPECT_EQ(member.accumulator, member.drifts);
  EXPECT_EQ(member.replica.head(), log.head());
}

// What earlier entries told of R's range says nothing of the R that takes its place.
TEST(SliceReplica, AnEntryBeyondAFloatsRangeCountsForNothingInALogThatTookOver) {
  const Codecs codecs;
  Member member(1, {codecs.exact.get(), codecs.exact.get()}), other(2, {codecs.exact.get(), codecs.exact.get()});
  UpdateLog log(1e38f, kAllPayloads), rival(1e38f, kAllPayloads);
  ASSERT_EQ(
      append(log, make_entry(log.head(), {{peer(3), 1, 1, 1, 1}}, std::vector<float>(kElements, 1), *codecs.exact)),
      LogStatus::kOk);
  member.replica.apply(log.newest());
  ASSERT_EQ(append(rival, make_entry(rival.head(), {{peer(2), 1, 1, 1, 1}, {peer(3), 1, 1, 1, 1}},
                                     std::vector<float>(kElements, 2), *codecs.exact)),
            LogStatus::kOk);
  other.replica.apply(rival.newest());
  std::fill(other.params.begin(), other.params.end(), 3.3e38f);
  member.replica.adopt(other.state(), other.params, {});
  const Made made =
      make_entry(rival.head(), {{peer(3), 1, 2, 1, 1}}, std::vector<float>(kElements, 3e37f), *codecs.exact);
  ASSERT_EQ(append(rival, made), LogStatus::kOk);
  member.replica.apply({made.entry, made.payload, 1, rival.recent().back()});
  EXPECT_EQ(member.params, std::vector<float>(kElements, 3.3e38f));
}

TEST(SliceReplica, ASickMemberDropsItsOwnWorkAndKeepsTheLog) {
  const Codecs codecs;
  Member member(1, {codecs.exact.get(), codecs.exact.get()});
  Rng rng(4);
  member.train(rng);
  const SentPayload sent = member.submit(*codecs.exact);
  EXPECT_FALSE(member.replica.add_drift(std::vector<float>(kElements, NAN)));
  EXPECT_EQ(member.accumulator, member.drifts);
  member.replica.drop_own_work();
  EXPECT_EQ(member.accumulator, std::vector<float>(kElements, 0));
  // An owner may still count what it had handed in: nothing of it is there to be settled.
  UpdateLog log(1e9f, kAllPayloads);
  ASSERT_EQ(append(log, make_entry(log.head(), {{member.id, 1, sent.seq, 1, 1}}, std::vector<float>(kElements, 1),
                                   *codecs.exact)),
            LogStatus::kOk);
  member.replica.apply(log.newest());
  EXPECT_EQ(member.accumulator, std::vector<float>(kElements, 0));
  EXPECT_EQ(member.replica.tally().lost_payloads, 1u);
  EXPECT_EQ(member.submit(*codecs.exact).seq, 2u);
}

}  // namespace
}  // namespace starling
