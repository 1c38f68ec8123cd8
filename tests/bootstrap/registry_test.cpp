// One registry, any number of swarms: whom it brings together, what it checks, and that nobody decides by coming first.
#include "bootstrap/registry.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gossip/net/member_keys.h"
#include "tests/bootstrap/world.h"
#include "tests/gossip/net/numbered_identity.h"

namespace starling {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The name is what stands before the colon; a text without one cannot be used.
SettingsRead read(const std::string& text, const std::string&) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return {"no colon", "", {}};
  return {"", text.substr(0, colon), {}};
}

constexpr uint32_t kRegistry = 300;

class RegistryTest : public ::testing::Test, public Registry::Listener {
 protected:
  RegistryTest() { start(0); }
  void start(uint64_t only, std::vector<Endpoint> seeds = {}) {
    registry.reset();
    transport.reset();
    transport = world.network.open(endpoint_of(kRegistry));
    PeerRecord self = record_of(kRegistry);
    self.meta.role = Role::kBootstrap;
    registry = std::make_unique<Registry>(RegistryOptions{self, std::move(seeds), 5, only, compare, read}, *transport,
                                          world.clock);
    world.each_step = [this] { registry->tick(*this); };
  }
  Contact& join(const std::string& settings, uint64_t wanted = 0) {
    World::Node& node = world.add(World::joining());
    node.router.want_swarm(wanted);
    Contact& contact = world.join(node, {endpoint_of(kRegistry)}, settings);
    world.run_for(seconds(3));
    return contact;
  }
  World::Node& newest() { return *world.nodes.back(); }

  void on_swarm(const std::string& name, uint64_t) override { begun.push_back(name); }
  void on_swarm_forgotten(const std::string& name, uint64_t) override { forgotten.push_back(name); }
  void on_member(const Membership&, const MemberEvent&) override {}

  World world;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Registry> registry;
  std::vector<std::string> begun, forgotten;
};

TEST_F(RegistryTest, SwarmsAreKeptApartByTheirId) {
  const std::string texts[] = {"digits: 1", "mnist: 1", "digits: 2"};
  std::vector<std::vector<World::Node*>> swarms(3);
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(join(texts[i], swarm_id_of(texts[i])).state(), Contact::State::kAnswered);
      EXPECT_EQ(newest().contact->settings(), texts[i]);
      swarms[i].push_back(&newest());
    }
  }
  EXPECT_EQ(registry->swarm_count(), 3u);
  EXPECT_EQ(begun, (std::vector<std::string>{"digits", "mnist", "digits"}));
  world.run_for(seconds(5));
  for (size_t i = 0; i < 3; ++i) {
    for (World::Node* node : swarms[i]) EXPECT_EQ(node->members().alive().size(), 2u) << "the other one, the registry";
    EXPECT_EQ(registry->find(swarm_id_of(texts[i]))->membership().alive().size(), 2u);
  }
}

TEST_F(RegistryTest, ANewcomerWithoutSettingsGetsTheOnlySwarmOrTheOneThatItNames) {
  join("digits: 1");
  EXPECT_EQ(join("").settings(), "digits: 1");
  join("mnist: 1");
  Contact& unsure = join("");
  EXPECT_EQ(unsure.state(), Contact::State::kSearching);
  for (const char* part : {"'digits', agents: 2", "'mnist', agents: 1", "--swarm"}) {
    EXPECT_TRUE(contains(unsure.waiting_for(), part)) << unsure.waiting_for();
  }
  EXPECT_EQ(join("", swarm_id_of("mnist: 1")).settings(), "mnist: 1");
}

