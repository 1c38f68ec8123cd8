// Calls to bootstrap addresses, before and after an agent knows its swarm.
#include "bootstrap/seed_calls.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gossip/sim/virtual_network.h"

namespace starling {
namespace {

using std::chrono::milliseconds;

PeerRecord record(uint8_t number) {
  PeerRecord record;
  record.id.bytes.fill(number);
  record.version = {1, 0};
  record.endpoint = {"10.0.0." + std::to_string(number), 7400};
  return record;
}

std::string same_only(const std::string& ours, const std::string& theirs) { return ours == theirs ? "" : "differ"; }

// Answers what any member answers, by the router alone.
struct Caller final : Router::Handler {
  Caller(uint8_t number, VirtualClock& clock, VirtualNetwork& network)
      : transport(network.open(record(number).endpoint)),
        router({record(number), {}, {}, number, same_only}, *transport, clock) {}
  void on_bootstrap(const FrameHeader& header, const BootstrapMessage& message, const SharedBytes&) override {
    if (calls) calls->handle(header, message);
  }
  void on_exchange(const FrameHeader&, const ExchangeMessage&, const SharedBytes&) override {}
  void on_member(const MemberEvent&) override {}

  std::unique_ptr<Transport> transport;
  Router router;
  SeedCalls* calls = nullptr;
};

// First for the settings. Afterwards a seed that is a living member is left alone, one that is none is called again.
TEST(SeedCalls, SeedsAreCalledUntilTheyAreMembers) {
  VirtualClock clock;
  VirtualNetwork network{clock, 1, LinkOptions{}};
  Caller own{1, clock, network}, other{2, clock, network};
  const std::string theirs = "the settings";
  other.router.set_settings(theirs);
  const Endpoint silent{"10.0.0.9", 7400};
  ContactOptions options;
  options.bootstrap = {record(1).endpoint, record(2).endpoint, silent};
  SeedCalls calls(options, record(1).endpoint, own.router, clock, 1);
  own.calls = &calls;
  int joins_to_other = 0, joins_to_silent = 0, joins_to_self = 0;
  const auto count = [&](PassingFrame& frame) {
    if (!std::holds_alternative<BootstrapMessage>(frame.message)) return;
    if (!std::holds_alternative<Join>(std::get<BootstrapMessage>(frame.message))) return;
    joins_to_other += frame.to == record(2).endpoint;
    joins_to_silent += frame.to == silent;
    joins_to_self += frame.to == record(1).endpoint;
  };
  calls.begin("");
  const auto run = [&](int ticks, bool again) {
    for (int i = 0; i < ticks; ++i) {
      clock.advance(milliseconds(10));
      network.deliver_due();
      own.router.tick(own);
      other.router.tick(other);
      if (again)
        calls.call_again();
      else
        calls.tick();
    }
  };
  run(100, false);
  ASSERT_EQ(calls.contact()->state(), Contact::State::kAnswered);
  EXPECT_EQ(calls.contact()->settings(), theirs);
  own.router.set_settings(theirs);
  run(100, false);
  network.set_filter(count);
  run(2000, true);
  EXPECT_EQ(joins_to_other, 0) << "it is a member";
  EXPECT_GE(joins_to_silent, 3);
  EXPECT_EQ(joins_to_self, 0);
}

class SeedTrouble : public testing::Test {
 protected:
  SeedTrouble() {
    own_.router.set_settings("mine");
    call({record(2).endpoint});
  }
  void call(std::vector<Endpoint> seeds) {
    ContactOptions options;
    options.bootstrap = std::move(seeds);
    options.compare = same_only;
    calls_ = std::make_unique<SeedCalls>(options, record(1).endpoint, own_.router, clock_, 1);
    own_.calls = calls_.get();
  }
  void run_for(Duration time) {
    for (const TimePoint end = clock_.now() + time; clock_.now() < end;) {
      clock_.advance(milliseconds(10));
      network_.deliver_due();
      own_.router.tick(own_);
      other_.router.tick(other_);
      calls_->call_again();
    }
  }
  bool says(const std::string& part) const { return calls_->trouble().find(part) != std::string::npos; }

