#include "gossip/net/member_keys.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "gossip/limits.h"
#include "gossip/rng.h"
#include "kernels/projection.h"
#include "tests/gossip/net/numbered_identity.h"

namespace starling {
namespace {

class MemberKeysTest : public testing::Test {
 protected:
  std::optional<PeerId> judge(const std::string& proof) const {
    const auto member = reader_.judge(proof, &why_);
    return member ? std::optional(member->id) : std::nullopt;
  }
  // Of a member that signs what it likes with its own key.
  std::string proof_of(const Identity& member, const std::string& membership) const {
    std::string proof = membership + std::string(16, 'n');
    std::string text = "starling link 1";
    text.append(reinterpret_cast<const char*>(reader_.self().bytes.data()), 32).append(proof);
    const Signature signature = member.sign(std::as_bytes(std::span(text)));
    return proof.append(reinterpret_cast<const char*>(signature.data()), signature.size());
  }
  const Identity swarm_ = identity_of(1), self_ = identity_of(2), other_ = identity_of(3);
  const MemberKeys reader_{self_, swarm_}, member_{other_, swarm_};
  mutable const char* why_ = "";
};

TEST_F(MemberKeysTest, AMemberProvesWhoItIs) {
  const std::string proof = member_.proof_for(reader_.self());
  EXPECT_EQ(proof.size(), kProofOfLinkBytes);
  EXPECT_LE(proof.size(), 255u) << "a routing id of ZeroMQ";
  EXPECT_NE(proof[0], 0) << "ZeroMQ keeps those for itself";
  EXPECT_EQ(judge(proof), other_.id());
  EXPECT_NE(member_.proof_for(reader_.self()), proof) << "each link has a name that nobody foresees";
}

TEST_F(MemberKeysTest, AllHoldersOfTheSwarmsKeyHaveOneDoor) {
  EXPECT_EQ(reader_.door().open, member_.door().open);
  EXPECT_NE(MemberKeys(self_, identity_of(9)).door().open, reader_.door().open);
}

TEST_F(MemberKeysTest, AProofIsForOneReader) {
  EXPECT_FALSE(judge(member_.proof_for(identity_of(4).id())));
  EXPECT_NE(std::string(why_).find("for this reader"), std::string::npos) << why_;
}

TEST_F(MemberKeysTest, AMembershipOfAnotherSwarmCountsForNothing) {
  EXPECT_FALSE(judge(MemberKeys(other_, identity_of(9)).proof_for(reader_.self())));
  EXPECT_NE(std::string(why_).find("not signed"), std::string::npos) << why_;
}

TEST_F(MemberKeysTest, AMembershipIsOfOneMember) {
  const std::string membership = sign_membership(swarm_, {.id = identity_of(5).id()});
  EXPECT_FALSE(judge(proof_of(other_, membership)));
  EXPECT_EQ(judge(proof_of(identity_of(5), membership)), identity_of(5).id());
}

TEST_F(MemberKeysTest, AMembershipEnds) {
  const std::string proof = proof_of(other_, sign_membership(swarm_, {other_.id(), 1000, 7}));
  const auto member = reader_.judge(proof, &why_);
  ASSERT_TRUE(member);
  EXPECT_EQ(member->serial, 7u);
  EXPECT_FALSE(has_expired(member->not_after, 1000));
  EXPECT_TRUE(has_expired(member->not_after, 1001));
  EXPECT_FALSE(has_expired(reader_.membership().not_after, ~uint64_t{0})) << "one that ends never";
}

TEST_F(MemberKeysTest, AnAdmittedMemberIsAMemberWithoutTheSwarmsKey) {
  const Admission admission = admit(swarm_, {other_.id(), 1000, 7});
  const MemberKeys admitted(other_, admission);
  EXPECT_EQ(judge(admitted.proof_for(reader_.self())), other_.id());
  EXPECT_EQ(admitted.door().open, reader_.door().open);
  EXPECT_EQ(admitted.swarm(), swarm_.id());
  EXPECT_EQ(admitted.membership().not_after, 1000u);
}

TEST_F(MemberKeysTest, AnAdmissionIsOfNoUseToAnother) {
  const Admission admission = admit(swarm_, {.id = other_.id()});
  EXPECT_THROW(MemberKeys(self_, admission), std::invalid_argument);
  EXPECT_FALSE(judge(proof_of(identity_of(5), admission.membership)));
  Admission forged = admit(identity_of(9), {.id = self_.id()});  // by a key of its own
  forged.swarm = swarm_.id();
  EXPECT_THROW(MemberKeys(self_, forged), std::invalid_argument);
}

// What it holds opens ports, and no bit of it is the seed.
TEST_F(MemberKeysTest, AnAdmissionHoldsNoKeyThatSigns) {
  const Admission admission = admit(swarm_, {.id = other_.id()});
  EXPECT_NE(admission.door, swarm_.seed());
  const std::string membership = sign_membership(Identity(admission.door), {.id = self_.id()});
  EXPECT_FALSE(read_membership(swarm_.id(), membership)) << "the door signs none";
  EXPECT_FALSE(judge(proof_of(self_, membership)));
}

PeerRecord record_of(const Identity& owner) { return {owner.id(), {5, 3}, {"10.0.0.5", 7400}, {.name = "b"}}; }

TEST_F(MemberKeysTest, ARecordIsItsOwnersAndOfOneSwarm) {
  PeerRecord record = record_of(other_), farewell = record;
  EXPECT_FALSE(reader_.is_genuine(record)) << "not signed";
  member_.seal(record);
  EXPECT_TRUE(reader_.is_genuine(record));
  EXPECT_LE(record.sealed.size(), kSealedBytesMax);
  farewell.farewell = true;
  member_.seal(farewell);
  EXPECT_TRUE(reader_.is_genuine(farewell));
  EXPECT_NE(farewell.sealed.substr(0, kProofBytes), record.sealed.substr(0, kProofBytes));
  PeerRecord of_another = record;
  of_another.id = identity_of(5).id();
  EXPECT_FALSE(reader_.is_genuine(of_another));
  EXPECT_FALSE(MemberKeys(self_, identity_of(9)).is_genuine(record)) << "of another swarm";
  const Admission admission = admit(swarm_, {other_.id(), 1000, 7});
  PeerRecord admitted = record_of(other_);
  MemberKeys(other_, admission).seal(admitted);
  EXPECT_EQ(admitted.sealed, record.sealed) << "whoever holds the swarm's key";
}

TEST_F(MemberKeysTest, NoBitOfARecordMayChange) {
  PeerRecord record = record_of(other_);
  member_.seal(record);
  for (size_t i = 0; i < record.sealed.size(); ++i) {
    PeerRecord flipped = record, cut = record;
    flipped.sealed[i] = static_cast<char>(flipped.sealed[i] ^ 1 << i % 8);
    cut.sealed.resize(i);
    EXPECT_FALSE(reader_.is_genuine(flipped)) << i;
    EXPECT_FALSE(reader_.is_genuine(cut)) << i;
  }
  record.sealed += '\0';
  EXPECT_FALSE(reader_.is_genuine(record));
}

// The longest texts and all figures.
TEST_F(MemberKeysTest, TheLargestRecordFits) {
  PeerRecord record = record_of(other_);
  record.endpoint.host = std::string(kHostBytesMax, 'h');
  record.meta.name = std::string(kNameBytesMax, 'n');
  record.meta.round = record.meta.steps = record.meta.samples = record.meta.labels_hash = ~uint64_t{0} / 3;
  record.meta.projection.assign(kProjectionBuckets, 1.2345678f);
  member_.seal(record);
  EXPECT_LE(2 * record.sealed.size(), kSealedBytesMax) << "no room for what later programs append";
}

TEST_F(MemberKeysTest, SettingsAreSignedByTheSwarmsKey) {
  const std::string signature = sign_settings(swarm_, "text");
  EXPECT_TRUE(is_signed_settings(swarm_.id(), "text", signature));
  EXPECT_FALSE(is_signed_settings(swarm_.id(), "text ", signature));
  EXPECT_FALSE(is_signed_settings(self_.id(), "text", signature));
  EXPECT_FALSE(is_signed_settings(swarm_.id(), "text", signature.substr(1)));
  EXPECT_FALSE(is_signed_settings(swarm_.id(), "text", ""));
}

TEST_F(MemberKeysTest, NoBitOfAProofMayChange) {
  const std::string proof = member_.proof_for(reader_.self());
  for (size_t bit = 0; bit < 8 * proof.size(); ++bit) {
    std::string wrong = proof;
    wrong[bit / 8] = static_cast<char>(wrong[bit / 8] ^ 1 << bit % 8);
    EXPECT_FALSE(judge(wrong)) << bit;
  }
  for (size_t size = 0; size < proof.size(); ++size) EXPECT_FALSE(judge(proof.substr(0, size))) << size;
  EXPECT_FALSE(judge(proof + "x"));
}

TEST_F(MemberKeysTest, RandomBytesProveNothing) {
  Rng rng(1);
  for (int i = 0; i < 500; ++i) {
    std::string bytes(rng.chance(0.5) ? kProofOfLinkBytes : rng.below(256), '\0');
    for (char& byte : bytes) byte = static_cast<char>(rng.next_u64());
    if (!bytes.empty() && rng.chance(0.5)) bytes[0] = 1;
    EXPECT_FALSE(judge(bytes));
  }
}

// Ed25519 and X25519 forms belong together.
TEST_F(MemberKeysTest, ThePortsKeyFollowsFromTheId) {
  const auto open = curve_public(reader_.self());
  ASSERT_TRUE(open);
  EXPECT_NE(*open, reader_.port_secret());
  PeerId no_point;
  no_point.bytes.fill(0xff);
  EXPECT_FALSE(curve_public(no_point));
  EXPECT_FALSE(curve_public(PeerId{})) << "of small order";
}

}  // namespace
}  // namespace starling
