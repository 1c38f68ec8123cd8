// The rules of a swarm with tickets, event by event: what its owner signed is news, and nothing else.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "gossip/net/wire.h"
#include "tests/gossip/membership/membership_support.h"
#include "tests/gossip/net/numbered_identity.h"

namespace starling {
namespace {

class SignedRecords : public ::testing::Test {
 protected:
  SignedRecords() {
    members_ = std::make_unique<Membership>(MembershipOptions{}, unsigned_of(1), clock_, outbox_, 7, 1, &revocations_,
                                            &keys(1));
    for (const uint8_t number : {2, 3, 4}) members_->add(signed_of(number));
    members_->take_events();
    outbox_.take();
  }
  const MemberKeys& keys(uint8_t number) {
    std::unique_ptr<MemberKeys>& held = keys_[number];
    if (!held) held = std::make_unique<MemberKeys>(identity_of(number), swarm_);
    return *held;
  }
  static PeerId id_of(uint8_t number) { return identity_of(number).id(); }
  static PeerRecord unsigned_of(uint8_t number, Version version = {1, 0}) {
    PeerRecord record = record_of(number, version.generation, version.incarnation);
    record.id = id_of(number);
    return record;
  }
  PeerRecord signed_of(uint8_t number, Version version = {1, 0}, bool farewell = false) {
    PeerRecord record = unsigned_of(number, version);
    record.farewell = farewell;
    keys(number).seal(record);
    return record;
  }
  void gossip(uint8_t from, Updates updates) { members_->handle(id_of(from), Gossip{std::move(updates)}); }
  const Member& member(uint8_t number) const { return *members_->find(id_of(number)); }
  Version version(uint8_t number) const { return member(number).record.version; }
  uint64_t forged() const { return members_->counters().records_forged; }

  FakeClock clock_;
  RecordingOutbox outbox_;
  const Identity swarm_ = identity_of(100);
  Revocations revocations_{swarm_.id()};
  std::map<uint8_t, std::unique_ptr<MemberKeys>> keys_;
  std::unique_ptr<Membership> members_;
};

using V = Version;

TEST_F(SignedRecords, AnyMemberPassesOnWhatTheOwnerSigned) {
  gossip(3, {.alive = {signed_of(2, {1, 5}), signed_of(5)}});
  EXPECT_EQ(version(2), (V{1, 5}));
  EXPECT_EQ(member(5).state, MemberState::kAlive);
  gossip(3, {.left = {signed_of(2, {1, 7}, true)}});
  EXPECT_EQ(member(2).state, MemberState::kLeft) << "a farewell of a version that is not held here";
  EXPECT_EQ(forged(), 0u);
  EXPECT_FALSE(members_->take_forged());
}

TEST_F(SignedRecords, NothingElseIsTaken) {
  const PeerRecord newer = signed_of(2, {1, 5});
  PeerRecord flipped = newer, of_another = newer, of_another_swarm = newer;
  flipped.sealed.back() ^= 1;
  of_another.id = id_of(3);
  MemberKeys(identity_of(2), identity_of(9)).seal(of_another_swarm);
  uint64_t count = 0;
  for (const PeerRecord& record : {unsigned_of(2, {1, 5}), flipped, of_another, of_another_swarm, unsigned_of(7)}) {
    gossip(4, {.alive = {record}});
    EXPECT_EQ(forged(), ++count);
    EXPECT_EQ(version(2), (V{1, 0}));
    EXPECT_EQ(version(3), (V{1, 0}));
    const std::optional<ForgedRecord> told = members_->take_forged();
    ASSERT_TRUE(told);
    EXPECT_EQ(told->from, id_of(4));
    EXPECT_EQ(told->record.id, record.id);
  }
  EXPECT_EQ(members_->find(id_of(7)), nullptr);
}

TEST_F(SignedRecords, ARecordIsNoFarewellNorAFarewellARecord) {
  gossip(4, {.left = {signed_of(2)}});
  gossip(4, {.left = {signed_of(2, {1, 5})}});
  gossip(4, {.alive = {signed_of(2, {1, 5}, true)}});
  EXPECT_EQ(forged(), 3u);
  EXPECT_EQ(member(2).state, MemberState::kAlive);
  EXPECT_EQ(version(2), (V{1, 0}));
}

TEST_F(SignedRecords, AnOlderOneChangesNothing) {
  gossip(3, {.alive = {signed_of(2, {2, 5})}});
  outbox_.take();
  gossip(3, {.alive = {signed_of(2, {2, 3})}, .left = {signed_of(2, {1, 9}, true)}});
  EXPECT_EQ(version(2), (V{2, 5}));
  EXPECT_EQ(member(2).state, MemberState::kAlive) << "the farewell of an earlier process";
  const auto answers = outbox_.take_all<Gossip>();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].second.updates.alive.at(0).version, (V{2, 5}));
  EXPECT_TRUE(keys(3).is_genuine(answers[0].second.updates.alive[0])) << "as its owner signed it";
}