  VirtualClock clock_;
  VirtualNetwork network_{clock_, 1, LinkOptions{}};
  Caller own_{1, clock_, network_}, other_{2, clock_, network_};
  std::unique_ptr<SeedCalls> calls_;
};

TEST_F(SeedTrouble, ASeedThatAnswersIsAProvenMember) {
  other_.router.set_settings("mine");
  const auto known = [&] { return own_.router.membership().find(record(2).id); };
  for (int i = 0; i < 100 && !known(); ++i) run_for(milliseconds(10));
  ASSERT_NE(known(), nullptr);
  EXPECT_TRUE(known()->proven);
}

TEST_F(SeedTrouble, ASeedOfAnotherSwarmIsNamedWithTheRemedyUntilItIsNone) {
  other_.router.set_settings("theirs");
  run_for(std::chrono::seconds(1));
  for (const char* part : {"10.0.0.2:7400", "another swarm", "differ", "--bootstrap", "--state"}) {
    EXPECT_TRUE(says(part)) << part << " in: " << calls_->trouble();
  }
  EXPECT_FALSE(calls_->refused()) << "others may answer yet";
  run_for(std::chrono::seconds(12));
  EXPECT_TRUE(calls_->refused());
  other_.router.set_settings("mine");
  run_for(std::chrono::seconds(6));
  EXPECT_EQ(calls_->trouble(), "");
  EXPECT_FALSE(calls_->refused());
}

// Frames go out, and nothing comes back: another address has to be advertised.
TEST_F(SeedTrouble, NobodyWhoReachesUsBackIsSaid) {
  other_.router.set_settings("mine");
  LinkOptions silent;
  silent.loss = 1;
  network_.set_link(record(2).endpoint, record(1).endpoint, silent);
  run_for(std::chrono::seconds(10));
  EXPECT_EQ(calls_->trouble(), "");
  run_for(std::chrono::seconds(10));
  for (const char* part : {"10.0.0.2:7400", "10.0.0.1:7400", "--advertise"}) {
    EXPECT_TRUE(says(part)) << part << " in: " << calls_->trouble();
  }
  EXPECT_FALSE(calls_->refused());
  network_.set_link(record(2).endpoint, record(1).endpoint, LinkOptions{});
  run_for(std::chrono::seconds(10));
  EXPECT_EQ(calls_->trouble(), "");
}

// Where no name server answers, the port and the address of this agent are not at fault.
TEST_F(SeedTrouble, ASeedWithANameMayHaveNoNumberNow) {
  const Endpoint silent = record(9).endpoint;
  call({{"localhost", 7400}, silent});
  run_for(std::chrono::seconds(20));
  EXPECT_TRUE(says("do not answer")) << calls_->trouble();
  EXPECT_FALSE(says("name server")) << calls_->trouble();
  call({silent, {"seed.example.com", 7400}});
  run_for(std::chrono::seconds(20));
  EXPECT_TRUE(says("getent hosts seed.example.com")) << calls_->trouble();
}

TEST_F(SeedTrouble, ANoteOfARegistryIsPassedOnWhileThisAgentIsAlone) {
  other_.router.set_settings("mine");
  other_.router.set_note("serves another swarm 'mine' beside this one");
  other_.router.membership().update_self({.role = Role::kBootstrap});
  run_for(std::chrono::seconds(8));
  EXPECT_TRUE(says("serves another swarm")) << calls_->trouble();
  PeerRecord peer = record(3);
  peer.meta.phase = Phase::kTraining;
  own_.router.membership().add(peer);
  EXPECT_EQ(calls_->trouble(), "");
}

}  // namespace
}  // namespace starling
