// What a router counts reaches the status, each count under its own name.
#include "agent/observe/member_report.h"

#include <gtest/gtest.h>

#include "tests/gossip/membership/membership_support.h"

namespace starling {
namespace {

TEST(MemberReport, TellsOfEveryKindOfRequestThatWasRefused) {
  RouterCounters counters;
  counters.joins = 1;
  counters.joins_refused = 2;
  counters.joins_dropped = 3;
  counters.joins_older = 4;
  counters.proposals_refused = 4;
  counters.sends_failed = 5;
  counters.wrong_sender = 6;
  counters.other_swarm = 7;
  const AgentStatus status = traffic_status(counters, {});
  EXPECT_EQ(status.joins.accepted, 1u);
  EXPECT_EQ(status.joins.older, 4u);
  EXPECT_EQ(status.joins.refused, 2u);
  EXPECT_EQ(status.joins.dropped, 3u);
  EXPECT_EQ(status.proposals_refused, 4u);
  EXPECT_EQ(status.frames.sends_failed, 5u);
  EXPECT_EQ(status.frames_refused.wrong_sender, 6u);
  EXPECT_EQ(status.frames_refused.other_swarm, 7u);
}

// "1 peer" is somebody to train with.
TEST(MemberReport, ARegistryIsNoPeer) {
  FakeClock clock;
  RecordingOutbox outbox;
  Membership membership(MembershipOptions{}, record_of(0), clock, outbox, 1, 1);
  PeerRecord registry = record_of(1);
  registry.meta.role = Role::kBootstrap;
  membership.add(registry);
  EXPECT_EQ(membership.alive().size(), 1u);
  EXPECT_EQ(peer_count(membership), 0u);
  membership.add(record_of(2));
  EXPECT_EQ(peer_count(membership), 1u);
}

}  // namespace
}  // namespace starling
