// A reader sees a whole swarm through one router, and nobody there knows it afterwards.
#include "bootstrap/swarm_reader.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "bootstrap/registry.h"
#include "kernels/projection.h"
#include "tests/bootstrap/world.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint32_t kReader = 900, kRegistry = 901;

class SwarmReaderTest : public ::testing::Test, public Registry::Listener {
 protected:
  SwarmReaderTest() {
    world.settings = "digits";
    world.each_step = [this] {
      if (registry) registry->tick(*this);
      if (reader) reader->tick();
    };
  }
  SwarmReader& read(const Endpoint& asked, uint64_t swarm = 0) {
    reader.reset();
    reader_transport.reset();
    reader_transport = world.network.open(endpoint_of(kReader));
    const SwarmReaderOptions options{
        .asked = asked, .swarm = swarm, .own = endpoint_of(kReader), .generation = 5, .secret = 77 + ++readers};
    reader = std::make_unique<SwarmReader>(options, *reader_transport, world.clock);
    return *reader;
  }
  void start_registry() {
    registry_transport = world.network.open(endpoint_of(kRegistry));
    PeerRecord self = record_of(kRegistry);
    self.meta.role = Role::kBootstrap;
    const auto good = [](const std::string& text, const std::string&) { return SettingsRead{"", text, {}}; };
    registry =
        std::make_unique<Registry>(RegistryOptions{self, {}, 5, 0, compare, good}, *registry_transport, world.clock);
  }
  World::Node& join_registry(const std::string& settings) {
    World::Node& node = world.add(World::joining());
    node.router.want_swarm(swarm_id_of(settings));
    world.join(node, {endpoint_of(kRegistry)}, settings);
    world.run_for(seconds(2));
    return node;
  }
  bool has_view(Duration limit = seconds(5)) {
    return world.run_until([&] { return reader->view().has_value(); }, limit);
  }
  bool is_refused() {
    return world.run_until([&] { return !reader->refusal().empty(); }, seconds(5));
  }

  void on_swarm(const std::string&, uint64_t) override {}
  void on_member(const Membership&, const MemberEvent&) override {}

  World world;
  std::unique_ptr<Transport> registry_transport, reader_transport;
  std::unique_ptr<Registry> registry;
  std::unique_ptr<SwarmReader> reader;
  uint64_t readers = 0;
};

// Five hundred take eight pages.
TEST_F(SwarmReaderTest, ReadsFiveHundredMembersInLessThanASecondAndJoinsNothing) {
  World::Node& asked = world.add();
  MemberMeta meta = World::trained(1754);
  meta.projection.assign(kProjectionBuckets, 0.5f);
  meta.program = 0x000300;
  meta.done = 1700;
  meta.failed = 4;
  for (uint32_t number = 1; number < 500; ++number) {
    PeerRecord record = record_of(number);
    meta.name = "site-" + std::to_string(number);
    record.meta = meta;
    asked.members().add(record);
  }
  read(endpoint_of(asked.number));
  const TimePoint began = world.clock.now();
  const auto real = std::chrono::steady_clock::now();
  ASSERT_TRUE(has_view(seconds(1)));
  EXPECT_LT(std::chrono::steady_clock::now() - real, seconds(1));
  EXPECT_LT(world.clock.now() - began, seconds(1));
  const SwarmView& view = *reader->view();
  EXPECT_EQ(view.settings, world.settings);
  EXPECT_EQ(view.swarm_id, swarm_id_of(world.settings));
  EXPECT_EQ(view.teller.id, peer_of(asked.number));
  ASSERT_EQ(view.rows.size(), 500u);
  EXPECT_EQ(view.rows[7].record.meta.name, "site-7");
  EXPECT_EQ(view.rows[7].record.meta.steps, 1754u);
  EXPECT_EQ(view.rows[7].record.meta.done, 1700u);
  EXPECT_EQ(view.rows[7].record.meta.failed, 4u);
  EXPECT_EQ(asked.members().all().size(), 499u);
  EXPECT_EQ(asked.members().find(peer_of(kReader)), nullptr);
  EXPECT_EQ(asked.router.counters().joins, 0u);
  EXPECT_EQ(asked.router.counters().joins_refused, 0u);
  EXPECT_EQ(asked.router.counters().reads, 1u);
  world.run_for(seconds(10));
  EXPECT_LE(asked.router.counters().reads, 12u) << "once a second";
}

TEST_F(SwarmReaderTest, AsksAgainAndSeesWhatChanges) {
  World::Node& asked = world.add();
  World::Node& other = world.add();
  world.introduce_all();
  read(endpoint_of(asked.number));
  ASSERT_TRUE(has_view());
  EXPECT_EQ(reader->view()->rows[1].record.meta.steps, 100u);
  other.members().update_self(World::trained(200));
  ASSERT_TRUE(world.run_until([&] { return reader->view()->rows[1].record.meta.steps == 200; }, seconds(10)));
  other.up = false;
  ASSERT_TRUE(world.run_until([&] { return reader->view()->rows[1].state == MemberState::kSuspect; }, seconds(20)));
  ASSERT_TRUE(world.run_until([&] { return reader->view()->rows[1].state == MemberState::kDead; }, seconds(60)));
  EXPECT_EQ(reader->view()->rows[0].state, MemberState::kAlive);
  world.run_for(std::chrono::minutes(11));
  EXPECT_EQ(reader->view()->rows.size(), 1u) << "it died long ago";
}