// It may be added to a swarm that trains, and start again when its members know it no more.
TEST_F(RegistryTest, ItAsksTheAddressesThatItWasToldForTheirSwarm) {
  for (const std::string settings : {"digits: 1", "unreadable"}) {
    world.settings = settings;
    World::Node& member = world.add();
    const uint32_t nobody = 250;
    start(0, {endpoint_of(nobody), endpoint_of(member.number)});
    world.run_for(seconds(4));
    const bool good = settings != "unreadable";
    ASSERT_EQ(registry->swarm_count(), good ? 1u : 0u);
    const std::vector<std::string> troubles = registry->take_troubles();
    ASSERT_EQ(troubles.size(), good ? 0u : 1u);
    if (!good) {
      EXPECT_TRUE(contains(troubles.front(), "cannot serve the swarm there: no colon")) << troubles.front();
      continue;
    }
    EXPECT_EQ(member.members().alive().size(), 1u) << "which knows the registry";
    EXPECT_EQ(join("").settings(), settings);
    member.up = false;
    newest().up = false;
    world.run_for(minutes(2));
    EXPECT_EQ(registry->swarm_count(), 0u);
    member.up = true;
    world.run_for(seconds(5));
    EXPECT_EQ(registry->swarm_count(), 1u) << "it asks again";
  }
}

TEST_F(RegistryTest, ItSaysOnceThatNobodyAnswersOrWhyThereIsNoSwarm) {
  start(0, {endpoint_of(250)});
  world.run_for(seconds(30));
  const std::vector<std::string> troubles = registry->take_troubles();
  ASSERT_EQ(troubles.size(), 1u);
  EXPECT_TRUE(contains(troubles.front(), "no agent answers at " + endpoint_of(250).to_string())) << troubles.front();
  world.run_for(minutes(1));
  EXPECT_TRUE(registry->take_troubles().empty());
}

TEST_F(RegistryTest, WithoutASwarmNewcomersWait) {
  Contact& waiting = join("");
  EXPECT_EQ(waiting.state(), Contact::State::kSearching);
  EXPECT_TRUE(contains(waiting.waiting_for(), "no living swarm yet")) << waiting.waiting_for();
  EXPECT_TRUE(contains(waiting.waiting_for(), endpoint_of(kRegistry).to_string()));
  join("digits: 1");
  EXPECT_TRUE(world.run_until([&] { return waiting.state() == Contact::State::kAnswered; }, seconds(10)));
}

// Whoever comes first with a text that nobody can use would take the registry from its swarm.
TEST_F(RegistryTest, SettingsThatCannotBeReadAreNotAdopted) {
  Contact& poisoned = join("poisoned");
  EXPECT_EQ(registry->swarm_count(), 0u);
  EXPECT_TRUE(contains(poisoned.waiting_for(), "no colon")) << poisoned.waiting_for();
  EXPECT_EQ(join("digits: 1").state(), Contact::State::kAnswered);
}

TEST_F(RegistryTest, APinnedRegistryServesOneSwarm) {
  start(swarm_id_of("digits: 1"));
  Contact& early = join("mnist: 1");
  EXPECT_EQ(registry->swarm_count(), 0u) << "it came first, and decides nothing";
  EXPECT_TRUE(contains(early.waiting_for(), "alone")) << early.waiting_for();
  EXPECT_EQ(join("digits: 1").state(), Contact::State::kAnswered);
  Contact& other = join("mnist: 2");
  EXPECT_TRUE(contains(other.waiting_for(), "here: mnist:2 there: digits:1")) << other.waiting_for();
  EXPECT_EQ(join("").settings(), "digits: 1");
  EXPECT_EQ(registry->swarm_count(), 1u);
}

TEST_F(RegistryTest, TheSameSettingsInOtherWordsAreOneSwarm) {
  join("digits: 1");
  EXPECT_EQ(join("digits:  1").settings(), "digits: 1");
  EXPECT_EQ(registry->swarm_count(), 1u);
}

// A typing error in a config must not make a swarm of one.
TEST_F(RegistryTest, OtherSettingsUnderANameThatIsServedAreRefusedWithBothSides) {
  join("digits: 1");
  Contact& mistyped = join("digits: 2");
  EXPECT_EQ(mistyped.state(), Contact::State::kSearching) << "others might still answer";
  EXPECT_TRUE(contains(mistyped.waiting_for(), "here: digits:2 there: digits:1")) << mistyped.waiting_for();
  EXPECT_EQ(registry->swarm_count(), 1u);
  EXPECT_TRUE(world.run_until([&] { return mistyped.state() == Contact::State::kRefused; }, seconds(10)));
  EXPECT_TRUE(contains(mistyped.refusal(), fmt::format("--swarm {:016x}", swarm_id_of("digits: 2"))));
  EXPECT_EQ(join("digits: 2", 7).state(), Contact::State::kSearching) << "it names another one";
  EXPECT_EQ(join("digits: 2", swarm_id_of("digits: 2")).state(), Contact::State::kAnswered);
  EXPECT_EQ(registry->swarm_count(), 2u);
}

