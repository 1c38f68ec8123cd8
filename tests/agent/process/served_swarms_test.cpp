#include "agent/process/served_swarms.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "agent/process/state_folder.h"
#include "agent/state/checkpoint_lock.h"
#include "tests/agent/state/planned_file_ops.h"
#include "tests/gossip/net/numbered_identity.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

class ServedSwarms : public testing::Test {
 protected:
  const PeerId& own() {
    if (id_.is_zero()) id_ = load_or_create_identity(state_).id();
    return id_;
  }
  static Endpoint at(uint8_t swarm) { return {"10.0.0.1", uint16_t(7000 + swarm)}; }
  static Ticket shared(uint8_t swarm) { return {at(swarm), identity_of(90).id(), identity_of(swarm).seed()}; }
  Ticket certified(uint8_t swarm, uint64_t not_after = 0) {
    Ticket ticket{.at = at(swarm), .id = identity_of(90).id()};
    ticket.admission = admit(identity_of(swarm), {own(), not_after, 1});
    return ticket;
  }
  // As `--bootstrap` has them.
  Config config(std::vector<Ticket> tickets, std::vector<Endpoint> others = {}) {
    Config config;
    config.agent.state = state_;
    for (const Ticket& ticket : tickets) config.agent.bootstrap.push_back(ticket.at);
    for (const Endpoint& other : others) config.agent.bootstrap.push_back(other);
    config.agent.tickets = std::move(tickets);
    return config;
  }
  std::shared_ptr<const StatePlace> home(const Config& config) {
    return std::make_shared<const StatePlace>(state_, given_identity(config.agent));
  }
  std::vector<ServedSwarm> enter(const Config& config) { return enter_served(config, home(config), false); }
  void damage(const std::string& path) { std::ofstream(path) << "10.0.0.1:7001#cut off\n"; }
  // As an earlier life heard.
  void revoke(uint8_t swarm) {
    const std::string folder = fs::exists(sub_folder(swarm)) ? sub_folder(swarm) : state_;
    std::ofstream(folder + "/revoked", std::ios::binary) << sign_revocation(identity_of(swarm), own(), 1);
  }
  static std::set<PeerId> swarms(const std::vector<ServedSwarm>& served) {
    std::set<PeerId> keys;
    for (const ServedSwarm& one : served) keys.insert(one.trusted.keys ? one.trusted.keys->swarm() : PeerId{});
    return keys;
  }
  static std::set<PeerId> ids(std::vector<uint8_t> numbers) {
    std::set<PeerId> all;
    for (const uint8_t number : numbers) all.insert(identity_of(number).id());
    return all;
  }
  std::string sub_folder(uint8_t swarm) { return state_ + "/swarms/" + identity_of(swarm).id().hex().substr(0, 16); }

  const Folder folder_;
  const std::string state_ = folder_.path() + "/state";
  PeerId id_;
};

TEST_F(ServedSwarms, AreThoseOfTheTicketsAndLaterThoseOfTheFolder) {
  for (const bool given : {true, false}) {
    const auto served = enter(given ? config({certified(1), shared(2), certified(3)}) : config({}));
    EXPECT_EQ(swarms(served), ids({1, 2, 3}));
    for (const ServedSwarm& one : served) EXPECT_EQ(one.place->id(), own()) << one.place->folder();
  }
  EXPECT_TRUE(fs::exists(state_ + "/ticket")) << "the first lies where an agent's does";
  EXPECT_TRUE(fs::exists(sub_folder(2) + "/swarm.key"));
  EXPECT_TRUE(fs::exists(sub_folder(3) + "/ticket"));
}

TEST_F(ServedSwarms, KeepTheirFoldersInAnyOrderOfTickets) {
  (void)enter(config({certified(1)}));
  for (const auto& served : {enter(config({shared(2), certified(1)}))}) {
    EXPECT_EQ(swarms(served), ids({1, 2}));
    for (const ServedSwarm& one : served) {
      const bool first = one.trusted.keys->swarm() == identity_of(1).id();
      EXPECT_EQ(one.place->folder(), first ? state_ : sub_folder(2));
    }
  }
}

