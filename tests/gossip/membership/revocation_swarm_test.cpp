// In a certified swarm a revocation reaches every member, and its member leaves every table, in virtual time.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/gossip/membership/swarm_support.h"
#include "tests/gossip/net/numbered_identity.h"

namespace starling {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr size_t kRevoked = 2;  // of the nodes

class RevocationSwarm : public ::testing::TestWithParam<std::pair<size_t, double>> {
 protected:
  RevocationSwarm() : swarm_(GetParam().first, GetParam().second, 300 + GetParam().first) {
    swarm_.certify(key_.id());
    for (size_t i = 0; i < swarm_.size(); ++i) swarm_.expect_refusals(i);
    swarm_.introduce_all();
    swarm_.run_for(seconds(20));
  }
  std::string revocation(size_t number) const {
    return sign_revocation(key_, peer_of(static_cast<uint32_t>(number)), 1);
  }
  // The revoked one too, which has to say so.
  bool all_know(size_t first = 0) {
    for (size_t i = first; i < swarm_.size(); ++i) {
      if (!swarm_.knows_revoked(i, peer_of(kRevoked))) return false;
    }
    return true;
  }
  bool gone_everywhere() {
    for (size_t i = 0; i < swarm_.size(); ++i) {
      const Member* member = i == kRevoked ? nullptr : swarm_.at(i).find(peer_of(kRevoked));
      if (member && member->state <= MemberState::kSuspect) return false;
    }
    return true;
  }
  const Identity key_ = identity_of(1);
  VirtualSwarm swarm_;
};

INSTANTIATE_TEST_SUITE_P(Swarms, RevocationSwarm,
                         ::testing::Values(std::pair(size_t{3}, 0.0), std::pair(size_t{8}, 0.0),
                                           std::pair(size_t{8}, 0.1), std::pair(size_t{64}, 0.1)));

TEST_P(RevocationSwarm, AllHearOfARevocation) {
  swarm_.at(0).revoke(revocation(kRevoked));
  const TimePoint told = swarm_.now();
  ASSERT_TRUE(swarm_.run_until([&] { return all_know(); }, seconds(60)));
  std::printf("a revocation reaches %zu at %.0f %% loss within %.2f s\n", swarm_.size(), 100 * GetParam().second,
              starling::seconds(swarm_.now() - told));
  EXPECT_TRUE(gone_everywhere());
}

TEST_P(RevocationSwarm, NoneOfARevokedMemberComesBack) {
  swarm_.at(0).revoke(revocation(kRevoked));
  ASSERT_TRUE(swarm_.run_until([&] { return all_know(); }, seconds(60)));
  swarm_.run_for(minutes(2));  // it goes on to send, as it is no honest one
  EXPECT_TRUE(gone_everywhere());
  swarm_.at(0).add(record_of(kRevoked, 5));
  EXPECT_TRUE(gone_everywhere());
}

TEST_P(RevocationSwarm, NobodyElseRevokes) {
  swarm_.at(0).revoke(sign_revocation(identity_of(9), peer_of(kRevoked), 1));
  swarm_.run_for(seconds(20));
  EXPECT_FALSE(swarm_.knows_revoked(0, peer_of(kRevoked)));
  EXPECT_NE(swarm_.at(0).find(peer_of(kRevoked))->state, MemberState::kLeft);
}

// Both halves revoke one of the other meanwhile.
TEST_P(RevocationSwarm, AfterAPartitionAllKnowWithinSeconds) {
  std::vector<int> sides(swarm_.size(), 0);
  for (size_t i = 0; i < sides.size() / 2; ++i) sides[i] = 1;
  swarm_.cut(sides);
  swarm_.run_for(minutes(2));
  swarm_.at(0).revoke(revocation(kRevoked));
  swarm_.run_for(seconds(30));
  EXPECT_FALSE(swarm_.knows_revoked(swarm_.size() - 1, peer_of(kRevoked)));
  swarm_.cut(std::vector<int>(swarm_.size(), 0));
  const TimePoint healed = swarm_.now();
  ASSERT_TRUE(swarm_.run_until([&] { return all_know(); }, seconds(60)));
  std::printf("after a partition it reaches %zu at %.0f %% loss within %.2f s\n", swarm_.size(),
              100 * GetParam().second, starling::seconds(swarm_.now() - healed));
  EXPECT_LE(swarm_.now() - healed, seconds(5));
  EXPECT_TRUE(gone_everywhere());
}

}  // namespace
}  // namespace starling