// A registry that restarted empty may hear of another swarm of that name first.
TEST_F(RegistryTest, ASwarmThatTrainsAlreadyIsServedBesideItsNamesake) {
  join("digits: 1");
  World::Node& trains = world.add(World::trained(1000));
  Contact& contact = world.join(trains, {endpoint_of(kRegistry)}, "digits: 2");
  world.run_for(seconds(3));
  EXPECT_EQ(contact.state(), Contact::State::kAnswered);
  EXPECT_EQ(registry->swarm_count(), 2u);
  EXPECT_EQ(join("digits: 2").state(), Contact::State::kAnswered);
}

TEST_F(RegistryTest, ANameWithoutMembersIsFree) {
  join("digits: 1");
  newest().up = false;
  world.run_for(minutes(3));
  EXPECT_EQ(join("digits: 2").state(), Contact::State::kAnswered);
}

// A typing error in a config makes a swarm of one; both sides hear in what they differ.
TEST_F(RegistryTest, SwarmsOfOneNameAreToldOfEachOther) {
  std::vector<std::string> notes;
  world.network.set_filter([&](PassingFrame& frame) {
    if (const auto* reply = message_as<JoinReply>(frame.message)) notes.push_back(reply->note);
  });
  join("digits: 1");
  ASSERT_FALSE(notes.empty());
  EXPECT_EQ(notes.back(), "");
  join("digits: 2", swarm_id_of("digits: 2"));
  EXPECT_TRUE(contains(notes.back(), "here: digits:2 there: digits:1")) << notes.back();
  join("digits: 1");
  EXPECT_TRUE(contains(notes.back(), "here: digits:1 there: digits:2")) << notes.back();
}

// Silence would let it ask for ever. Its program reads the answer, which is of its own version.
TEST_F(RegistryTest, ANewcomerOfAnOlderProgramHearsBothVersionsAndWhatToDo) {
  join("digits: 1");
  world.run_for(std::chrono::seconds(1));
  for (const std::string settings : {"", "mnist: 1"}) {  // of a swarm that is served, and of none
    World::Node& older = world.add(World::joining());
    older.spoil = [](Message& message, SharedBytes&) {
      if (auto* join = message_as<Join>(message)) join->revision = 0;
      return true;
    };
    Contact& contact = world.join(older, {endpoint_of(kRegistry)}, settings);
    EXPECT_TRUE(world.run_until([&] { return contact.refused_by_some(); }, std::chrono::seconds(2)));
    const std::string text = contact.waiting_for();
    EXPECT_TRUE(contains(text, "version 2.2 of the protocol and yours version 2.0: update the newcomer's")) << text;
  }
  EXPECT_EQ(registry->swarm_count(), 1u);
  EXPECT_GE(registry->counters().joins_older, 2u);
}

