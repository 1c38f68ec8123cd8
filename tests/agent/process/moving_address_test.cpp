// When an agent whose machine moves, sleeps or loses its network tells its members of an address, and which one.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "agent/process/address_watch.h"
#include "gossip/clock.h"

namespace starling {
namespace {

using std::chrono::seconds;

constexpr uint16_t kPort = 7400;

// The clocks of a machine, and what its looks a second apart say.
class Machine {
 public:
  // Of the clock since boot and of the wall clock, beside the second.
  Duration look(Duration boot_ahead, Duration wall_ahead) {
    const Moment before = now_;
    now_.since_boot += seconds(1) + boot_ahead;
    now_.wall += seconds(1) + wall_ahead;
    return standstill_.between(before, now_);
  }
  Duration jump(Duration wall_ahead) { return look(Duration::zero(), wall_ahead); }

 private:
  Moment now_{seconds(100), std::chrono::hours(1000)};
  Standstill standstill_;
};

TEST(StandstillTest, EitherClockTellsOfASleep) {
  Machine machine;
  EXPECT_EQ(machine.look({}, {}), seconds(1));
  EXPECT_EQ(machine.look(std::chrono::hours(3), std::chrono::hours(3)), std::chrono::hours(3) + seconds(1));
  EXPECT_EQ(machine.look(std::chrono::hours(3), -seconds(5)), std::chrono::hours(3) + seconds(1)) << "set back too";
  EXPECT_EQ(machine.jump(std::chrono::hours(3)), std::chrono::hours(3) + seconds(1)) << "of a virtual machine";
}

TEST(StandstillTest, AWallClockThatIsSetBackTellsOfNone) {
  Machine machine;
  EXPECT_EQ(machine.jump(-std::chrono::hours(2)), seconds(1));
  EXPECT_EQ(machine.jump(seconds(7) - std::chrono::milliseconds(1)), seconds(1)) << "set a little ahead";
  EXPECT_EQ(machine.jump(seconds(7)), seconds(8));
}

TEST(StandstillTest, ServicesThatFightOverTheWallClockTellOfOneInMinutes) {
  Machine machine;
  int told = 0;
  for (int i = 0; i < 299; ++i) told += machine.jump(i % 2 == 0 ? seconds(10) : -seconds(10)) >= seconds(8);
  EXPECT_EQ(told, 1);
  EXPECT_GE(machine.look(seconds(20), seconds(20)), seconds(20)) << "a sleep counts meanwhile";
  for (int i = 0; i < 300; ++i) told += machine.jump(i % 2 == 0 ? seconds(10) : -seconds(10)) >= seconds(8);
  EXPECT_EQ(told, 2);
}

class MovingAddressTest : public ::testing::Test {
 protected:
  Endpoint derive() {
    ++derived_;
    return {route_, kPort};
  }
  MovingAddress at(const std::string& host, std::vector<std::string> interfaces, bool follows = true) {
    return {follows, {host, kPort}, std::move(interfaces), [this] { return derive(); }};
  }

