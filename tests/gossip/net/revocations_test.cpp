#include "gossip/net/revocations.h"

#include <gtest/gtest.h>

#include "gossip/rng.h"
#include "tests/gossip/net/numbered_identity.h"

namespace starling {
namespace {

class RevocationsTest : public testing::Test {
 protected:
  static PeerId id(uint64_t number) {
    PeerId id;
    for (size_t i = 0; i < 8; ++i) id.bytes[i] = static_cast<uint8_t>(number >> 8 * i);
    id.bytes[31] = 1;
    return id;
  }
  std::string signed_by(uint8_t key, uint64_t number, uint64_t serial = 1) const {
    return sign_revocation(identity_of(key), id(number), serial);
  }
  Revocations revoked_{identity_of(1).id()};
};

TEST_F(RevocationsTest, TheHolderOfTheKeyRemovesAnId) {
  EXPECT_EQ(revoked_.sum(), 0u);
  EXPECT_EQ(revoked_.take(signed_by(1, 5)), std::vector<PeerId>{id(5)});
  EXPECT_TRUE(revoked_.contains(id(5)));
  EXPECT_FALSE(revoked_.contains(id(6)));
  EXPECT_TRUE(revoked_.take(signed_by(1, 5)).empty()) << "known already";
}

TEST_F(RevocationsTest, NobodyElseRemovesOne) {
  EXPECT_TRUE(revoked_.take(signed_by(2, 5)).empty());
  EXPECT_TRUE(revoked_.take(sign_membership(identity_of(1), {.id = id(5)})).empty()) << "a membership is none";
  const std::string good = signed_by(1, 5);
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string wrong = good;
    wrong[bit / 8] = static_cast<char>(wrong[bit / 8] ^ 1 << bit % 8);
    EXPECT_TRUE(revoked_.take(wrong).empty()) << bit;
  }
  for (size_t size = 0; size < good.size(); ++size) EXPECT_TRUE(revoked_.take(good.substr(0, size)).empty());
  EXPECT_EQ(revoked_.count(), 0u);
}

TEST_F(RevocationsTest, TwoMembersAgreeInWhateverOrderTheyHear) {
  Revocations other(identity_of(1).id());
  (void)revoked_.take(signed_by(1, 5, 1) + signed_by(1, 6, 2));
  (void)other.take(signed_by(1, 6, 3));  // of a second holder of the key
  EXPECT_NE(other.sum(), revoked_.sum());
  EXPECT_EQ(other.take(revoked_.bytes()), std::vector<PeerId>{id(5)});
  EXPECT_EQ(other.sum(), revoked_.sum());
  EXPECT_EQ(revoked_.bytes_of({id(6), id(7)}), signed_by(1, 6, 2));
}

TEST_F(RevocationsTest, AForgedOneEndsTheReading) {
  EXPECT_EQ(revoked_.take(signed_by(1, 5) + signed_by(2, 6) + signed_by(1, 7)).size(), 1u);
  EXPECT_FALSE(revoked_.contains(id(7)));
}

TEST_F(RevocationsTest, TheyAreBounded) {
  std::string many;
  for (uint64_t i = 0; i <= kRevocationsMax; ++i) many += signed_by(1, i);
  EXPECT_EQ(revoked_.take(many).size(), kRevocationsMax);
  EXPECT_TRUE(revoked_.full());
  EXPECT_FALSE(revoked_.contains(id(kRevocationsMax)));
  EXPECT_EQ(revoked_.bytes().size(), kRevocationsMax * kRevocationBytes);
}

TEST_F(RevocationsTest, RandomBytesRemoveNobody) {
  Rng rng(1);
  for (int i = 0; i < 500; ++i) {
    std::string bytes(rng.chance(0.5) ? kRevocationBytes : rng.below(1000), '\0');
    for (char& byte : bytes) byte = static_cast<char>(rng.next_u64());
    if (!bytes.empty()) bytes[0] = 1;
    EXPECT_TRUE(revoked_.take(bytes).empty());
  }
}

}  // namespace
}  // namespace starling