TEST_F(RegistryTest, ANewcomerOfAnotherVersionHearsWhichAndWhatToDo) {
  join("digits: 1");
  const auto version_at = [](std::vector<std::byte>& header) { return header.data() + 4; };
  for (const uint16_t version : {uint16_t{kProtocolVersion - 1}, uint16_t{kProtocolVersion + 1}}) {
    const FrameHeader header{0, peer_of(400), 1, endpoint_of(400)};
    const std::unique_ptr<Transport> stranger = world.network.open(header.reply_to);
    std::vector<std::byte> asked = encode_frame_header(header, Join{record_of(400), "", 77}, {});
    std::memcpy(version_at(asked), &version, sizeof version);
    EXPECT_EQ(stranger->send(endpoint_of(kRegistry), Channel::kControl, {asked, {}}), SendStatus::kQueued);
    world.run_for(std::chrono::milliseconds(20));
    const std::optional<ReceivedFrame> answer = stranger->poll();
    ASSERT_TRUE(answer) << "version " << version;
    std::vector<std::byte> bytes(answer->header.span().begin(), answer->header.span().end());
    EXPECT_EQ(std::memcmp(version_at(bytes), &version, sizeof version), 0);
    std::memcpy(version_at(bytes), &kProtocolVersion, sizeof kProtocolVersion);
    FrameHeader from;
    Message message;
    ASSERT_EQ(decode_frame(Channel::kControl, bytes, {}, &from, &message), DecodeStatus::kOk);
    EXPECT_EQ(from.sender, peer_of(kRegistry));
    const auto* refused = message_as<JoinRefused>(message);
    ASSERT_NE(refused, nullptr);
    EXPECT_EQ(refused->nonce, 77u);
    const std::string whose = version < kProtocolVersion ? "newcomer's" : "swarm's";
    EXPECT_TRUE(contains(refused->reason, "update the " + whose + " program")) << refused->reason;
    EXPECT_TRUE(contains(refused->reason, fmt::format("speaks version {}", kProtocolVersion))) << refused->reason;
    EXPECT_TRUE(contains(refused->reason, fmt::format("yours version {}", version))) << refused->reason;
  }
  EXPECT_EQ(registry->counters().joins_refused, 2u);
  EXPECT_EQ(registry->counters().undecoded[static_cast<size_t>(DecodeStatus::kWrongVersion)], 2u);
  EXPECT_EQ(registry->swarm_count(), 1u);
}

TEST_F(RegistryTest, ItsSwarmsAreBoundedAndTheEmptyOnesMakeRoom) {
  const auto ask = [&](const std::string& settings, uint32_t number) {
    const FrameHeader header{swarm_id_of(settings),
                             peer_of(number),
                             1,
                             {"10.9." + std::to_string(number >> 8) + "." + std::to_string(number & 255), 7400}};
    const std::unique_ptr<Transport> stranger = world.network.open(header.reply_to);
    PeerRecord record = record_of(number);
    record.endpoint = header.reply_to;
    world.last_cookie = 0;
    for (int i = 0; i < 2; ++i) {  // again with the cookie that the first one is answered with
      const Message message = Join{record, settings, 1, world.last_cookie};
      Frame frame{encode_frame_header(header, message, {}), {}};
      EXPECT_EQ(stranger->send(endpoint_of(kRegistry), Channel::kControl, std::move(frame)), SendStatus::kQueued);
      world.run_for(std::chrono::milliseconds(20));
    }
  };
  for (uint32_t i = 0; i < 2 * kRegistrySwarmsMax; ++i) ask("s" + std::to_string(i) + ": 1", 400 + i);
  EXPECT_EQ(registry->swarm_count(), kRegistrySwarmsMax);
  EXPECT_EQ(registry->counters().joins_refused, kRegistrySwarmsMax);
  world.run_for(minutes(3));  // the strangers answer no probe, and die
  EXPECT_EQ(registry->swarm_count(), 0u);
  EXPECT_EQ(forgotten.size(), kRegistrySwarmsMax);
  EXPECT_EQ(join("digits: 1").state(), Contact::State::kAnswered);
}

TEST_F(RegistryTest, ASwarmIsForgottenAMinuteAfterItsLastMember) {
  join("digits: 1");
  World::Node& last = newest();
  join("mnist: 1");
  last.members().announce_leave();
  world.run_for(seconds(1));
  last.up = false;
  world.run_for(seconds(50));
  EXPECT_EQ(registry->swarm_count(), 2u) << "an agent that starts again finds its swarm";
  world.run_for(seconds(15));
  EXPECT_EQ(registry->swarm_count(), 1u);
  EXPECT_EQ(forgotten, (std::vector<std::string>{"digits"}));
  EXPECT_NE(registry->find(swarm_id_of("mnist: 1")), nullptr);
}