  std::string route_ = "10.0.0.5";  // the address that the default route has now
  int derived_ = 0;
};

TEST_F(MovingAddressTest, SaysNothingWhileNothingChanges) {
  MovingAddress address = at("10.0.0.5", {"10.0.0.5", "127.0.0.1"});
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(address.look({{"10.0.0.5", "127.0.0.1"}, seconds(1)}));
  EXPECT_EQ(derived_, 0);
}

TEST_F(MovingAddressTest, TakesTheNewAddressWhereItsOwnIsGone) {
  MovingAddress address = at("10.0.0.5", {"10.0.0.5", "127.0.0.1"});
  route_ = "192.168.1.7";
  const auto change = address.look({{"127.0.0.1", "192.168.1.7"}, seconds(1)});
  ASSERT_TRUE(change);
  EXPECT_EQ(change->address, (Endpoint{"192.168.1.7", kPort}));
  EXPECT_EQ(change->slept, Duration::zero());
  EXPECT_FALSE(address.look({{"127.0.0.1", "192.168.1.7"}, seconds(1)})) << "told once";
}

TEST_F(MovingAddressTest, KeepsAnAddressThatIsStillThereBesideABetterOne) {
  MovingAddress address = at("10.0.0.5", {"10.0.0.5"});
  route_ = "192.168.1.7";
  EXPECT_FALSE(address.look({{"10.0.0.5", "192.168.1.7"}, seconds(1)}));
}

TEST_F(MovingAddressTest, WaitsForANetworkThatIsDown) {
  MovingAddress address = at("10.0.0.5", {"10.0.0.5", "127.0.0.1"});
  route_ = "127.0.0.1";
  for (int i = 0; i < 60; ++i) EXPECT_FALSE(address.look({{"127.0.0.1"}, seconds(1)}));
  route_ = "10.0.0.9";
  const auto change = address.look({{"10.0.0.9", "127.0.0.1"}, seconds(1)});
  ASSERT_TRUE(change);
  EXPECT_EQ(change->address.host, "10.0.0.9");
}

TEST_F(MovingAddressTest, LeavesLoopbackOnceThereIsANetwork) {
  MovingAddress address = at("127.0.0.1", {"127.0.0.1"});
  const auto change = address.look({{"10.0.0.5", "127.0.0.1"}, seconds(1)});
  ASSERT_TRUE(change);
  EXPECT_EQ(change->address.host, "10.0.0.5");
}

TEST_F(MovingAddressTest, LeavesALinkLocalAddressForOneThatLasts) {
  MovingAddress address = at("169.254.3.4", {"127.0.0.1", "169.254.3.4"});
  EXPECT_FALSE(address.look({{"127.0.0.1", "169.254.3.4"}, seconds(1)}));
  const auto change = address.look({{"10.0.0.5", "127.0.0.1", "169.254.3.4"}, seconds(1)});
  ASSERT_TRUE(change);
  EXPECT_EQ(change->address.host, "10.0.0.5");
}

TEST_F(MovingAddressTest, ASleepIsToldWithTheAddressOnWaking) {
  MovingAddress address = at("10.0.0.5", {"10.0.0.5"});
  EXPECT_FALSE(address.look({{"10.0.0.5"}, seconds(7)})) << "a busy machine";
  auto change = address.look({{"10.0.0.5"}, std::chrono::hours(9)});
  ASSERT_TRUE(change);
  EXPECT_EQ(change->address.host, "10.0.0.5");
  EXPECT_EQ(change->slept, std::chrono::hours(9));
  route_ = "172.16.0.3";
  change = address.look({{"172.16.0.3"}, std::chrono::hours(2)});
  ASSERT_TRUE(change) << "it woke elsewhere";
  EXPECT_EQ(change->address.host, "172.16.0.3");
}

TEST_F(MovingAddressTest, SilenceOfAllDerivesAnewAndIsAnsweredEvenWithTheSameAddress) {
  MovingAddress address = at("10.0.0.5", {"10.0.0.5"});
  const auto change = address.look({{"10.0.0.5"}, seconds(1), true});
  ASSERT_TRUE(change) << "links are made anew";
  EXPECT_EQ(change->address.host, "10.0.0.5");
  EXPECT_EQ(derived_, 1);
}

TEST_F(MovingAddressTest, AnAdvertisedAddressStays) {
  MovingAddress address = at("gpu1.example", {"10.0.0.5"}, false);
  EXPECT_FALSE(address.look({{"192.168.1.7"}, seconds(1)}));
  const auto change = address.look({{"192.168.1.7"}, seconds(30), true});
  ASSERT_TRUE(change);
  EXPECT_EQ(change->address.host, "gpu1.example");
  EXPECT_EQ(derived_, 0);
}

}  // namespace
}  // namespace starling
