// The parts of entering a swarm: whose settings, and which genesis.
#include "agent/run/agreed_swarm.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "agent/config/settings.h"
#include "gossip/sim/virtual_network.h"

namespace starling {
namespace {

PeerRecord record(uint8_t number) {
  PeerRecord record;
  record.id.bytes.fill(number);
  record.version = {1, 0};
  record.endpoint = {"10.0.0." + std::to_string(number), 7400};
  return record;
}

class EntryParts : public testing::Test {
 protected:
  EntryParts() {
    config_.has_swarm = true;
    config_.swarm.name = "here";
    config_.agent.state = "/the/folder";
  }

  VirtualClock clock_;
  VirtualNetwork network_{clock_, 1, LinkOptions{}};
  std::unique_ptr<Transport> transport_ = network_.open(record(1).endpoint);
  Router router_{{record(1), {}, {}, 1, describe_difference}, *transport_, clock_};
  Config config_;
  AgreedSwarm swarm_{router_};
  const std::string hash_ = std::string(64, 'a');
};

TEST_F(EntryParts, OwnSettingsBecomeTheAgreedTextWithTheGenesis) {
  ASSERT_TRUE(swarm_.take_own(config_, ""));
  EXPECT_EQ(router_.settings(), "") << "its genesis is not drawn yet";
  EXPECT_EQ(swarm_.genesis_problem(), "");
  swarm_.genesis_drawn(hash_);
  EXPECT_EQ(router_.settings(), agreed_settings(config_.swarm, hash_));
  EXPECT_EQ(swarm_.genesis_problem(), "");
  EXPECT_FALSE(swarm_.adopted());
}

TEST_F(EntryParts, AStoredTextIsKeptAndItsGenesisChecked) {
  const std::string stored = "# as an earlier version wrote it\n" + agreed_settings(config_.swarm, hash_);
  config_.has_swarm = false;
  config_.swarm = {};
  ASSERT_TRUE(swarm_.take_own(config_, stored));
  swarm_.genesis_drawn(std::string(64, 'b'));
  EXPECT_EQ(router_.settings(), stored);
  EXPECT_EQ(swarm_.config().name, "here");
  EXPECT_NE(swarm_.genesis_problem().find("bbbbbbbb"), std::string::npos) << swarm_.genesis_problem();
}

TEST_F(EntryParts, AFolderOfAnotherSwarmIsRefused) {
  const std::string stored = agreed_settings(config_.swarm, hash_);
  config_.swarm.local_steps += 1;
  try {
    (void)swarm_.take_own(config_, stored);
    ADD_FAILURE();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("/the/folder"), std::string::npos) << error.what();
  }
}

// Without a guard by default, as earlier programs were.
TEST_F(EntryParts, AFolderOfBeforeGoesOnWithoutAGuardWhereTheConfigNamesNone) {
  SwarmConfig before = config_.swarm;
  before.exchange.clip = 0;
  const std::string stored = agreed_settings(before, hash_);
  ASSERT_TRUE(swarm_.take_own(config_, stored));
  EXPECT_EQ(clip_of(swarm_.config().exchange), 0);
  EXPECT_EQ(router_.settings(), stored);
  config_.swarm.exchange.clip = 3;
  EXPECT_THROW((void)swarm_.take_own(config_, stored), std::runtime_error);
}

TEST_F(EntryParts, AFounderAgreesOnATimeForAuto) {
  config_.swarm.model.kind = "quadratic";
  config_.swarm.model.dimension = 10'000'000;
  config_.swarm.exchange.deadline_max = kDeadlineAuto;
  ASSERT_TRUE(swarm_.take_own(config_, ""));
  const Duration agreed = swarm_.config().exchange.deadline_max;
  EXPECT_EQ(agreed, longest_deadline(config_.swarm));
  EXPECT_GT(agreed, std::chrono::seconds(30));
  swarm_.genesis_drawn(hash_);
  EXPECT_EQ(parse_agreed_settings(router_.settings()).swarm.exchange.deadline_max, agreed);
}

// Also one that Starling gave to every model before.
TEST_F(EntryParts, AFolderKeepsItsLongestDeadlineWhereTheConfigSaysAuto) {
  config_.swarm.exchange.deadline_max = std::chrono::milliseconds(500);
  const std::string stored = agreed_settings(config_.swarm, hash_);
  config_.swarm.exchange.deadline_max = kDeadlineAuto;
  ASSERT_TRUE(swarm_.take_own(config_, stored));
  EXPECT_EQ(swarm_.config().exchange.deadline_max, std::chrono::milliseconds(500));
  EXPECT_EQ(router_.settings(), stored);
  config_.swarm.exchange.deadline_max = std::chrono::seconds(2);
  EXPECT_THROW((void)swarm_.take_own(config_, stored), std::runtime_error);
}

TEST_F(EntryParts, WithoutSettingsThoseOfAMemberAreAdopted) {
  config_.has_swarm = false;
  EXPECT_FALSE(swarm_.take_own(config_, ""));
  const std::string theirs = agreed_settings(config_.swarm, hash_);
  swarm_.adopt(theirs);
  EXPECT_TRUE(swarm_.adopted());
  EXPECT_EQ(router_.settings(), theirs);
  EXPECT_EQ(swarm_.config().name, "here");
}

// Two people write their configs; the first one's number counts.
TEST_F(EntryParts, AnotherNumberOfAgentsToWaitForIsOfTheSameSwarm) {
  config_.swarm.wait_for = 2;
  const std::string theirs = agreed_settings(config_.swarm, hash_);
  config_.swarm.wait_for = 5;
  const std::string ours = agreed_settings(config_.swarm, hash_);
  EXPECT_EQ(describe_difference(ours, theirs), "");
  EXPECT_TRUE(swarm_.take_own(config_, ""));
  swarm_.take_words(theirs);
  EXPECT_EQ(router_.settings(), theirs);
  EXPECT_EQ(swarm_.config().wait_for, 2u);
  EXPECT_TRUE(swarm_.take_own(config_, theirs)) << "a restart with the own config";
  EXPECT_EQ(swarm_.config().wait_for, 2u);
}

// Whoever probes more rarely than the others suspects the dead too late, and is suspected too early.
TEST_F(EntryParts, WhoAdoptsSettingsProbesAsTheySay) {
  config_.swarm.membership.probe_interval = std::chrono::milliseconds(100);
  config_.swarm.membership.probe_timeout = std::chrono::milliseconds(50);
  const std::string theirs = agreed_settings(config_.swarm, hash_);
  Config none;
  none.has_swarm = false;
  EXPECT_FALSE(swarm_.take_own(none, ""));
  swarm_.adopt(theirs);
  Membership& membership = router_.membership();
  membership.add(record(2));
  for (int i = 0; i < 300; ++i) {
    clock_.advance(std::chrono::milliseconds(10));
    membership.heard_from(record(2).id, 1);
    membership.tick();
  }
  EXPECT_GE(membership.counters().probes, 10u) << "3 in 3 s by the defaults";
}

}  // namespace
}  // namespace starling