// Nobody there could give the model.
TEST_F(RegistryTest, AnEmptySwarmIsOfferedToNobodyThatNamesNone) {
  join("digits: 1");
  World::Node& last = newest();
  last.members().announce_leave();
  world.run_for(seconds(1));
  last.up = false;
  Contact& early = join("");
  EXPECT_EQ(early.state(), Contact::State::kSearching);
  EXPECT_TRUE(contains(early.waiting_for(), "no living swarm")) << early.waiting_for();
  newest().up = false;
  join("digits: 2");  // the same name, and no note of the empty one
  EXPECT_EQ(registry->swarm_count(), 2u);
  EXPECT_EQ(join("").settings(), "digits: 2") << "the only living one";
  join("mnist: 1");
  Contact& unsure = join("");
  EXPECT_TRUE(contains(unsure.waiting_for(), "'mnist', agents: 1")) << unsure.waiting_for();
  EXPECT_FALSE(contains(unsure.waiting_for(), "agents: 0")) << unsure.waiting_for();
  EXPECT_EQ(join("", swarm_id_of("digits: 1")).settings(), "digits: 1") << "it is named";
}

// It holds no key that signs settings, passes on what others signed, and signs its own record.
TEST_F(RegistryTest, OfASwarmWithTicketsTakesSettingsOfItsKeyAlone) {
  const Identity swarm = identity_of(1), another = identity_of(9);
  const MemberKeys own(identity_of(2), admit(swarm, {.id = identity_of(2).id()})), first_keys(identity_of(3), swarm),
      second_keys(identity_of(4), swarm);
  transport.reset();
  registry.reset();
  transport = world.network.open(endpoint_of(kRegistry));
  PeerRecord self = record_of(kRegistry);
  self.meta.role = Role::kBootstrap;
  self.id = own.self();
  const auto read_signed = [&](const std::string& text, const std::string& signature) {
    SettingsRead found = read(text, signature);
    if (!is_signed_settings(swarm.id(), text, signature)) found.problem = "not signed";
    return found;
  };
  RegistryOptions options{self, {}, 5, 0, compare, read_signed};
  options.keys = &own;
  registry = std::make_unique<Registry>(options, *transport, world.clock);

  const std::string text = "a: 1", signature = sign_settings(swarm, text);
  World::Node& first = world.add(World::joining(), &first_keys);
  Contact& lies = world.join(first, {endpoint_of(kRegistry)}, text, sign_settings(another, text));
  world.run_for(seconds(3));
  EXPECT_NE(lies.state(), Contact::State::kAnswered);
  EXPECT_TRUE(contains(lies.waiting_for(), "not signed")) << lies.waiting_for();
  EXPECT_EQ(registry->swarm_count(), 0u);

  Contact& brings = world.join(first, {endpoint_of(kRegistry)}, text, signature);
  World::Node& second = world.add(World::joining(), &second_keys);
  ASSERT_TRUE(world.run_until([&] { return brings.state() == Contact::State::kAnswered; }, seconds(5)));
  Contact& adopts = world.join(second, {endpoint_of(kRegistry)});
  ASSERT_TRUE(world.run_until([&] { return adopts.state() == Contact::State::kAnswered; }, seconds(5)));
  EXPECT_EQ(adopts.signature(), signature);
  world.run_for(seconds(3));
  for (World::Node* node : {&first, &second}) {
    EXPECT_EQ(node->members().alive().size(), 2u) << "the other one, and the registry";
    EXPECT_EQ(node->members().counters().records_forged, 0u);
  }
}

// Two registries of one identity, the second one with a copy of the first one's folder.
class RegistryTwinTest : public RegistryTest {
 protected:
  static constexpr uint32_t kCopy = 301;