TEST_F(ServedSwarms, HaveTheirOwnAddressesAndTheFirstHasThoseWithoutATicket) {
  const Endpoint other{"10.0.0.9", 7400};
  const auto served = enter(config({certified(1), shared(2)}, {other}));
  ASSERT_EQ(served.size(), 2u);
  EXPECT_EQ(served[0].trusted.config.agent.bootstrap, (std::vector{at(1), other}));
  EXPECT_EQ(served[1].trusted.config.agent.bootstrap, (std::vector{at(2)}));
  EXPECT_EQ(served[1].trusted.config.agent.tickets, (std::vector{shared(2)}));
}

TEST_F(ServedSwarms, ARevokedOneKeepsNoOtherFromItsPlace) {
  (void)enter(config({certified(1), certified(2), shared(3)}));
  revoke(2);
  EXPECT_EQ(swarms(enter(config({}))), ids({1, 3}));
  EXPECT_EQ(swarms(enter(config({certified(4), certified(2)}))), ids({1, 3, 4})) << "its ticket changes nothing";
}

TEST_F(ServedSwarms, ARevokedOneInTheStateFolderLeavesThatLocked) {
  (void)enter(config({certified(1), shared(2)}));
  revoke(1);
  const auto place = home(config({}));
  EXPECT_EQ(swarms(enter_served(config({}), place, false)), ids({2}));
  EXPECT_TRUE(is_locked(state_));
  EXPECT_FALSE(is_locked(sub_folder(2))) << "what serves it is gone";
}

// The members judge by their clocks whether it has.
TEST_F(ServedSwarms, AnExpiredOneIsEntered) {
  EXPECT_EQ(swarms(enter(config({certified(1, 5), shared(2)}))), ids({1, 2}));
}

TEST_F(ServedSwarms, ADamagedTicketKeepsNoOtherFromItsPlace) {
  (void)enter(config({certified(1), shared(2), certified(3)}));
  damage(state_ + "/ticket");
  EXPECT_EQ(swarms(enter(config({}))), ids({2, 3}));
  EXPECT_EQ(swarms(enter(config({shared(2)}))), ids({2, 3})) << "also where another one is given";
  damage(sub_folder(3) + "/ticket");
  EXPECT_EQ(swarms(enter(config({}))), ids({2}));
  EXPECT_EQ(swarms(enter(config({certified(1)}))), ids({1, 2})) << "a new ticket mends it";
}

TEST_F(ServedSwarms, ADamagedTicketAloneIsAnError) {
  (void)enter(config({certified(1)}));
  damage(state_ + "/ticket");
  EXPECT_THROW((void)enter(config({})), std::runtime_error);
}

TEST_F(ServedSwarms, ARevokedOneAloneIsAnError) {
  (void)enter(config({certified(1)}));
  revoke(1);
  EXPECT_THROW((void)enter(config({})), std::runtime_error);
}

TEST_F(ServedSwarms, ATicketOfAnotherAgentIsNotServed) {
  Ticket stolen{.at = at(2), .id = identity_of(90).id()};
  stolen.admission = admit(identity_of(2), {.id = identity_of(7).id()});
  EXPECT_EQ(swarms(enter(config({certified(1), stolen}))), ids({1}));
}

TEST_F(ServedSwarms, WithoutTicketsItIsOneOpenRegistry) {
  const auto served = enter(config({}, {at(1)}));
  ASSERT_EQ(served.size(), 1u);
  EXPECT_EQ(served[0].trusted.keys, nullptr);
  EXPECT_EQ(served[0].trusted.config.agent.bootstrap, std::vector{at(1)});
}

TEST_F(ServedSwarms, AFolderOfAnotherIdentityIsNotServed) {
  fs::create_directories(sub_folder(2));
  store_identity(sub_folder(2), identity_of(8).seed());
  EXPECT_EQ(swarms(enter(config({certified(1), shared(2)}))), ids({1}));
}

TEST_F(ServedSwarms, TwoFoldersOfOneSwarmAreServedOnce) {
  (void)enter(config({certified(1), shared(2)}));
  fs::copy(sub_folder(2), state_ + "/swarms/0123456789abcdef");
  EXPECT_EQ(enter(config({})).size(), 2u);
}

// Its text would tell the members of one of another.
TEST_F(ServedSwarms, ASwarmIdIsRefusedWhereThereAreSeveral) {
  Config two = config({certified(1), shared(2)});
  two.agent.swarm_id = 7;
  EXPECT_THROW((void)enter(two), std::runtime_error);
}

}  // namespace
}  // namespace starling
