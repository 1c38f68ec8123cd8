// Calls to bootstrap addresses, before and after an agent knows its swarm.
#include "bootstrap/seed_calls.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <variant>

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
  void on_settings_adopted() override {}

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
      if (again) calls.call_again(); else calls.tick();
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

}  // namespace
}  // namespace starling