  RegistryTwinTest() {
    begin(kRegistry, 100, std::nullopt, &transport, &registry);
    world.settings = "digits: 1";
    member = &world.add(World::joining());
    world.join(*member, {endpoint_of(kRegistry)}, "digits: 1");
    world.run_for(seconds(3));
    world.each_step = [this] {
      registry->tick(*this);
      if (copy) copy->tick(copies);
    };
  }
  void begin(uint32_t number, uint64_t generation, std::optional<Endpoint> last_address,
             std::unique_ptr<Transport>* own_transport, std::unique_ptr<Registry>* own) {
    own->reset();
    own_transport->reset();
    *own_transport = world.network.open(endpoint_of(number));
    PeerRecord self = record_of(number);
    self.id = identity.id();
    self.version = {generation, 0};
    self.meta.role = Role::kBootstrap;
    RegistryOptions options{self, {}, 5, 0, compare, read};
    if (member) options.seeds = {endpoint_of(member->number)};
    options.sign = [this](std::span<const std::byte> text) { return identity.sign(text); };
    options.last_address = last_address;
    *own = std::make_unique<Registry>(options, **own_transport, world.clock);
  }
  void begin_copy(std::optional<Endpoint> last_address) {
    begin(kCopy, 200, last_address, &copy_transport, &copy);
    world.run_for(seconds(2));
  }
  bool member_holds(uint64_t generation) {
    const Member* held = member->members().find(identity.id());
    return held && held->state == MemberState::kAlive && held->record.version.generation == generation;
  }

  struct Unheard final : Registry::Listener {
    void on_swarm(const std::string&, uint64_t) override {}
    void on_member(const Membership&, const MemberEvent&) override {}
  };
  const Identity identity = identity_of(7);
  World::Node* member = nullptr;
  std::unique_ptr<Transport> copy_transport;
  std::unique_ptr<Registry> copy;
  Unheard copies;
};

TEST_F(RegistryTwinTest, ACopyOfItsFolderEndsBeforeAnyMemberHearsOfIt) {
  begin_copy(endpoint_of(kRegistry));
  EXPECT_TRUE(contains(copy->twins().must_end(false), "in use at " + endpoint_of(kRegistry).to_string()));
  EXPECT_EQ(copy->swarm_count(), 0u);
  EXPECT_TRUE(contains(registry->twins().take_notice(), "in use at " + endpoint_of(kCopy).to_string()));
  EXPECT_EQ(registry->twins().must_end(false), "");
  EXPECT_TRUE(member_holds(100));
  copy.reset();
  world.run_for(minutes(1));
  EXPECT_EQ(registry->twins().overtaken(), 0u);
}

TEST_F(RegistryTwinTest, ThePlaceOfACopyThatWasAMemberIsTakenBack) {
  begin_copy(std::nullopt);
  ASSERT_TRUE(member_holds(200));
  ASSERT_TRUE(world.run_until([&] { return !copy->twins().must_end(false).empty(); }, seconds(10)));
  world.run_for(seconds(5));
  EXPECT_EQ(registry->twins().overtaken(), 0u) << "it still answers";
  copy->announce_leave();
  copy.reset();
  world.run_for(seconds(1));
  EXPECT_EQ(registry->twins().overtaken(), 200u);
  EXPECT_TRUE(contains(registry->twins().must_begin_again(300), "ran at " + endpoint_of(kCopy).to_string()));
  begin(kRegistry, 201, endpoint_of(kRegistry), &transport, &registry);
  world.run_for(seconds(5));
  EXPECT_TRUE(member_holds(201));
}

// Members hold an ended copy, and refuse the registry before it has a swarm. A copy that they refuse asks the registry.
TEST_F(RegistryTwinTest, WhatMembersHoldOfAnotherProcessIsHeardWithoutASwarm) {
  begin_copy(std::nullopt);
  ASSERT_TRUE(member_holds(200));
  copy.reset();
  begin(kRegistry, 150, endpoint_of(kRegistry), &transport, &registry);
  world.run_for(seconds(8));
  EXPECT_EQ(registry->swarm_count(), 0u);
  EXPECT_EQ(registry->twins().overtaken(), 200u);
  begin(kRegistry, 201, endpoint_of(kRegistry), &transport, &registry);
  ASSERT_TRUE(world.run_until([&] { return member_holds(201); }, seconds(10)));

  begin(kCopy, 180, std::nullopt, &copy_transport, &copy);
  ASSERT_TRUE(world.run_until([&] { return !registry->twins().must_end(false).empty(); }, seconds(10)))
      << "by their numbers it is the later one";
}

}  // namespace
}  // namespace starling