// The cookie of a minute ago opens nothing, so a new one is asked for; lost pages are asked for again.
TEST_F(SwarmReaderTest, GoesOnForHoursAndOverLossyLinks) {
  World::Node& asked = world.add();
  for (uint32_t number = 1; number < 200; ++number) asked.members().add(record_of(number));
  world.network.set_default_links({.loss = 0.1});
  read(endpoint_of(asked.number));
  ASSERT_TRUE(has_view(seconds(60)));
  for (int minute = 0; minute < 3; ++minute) {
    const TimePoint before = reader->view()->at;
    world.run_for(std::chrono::minutes(1));
    EXPECT_GT(reader->view()->at, before + seconds(30));
  }
}

// What an older program passes on has no figures of another program's: the last ones stand.
TEST_F(SwarmReaderTest, KeepsTheFiguresThatAnOlderMemberDropsOnTheWay) {
  World::Node& asked = world.add();
  PeerRecord record = record_of(1);
  record.meta.program = 0x000300;
  record.meta.done = 17;
  asked.members().add(record);
  read(endpoint_of(asked.number));
  ASSERT_TRUE(has_view());
  record.version.incarnation = 1;
  record.meta = World::trained(300);
  asked.members().add(record);
  ASSERT_TRUE(world.run_until([&] { return reader->view()->rows[1].record.meta.steps == 300; }, seconds(5)));
  EXPECT_EQ(reader->view()->rows[1].record.meta.done, 17u);
  record.version = {2, 0};
  asked.members().add(record);
  world.run_for(seconds(3));
  EXPECT_EQ(reader->view()->rows[1].record.meta.done, 0u) << "of another process";
}

TEST_F(SwarmReaderTest, AnAgentOfAnotherSwarmAndOneOfNoneAreTold) {
  World::Node& asked = world.add();
  read(endpoint_of(asked.number), 0x1234);
  ASSERT_TRUE(is_refused());
  EXPECT_NE(reader->refusal().find("another swarm"), std::string::npos) << reader->refusal();
  EXPECT_EQ(reader->refusal().find("older program"), std::string::npos) << reader->refusal();
  asked.router.set_settings("");
  read(endpoint_of(asked.number));
  ASSERT_TRUE(has_view());
  EXPECT_EQ(reader->view()->settings, "");
}

// As a program that knows no readers answers: with its settings, and it adds nobody.
TEST_F(SwarmReaderTest, AnOlderProgramRefusesAndIsNamedSo) {
  World::Node& asked = world.add();
  world.network.set_filter([](PassingFrame& frame) {
    Join* join = message_as<Join>(frame.message);
    if (join == nullptr) return;
    EXPECT_EQ(frame.header.swarm, kOnlySwarm) << "else it would let the reader in";
    join->reads = 0;
  });
  read(endpoint_of(asked.number));
  ASSERT_TRUE(is_refused());
  EXPECT_NE(reader->refusal().find("older program"), std::string::npos) << reader->refusal();
  EXPECT_TRUE(asked.members().all().empty());
}

TEST_F(SwarmReaderTest, ARegistryWithSeveralSwarmsListsThem) {
  start_registry();
  read(endpoint_of(kRegistry));
  ASSERT_TRUE(has_view());
  EXPECT_EQ(reader->view()->settings, "") << "it knows none yet";
  EXPECT_EQ(reader->view()->teller.meta.role, Role::kBootstrap);
  join_registry("digits");
  read(endpoint_of(kRegistry));
  ASSERT_TRUE(has_view());
  EXPECT_EQ(reader->view()->settings, "digits");
  join_registry("words");
  read(endpoint_of(kRegistry));
  ASSERT_TRUE(is_refused());
  EXPECT_NE(reader->refusal().find("--swarm ID"), std::string::npos) << reader->refusal();
  EXPECT_NE(reader->refusal().find("'words'"), std::string::npos) << reader->refusal();
  read(endpoint_of(kRegistry), swarm_id_of("words"));
  ASSERT_TRUE(has_view());
  EXPECT_EQ(reader->view()->settings, "words");
  ASSERT_EQ(reader->view()->rows.size(), 2u) << "an agent and the registry";
  EXPECT_EQ(registry->counters().joins_refused, 0u) << "of no newcomer";
}

// Any process may send a page; only those asked for, with the number of the question, count.
TEST_F(SwarmReaderTest, PagesOfStrangersAreIgnored) {
  World::Node& asked = world.add();
  asked.up = false;
  read(endpoint_of(asked.number));
  world.run_for(milliseconds(100));
  const std::unique_ptr<Transport> stranger = world.network.open({"10.9.9.9", 7400});
  const FrameHeader header{1, peer_of(9), 1, {"10.9.9.9", 7400}};
  for (const Message& message :
       {Message(JoinReply{"forged", {record_of(9)}, "", 0}), Message(Sync{.records = {record_of(9)}}),
        Message(JoinReply{"forged", {record_of(9)}, "", 5}),
        Message(Sync{.records = {record_of(9)}, .nonce = 5, .page = 0, .pages = 1}),
        Message(JoinRefused{"forged", "", 0}), Message(JoinCookie{5, 5})}) {
    EXPECT_EQ(stranger->send(endpoint_of(kReader), Channel::kControl, {encode_frame_header(header, message, {}), {}}),
              SendStatus::kQueued);
  }
  world.run_for(seconds(2));
  EXPECT_FALSE(reader->view().has_value());
  EXPECT_EQ(reader->refusal(), "");
}

}  // namespace
}  // namespace starling