// A version that is held costs no second check.
TEST_F(SignedRecords, OnlyNewsIsChecked) {
  PeerRecord damaged = signed_of(2);
  damaged.sealed.back() ^= 1;
  gossip(3, {.alive = {damaged}});
  EXPECT_EQ(forged(), 0u);
  EXPECT_TRUE(keys(3).is_genuine(member(2).record));
}

// So a liar's message costs one check.
TEST_F(SignedRecords, WhatComesBehindAForgedOneIsRefusedUnseen) {
  gossip(4, {.alive = {unsigned_of(2, {1, 5}), signed_of(3, {1, 5})}});
  EXPECT_EQ(version(3), (V{1, 0}));
  EXPECT_EQ(forged(), 2u);
  gossip(4, {.alive = {signed_of(3, {1, 5})}});
  EXPECT_EQ(version(3), (V{1, 5})) << "the next message counts for itself";
}

TEST_F(SignedRecords, ADigestDoesNotEndAMember) {
  const DigestEntry left{id_of(2), {1, 0}, static_cast<uint8_t>(MemberState::kLeft)};
  members_->handle(id_of(3), Sync{.digest = {left}, .reply_wanted = false});
  EXPECT_EQ(member(2).state, MemberState::kAlive);
  const auto asked = outbox_.take_all<Sync>();
  ASSERT_EQ(asked.size(), 1u) << "for the farewell";
  ASSERT_EQ(asked[0].second.digest.size(), 1u);
  EXPECT_EQ(asked[0].second.digest[0].state, static_cast<uint8_t>(MemberState::kAlive));

  gossip(2, {.left = {signed_of(2, {1, 0}, true)}});
  ASSERT_EQ(member(2).state, MemberState::kLeft);
  outbox_.take();
  members_->handle(id_of(3), asked[0].second);
  const auto given = outbox_.take_all<Gossip>();
  ASSERT_EQ(given.size(), 1u);
  ASSERT_EQ(given[0].second.updates.left.size(), 1u);
  EXPECT_TRUE(given[0].second.updates.left[0].farewell);
  EXPECT_TRUE(keys(3).is_genuine(given[0].second.updates.left[0]));
}

TEST_F(SignedRecords, LiesAboutThisAgentAreNotAnswered) {
  gossip(4, {.alive = {unsigned_of(1, {1, 9})}});
  gossip(4, {.alive = {unsigned_of(1, {9, 0})}});
  gossip(4, {.left = {unsigned_of(1)}});
  EXPECT_EQ(members_->self().version, (V{1, 0})) << "nothing to refute";
  EXPECT_FALSE(members_->take_other_self());
  EXPECT_EQ(forged(), 3u);
  gossip(4, {.alive = {signed_of(1, {9, 0})}});
  EXPECT_TRUE(members_->take_other_self()) << "a process with this very key";
}

TEST_F(SignedRecords, EachVersionOfTheOwnRecordIsSigned) {
  const auto expect_genuine = [&](const PeerRecord& record) {
    EXPECT_TRUE(keys(2).is_genuine(record));
    EXPECT_EQ(record.sealed.substr(kProofBytes), pack_record(record)) << "as it is now";
  };
  expect_genuine(members_->self());
  MemberMeta meta = members_->self().meta;
  meta.phase = Phase::kSettling;
  members_->update_self(meta);
  EXPECT_EQ(members_->self().meta.phase, Phase::kSettling);
  expect_genuine(members_->self());
  members_->move_to({"10.0.0.77", 7400});
  expect_genuine(members_->self());
  gossip(2, {.suspect = {{id_of(1), members_->self().version, id_of(2)}}});
  EXPECT_EQ(members_->counters().refutations, 1u);
  expect_genuine(members_->self());
  outbox_.take();
  members_->announce_leave();
  for (const auto& [to, gossip] : outbox_.take_all<Gossip>()) {
    ASSERT_EQ(gossip.updates.left.size(), 1u);
    EXPECT_TRUE(gossip.updates.left[0].farewell);
    expect_genuine(gossip.updates.left[0]);
  }
  expect_genuine(members_->self());
  EXPECT_FALSE(members_->self().farewell) << "what it was before";
}

// It has signed no farewell, and its record would bring it back elsewhere.
TEST_F(SignedRecords, NothingOfARevokedMemberIsPassedOn) {
  members_->revoke(sign_revocation(swarm_, id_of(2), 1));
  EXPECT_EQ(member(2).state, MemberState::kLeft);
  outbox_.take();
  gossip(3, {.alive = {signed_of(2)}});
  gossip(3, {.alive = {signed_of(2, {2, 0})}});
  EXPECT_EQ(member(2).state, MemberState::kLeft);
  for (int i = 0; i < 500; ++i) {
    clock_.advance(std::chrono::milliseconds(10));
    members_->tick();
  }
  for (const Sent& sent : outbox_.take()) {
    const auto* gossip = message_as<Gossip>(sent.message);
    for (const auto* records : {gossip ? &gossip->updates.alive : nullptr, gossip ? &gossip->updates.left : nullptr}) {
      if (records == nullptr) continue;
      for (const PeerRecord& record : *records) EXPECT_NE(record.id, id_of(2));
    }
  }
}

}  // namespace
}  // namespace starling
