// Finding anybody, and what is said when nobody or the wrong one answers.
#include <gtest/gtest.h>

#include <set>

#include "gossip/net/member_keys.h"
#include "tests/bootstrap/world.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Contact, AnyMemberLetsANewcomerIn) {
  for (uint32_t entrance = 0; entrance < 3; ++entrance) {
    World world;
    for (int i = 0; i < 3; ++i) world.add().router.set_settings("digits");
    world.introduce_all();
    World::Node& newcomer = world.add(World::joining());
    Contact& contact = world.join(newcomer, {endpoint_of(200), endpoint_of(entrance), endpoint_of(201)});
    ASSERT_TRUE(world.run_until([&] { return contact.state() == Contact::State::kAnswered; }, seconds(1)));
    EXPECT_EQ(contact.settings(), "digits");
    EXPECT_EQ(newcomer.members().alive().size(), 3u);
    for (uint32_t i = 0; i < 3; ++i) {  // the others are what it says of them
      EXPECT_EQ(newcomer.members().find(peer_of(i))->proven, i == entrance);
    }
    ASSERT_TRUE(world.run_until(
        [&] {
          for (auto& node : world.nodes) {
            if (node->members().alive().size() != 3) return false;
          }
          return true;
        },
        seconds(2)));
    EXPECT_EQ(contact.next_deadline(), TimePoint::max());
    EXPECT_EQ(world.nodes[entrance]->router.counters().joins, 1u);
  }
}

TEST(Contact, OtherSettingsAreRefusedWithBothSides) {
  World world;
  World::Node& member = world.add();
  member.router.set_settings("codec: bf16");
  World::Node& newcomer = world.add(World::joining());
  Contact& contact = world.join(newcomer, {endpoint_of(0)}, "codec: modulo8");
  ASSERT_TRUE(world.run_until([&] { return contact.state() == Contact::State::kRefused; }, seconds(12)));
  for (const char* part : {"here: codec:modulo8", "there: codec:bf16", "10.0.0.0:7400"}) {
    EXPECT_TRUE(contains(contact.refusal(), part)) << contact.refusal();
  }
  EXPECT_TRUE(contains(contact.refusal(), member.members().self().id.short_name()));
  EXPECT_GE(member.router.counters().joins_refused, 1u);
  EXPECT_EQ(member.members().find(peer_of(1)), nullptr);
  const uint64_t asked = newcomer.joins_sent;
  world.run_for(seconds(20));
  EXPECT_EQ(newcomer.joins_sent, asked) << "asking again changes nothing";
}

// One address of another swarm ends nothing while another may still answer.
TEST(Contact, AnAddressOfAnotherSwarmIsPassedOver) {
  World world;
  world.add().router.set_settings("codec: bf16");
  world.add().router.set_settings("codec: modulo8");
  world.network.cut(endpoint_of(1), endpoint_of(2));  // answers later than the other swarm
  World::Node& newcomer = world.add(World::joining());
  Contact& contact = world.join(newcomer, {endpoint_of(0), endpoint_of(1)}, "codec: modulo8");
  ASSERT_TRUE(world.run_until([&] { return contact.refused_by_some(); }, seconds(2)));
  EXPECT_EQ(contact.state(), Contact::State::kSearching);
  EXPECT_TRUE(contains(contact.waiting_for(), "there: codec:bf16")) << contact.waiting_for();
  world.network.heal_all();
  ASSERT_TRUE(world.run_until([&] { return contact.state() != Contact::State::kSearching; }, seconds(4)));
  EXPECT_EQ(contact.state(), Contact::State::kAnswered);
  EXPECT_EQ(contact.settings(), "codec: modulo8");

  World::Node& other = world.add(World::joining());
  Contact& refused = world.join(other, {endpoint_of(0), endpoint_of(200)}, "codec: modulo8");
  ASSERT_TRUE(world.run_until([&] { return refused.state() == Contact::State::kRefused; }, seconds(12)));
}

// Where a member of an earlier life listened another swarm may be by now, which is no reason to end.
TEST(Contact, AMemberOfAnEarlierLifeLetsAnAgentInAndNeverEndsIt) {
  World world;
  world.add().router.set_settings("codec: bf16");
  world.add().router.set_settings("codec: modulo8");
  world.network.cut(endpoint_of(1), endpoint_of(2));
  World::Node& returned = world.add(World::joining());
  ContactOptions options{.bootstrap = {endpoint_of(200)},
                         .known = {endpoint_of(0), endpoint_of(1), endpoint_of(200), endpoint_of(2)},
                         .settings = "codec: modulo8",
                         .compare = compare};
  EXPECT_EQ(all_addresses(options).size(), 4u);
  returned.router.set_settings(options.settings);
  returned.contact = std::make_unique<Contact>(options, returned.members(), world.clock, returned.router, 77, 77);
  Contact& contact = *returned.contact;
  world.run_for(seconds(15));
  EXPECT_EQ(contact.state(), Contact::State::kSearching) << contact.refusal();
  EXPECT_FALSE(contact.refused_by_some());
  world.network.heal_all();
  ASSERT_TRUE(world.run_until([&] { return contact.state() == Contact::State::kAnswered; }, seconds(6)));
}

// Whoever is asked a few times, at addresses of its own, could else reckon what others were asked with.
TEST(Contact, TheNumbersOfJoinsAreNotTheGenerators) {
  World world;
  World::Node& newcomer = world.add(World::joining());
  std::set<uint64_t> nonces;
  newcomer.spoil = [&](Message& message, SharedBytes&) {
    if (const auto* join = message_as<Join>(message)) nonces.insert(join->nonce);
    return true;
  };
  world.join(newcomer, {endpoint_of(200), endpoint_of(201), endpoint_of(202)});  // with the seed 77
  world.run_for(seconds(5));
  EXPECT_EQ(nonces.size(), 3u) << "one for each address";
  Rng outer(77);
  for (int i = 0; i < 10; ++i) {
    const uint64_t number = outer.next_u64();
    Rng inner(number);
    EXPECT_FALSE(nonces.contains(number));
    for (int k = 0; k < 1000; ++k) EXPECT_FALSE(nonces.contains(inner.next_u64()));
  }
}

// Of a swarm with tickets; one member passes on settings of its own making, and one an older text with its signature.
TEST(Contact, SettingsThatTheSwarmsKeyDidNotSignArePassedOver) {
  const Identity swarm(KeySeed{1}), liar(KeySeed{2});
  World world;
  world.add().router.set_settings("forged", sign_settings(liar, "forged"));
  world.add().router.set_settings("another", sign_settings(swarm, "digits"));
  world.add().router.set_settings("digits");
  world.add().router.set_settings("digits", sign_settings(swarm, "digits"));
  world.network.cut(endpoint_of(3), endpoint_of(4));
  ContactOptions options{.bootstrap = {endpoint_of(0), endpoint_of(1), endpoint_of(2), endpoint_of(3)}};
  options.problem_of = [&](const std::string& text, const std::string& signature) {
    return is_signed_settings(swarm.id(), text, signature) ? "" : "the swarm's key has not signed them";
  };
  World::Node& newcomer = world.add(World::joining());
  newcomer.contact = std::make_unique<Contact>(options, newcomer.members(), world.clock, newcomer.router, 77, 77);
  Contact& contact = *newcomer.contact;
  world.run_for(seconds(5));
  EXPECT_EQ(contact.state(), Contact::State::kSearching);
  EXPECT_TRUE(contains(contact.waiting_for(), "the swarm's key has not signed them")) << contact.waiting_for();
  EXPECT_TRUE(newcomer.members().all().empty());
  for (uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(contains(contact.refusal(), endpoint_of(i).to_string())) << i;
  world.network.heal_all();
  ASSERT_TRUE(world.run_until([&] { return contact.state() == Contact::State::kAnswered; }, seconds(6)));
  EXPECT_EQ(contact.settings(), "digits");
  EXPECT_EQ(contact.signature(), sign_settings(swarm, "digits")) << "to be passed on";
}

TEST(Contact, SettingsThatCannotBeReadArePassedOver) {
  World world;
  world.add().router.set_settings("newer");
  world.add().router.set_settings("readable");
  world.network.cut(endpoint_of(1), endpoint_of(2));
  ContactOptions options{.bootstrap = {endpoint_of(0), endpoint_of(1)}};
  options.problem_of = [](const std::string& text, const std::string&) {
    return text == "newer" ? "a key of the future" : "";
  };
  World::Node& newcomer = world.add(World::joining());
  const auto join = [&] {
    newcomer.router.set_settings("");
    newcomer.contact = std::make_unique<Contact>(options, newcomer.members(), world.clock, newcomer.router, 77, 77);
  };
  join();
  ASSERT_TRUE(world.run_until([&] { return newcomer.contact->refused_by_some(); }, seconds(2)));
  EXPECT_TRUE(contains(newcomer.contact->waiting_for(), "a key of the future"));
  world.network.heal_all();
  ASSERT_TRUE(world.run_until([&] { return newcomer.contact->state() == Contact::State::kAnswered; }, seconds(4)));
  EXPECT_EQ(newcomer.contact->settings(), "readable");

  options.bootstrap = {endpoint_of(0)};  // nobody is left
  join();
  ASSERT_TRUE(world.run_until([&] { return newcomer.contact->state() == Contact::State::kRefused; }, seconds(12)));
  for (const char* part : {"a key of the future", "10.0.0.0:7400", "--bootstrap"}) {
    EXPECT_TRUE(contains(newcomer.contact->refusal(), part)) << newcomer.contact->refusal();
  }
}

TEST(Contact, TheSameSettingsInOtherWordsAreTheMembers) {
  for (const Phase phase : {Phase::kTraining, Phase::kJoining}) {
    World world;
    World::Node& member = world.add({.phase = phase});
    member.router.set_settings("codec:  bf16");  // the smaller text: of two that begin together it stays
    World::Node& newcomer = world.add(World::joining());
    Contact& contact = world.join(newcomer, {endpoint_of(0)}, "codec: bf16");
    ASSERT_TRUE(world.run_until([&] { return contact.state() == Contact::State::kAnswered; }, seconds(1)));
    EXPECT_EQ(contact.settings(), "codec:  bf16");
    EXPECT_EQ(member.router.settings(), "codec:  bf16");
    EXPECT_EQ(member.router.counters().joins_refused, 0u);
  }
}

// Each would take the words of the other, and they would still not have the same.
TEST(Contact, OfTwoThatBeginTogetherOneKeepsItsWords) {
  World world;
  const std::string texts[] = {"codec:  bf16", "codec: bf16"};
  for (int i = 0; i < 2; ++i) world.add(World::joining());
  Contact& first = world.join(*world.nodes[0], {endpoint_of(1)}, texts[0]);
  Contact& second = world.join(*world.nodes[1], {endpoint_of(0)}, texts[1]);
  ASSERT_TRUE(world.run_until(
      [&] { return first.state() == Contact::State::kAnswered && second.state() == Contact::State::kAnswered; },
      seconds(20)));
  EXPECT_EQ(first.settings(), texts[0]);
  EXPECT_EQ(second.settings(), texts[0]);
}

TEST(Contact, ALongRefusalIsCutToWhatAFrameMayCarry) {
  World world;
  World::Node& member = world.add();
  member.router.set_settings(std::string(kSettingsBytesMax, 'a'));
  World::Node& newcomer = world.add(World::joining());
  size_t reason_bytes = 0;
  member.spoil = [&](Message& message, SharedBytes&) {
    if (const auto* refused = message_as<JoinRefused>(message)) reason_bytes = refused->reason.size();
    return true;
  };
  Contact& contact = world.join(newcomer, {endpoint_of(0)}, std::string(kSettingsBytesMax, 'b'));
  ASSERT_TRUE(world.run_until([&] { return contact.state() == Contact::State::kRefused; }, seconds(12)));
  EXPECT_EQ(reason_bytes, kReasonBytesMax);
}

TEST(Contact, ASeedWithANameMayHaveNoNumberNow) {
  World world;
  Contact& contact = world.join(world.add(World::joining()), {{"seed.example.com", 7400}});
  world.run_for(seconds(5));
  EXPECT_TRUE(contains(contact.waiting_for(), "getent hosts seed.example.com")) << contact.waiting_for();
}

TEST(Contact, ASeedThatAppearsLateIsFound) {
  World world;
  World::Node& seed = world.add();
  seed.router.set_settings("digits");
  seed.up = false;
  World::Node& newcomer = world.add(World::joining());
  Contact& contact = world.join(newcomer, {endpoint_of(0), endpoint_of(9)});
  world.run_for(seconds(60));
  EXPECT_EQ(contact.state(), Contact::State::kSearching);
  const std::string text = contact.waiting_for();
  for (const char* part : {"10.0.0.0:7400", "10.0.0.9:7400", "60 s"}) {
    EXPECT_TRUE(contains(text, part)) << text;
  }
  EXPECT_FALSE(contains(text, "name server")) << text;
  EXPECT_GE(newcomer.joins_sent, 2u * 15);  // both addresses, at least every 5 s
  EXPECT_LE(newcomer.joins_sent, 2u * 60);
  seed.up = true;
  EXPECT_TRUE(world.run_until([&] { return contact.state() == Contact::State::kAnswered; }, seconds(6)));
}

// Anybody can send an answer. Only one that repeats the number of a Join comes from an address that was asked.
TEST(Contact, AnswersOfThoseThatWereNotAskedCountForNothing) {
  World world;
  World::Node& newcomer = world.add(World::joining());
  Contact& contact = world.join(newcomer, {endpoint_of(200)}, "digits");
  const FrameHeader header{0, peer_of(99), 1, endpoint_of(99)};
  for (const uint64_t nonce : {0u, 1u}) {
    world.post(header, JoinRefused{"go away", "x", nonce}, newcomer);
    world.post(header, JoinReply{"digits", {record_of(99)}, "", nonce}, newcomer);
    world.post(header, JoinCookie{1, nonce}, newcomer);
    world.run_for(seconds(15));
  }
  EXPECT_EQ(contact.state(), Contact::State::kSearching);
  EXPECT_FALSE(contact.refused_by_some());
  EXPECT_TRUE(newcomer.members().all().empty());
}

// One address that refuses, or answers nonsense, ends nothing before others have had their time.
TEST(Contact, ARefusalWaitsForTheOthers) {
  World world;
  world.add().router.set_settings("codec: bf16");
  World::Node& late = world.add();
  late.router.set_settings("codec: modulo8");
  late.up = false;
  World::Node& newcomer = world.add(World::joining());
  Contact& contact = world.join(newcomer, {endpoint_of(0), endpoint_of(1)}, "codec: modulo8");
  world.run_for(seconds(4));
  EXPECT_TRUE(contact.refused_by_some());
  EXPECT_EQ(contact.state(), Contact::State::kSearching);
  late.up = true;
  EXPECT_TRUE(world.run_until([&] { return contact.state() == Contact::State::kAnswered; }, seconds(6)));
}

TEST(Contact, ItsOwnAddressIsNotAsked) {
  World world;
  World::Node& newcomer = world.add(World::joining());
  Contact& contact = world.join(newcomer, {endpoint_of(0)});
  world.run_for(seconds(5));
  EXPECT_EQ(newcomer.joins_sent, 0u);
  EXPECT_EQ(contact.state(), Contact::State::kSearching);
  const std::string told = endpoint_of(0).to_string() + " is this agent's own address: no address to join through";
  EXPECT_TRUE(contains(contact.waiting_for(), told)) << contact.waiting_for();
}

TEST(Donor, NobodyJoinsForAnother) {
  World world;
  World::Node& member = world.add();
  member.router.set_settings("digits");
  world.post({.sender = peer_of(5), .generation = 1, .reply_to = endpoint_of(5)}, Join{record_of(6), ""}, member);
  member.refusals_expected = true;
  world.run_for(milliseconds(2));
  EXPECT_EQ(member.router.counters().frames_refused(), 1u);
  EXPECT_TRUE(member.members().all().empty());
  EXPECT_EQ(member.router.counters().joins, 0u);
}

TEST(Donor, AMemberThatRestartedJoinsAgain) {
  World world;
  World::Node& member = world.add();
  member.router.set_settings("digits");
  for (const uint64_t generation : {1u, 2u}) {
    world.post_join({.sender = peer_of(5), .generation = generation, .reply_to = endpoint_of(5)},
                    Join{record_of(5, generation), "digits"}, member);
  }
  ASSERT_EQ(member.events.size(), 2u);
  EXPECT_EQ(member.events[0].kind, MemberEventKind::kJoined);
  EXPECT_EQ(member.events[1].kind, MemberEventKind::kRestarted);
}

// A checkpoint of long ago would set a newcomer back, and at its full mass the others with it.
TEST(Donor, GivesNoModelMuchOlderThanItsSteps) {
  World world;
  World::Node& member = world.add();
  Donor& donor = member.donor();
  uint64_t offered_bytes = 0;
  member.spoil = [&](Message& message, SharedBytes&) {
    if (const auto* offer = message_as<ModelOffer>(message)) offered_bytes = offer->total_bytes;
    return true;
  };
  member.router.set_settings("digits");
  const FrameHeader asks{swarm_id_of("digits"), peer_of(5), 1, {"10.9.9.9", 7400}};
  const auto ask = [&] {
    offered_bytes = 0;
    for (int i = 0; i < 2; ++i) {  // again with the cookie that the first one is answered with
      world.post(asks, ModelRequest{0, world.last_cookie}, member);
      world.run_for(milliseconds(10));
    }
    return offered_bytes > 0;
  };
  donor.set_model(random_model(1, 1000, 3000));
  donor.set_steps(1050);
  EXPECT_TRUE(ask());
  EXPECT_FALSE(donor.wants_newer(world.clock.now()));
  donor.set_steps(2000);
  EXPECT_FALSE(donor.wants_newer(world.clock.now())) << "nobody asks for it";
  EXPECT_FALSE(ask());
  EXPECT_TRUE(donor.wants_newer(world.clock.now()));
  donor.set_model(random_model(2, 2000, 3000));
  EXPECT_FALSE(donor.wants_newer(world.clock.now()));
  EXPECT_TRUE(ask());

  donor.set_steps(5000);
  EXPECT_FALSE(ask());
  EXPECT_TRUE(donor.wants_newer(world.clock.now()));
  world.run_for(seconds(40));
  EXPECT_TRUE(donor.wants_newer(world.clock.now()));
  EXPECT_TRUE(ask()) << "where none can be saved, an old one is better than none";
}

// One host may name any number of addresses, and read from none.
TEST(Donor, BlocksUnderWayAreBoundedForAHostAndInAll) {
  RecordingOutbox outbox;
  Donor donor(outbox);
  donor.set_model(random_model(1, 1000, 20 * kTransferBlockBytes));
  const auto ask = [&](const std::string& host, uint16_t port) {
    for (uint32_t index = 0; index < 20; ++index) {
      donor.handle({.sender = peer_of(5), .generation = 1, .reply_to = {"10.9.9.9", port}},
                   ModelBlockRequest{.snapshot = 1, .index = index}, host);
    }
  };
  for (uint16_t port = 1; port <= 10; ++port) ask("10.9.9.9", port);
  EXPECT_EQ(outbox.sent.size(), 64u);
  for (uint16_t host = 1; host <= 30; ++host) ask("10.8.8." + std::to_string(host), 7400);
  EXPECT_EQ(outbox.sent.size(), 256u);
  outbox.sent.resize(200);  // those of the last host left
  ask("10.9.9.9", 1);
  EXPECT_EQ(outbox.sent.size(), 200u) << "its own are under way still";
  ask("10.7.7.7", 1);
  EXPECT_EQ(outbox.sent.size(), 220u);
  outbox.sent.clear();
  ask("10.9.9.9", 1);
  EXPECT_EQ(outbox.sent.size(), 20u);
}

// At 200 steps a second the model that is saved for a newcomer is old again before it asks once more.
TEST(Donor, WhoAsksForANewerModelGetsTheNextOneHoweverQuickTheStepsAre) {
  RecordingOutbox outbox;
  Donor donor(outbox);
  const FrameHeader asks{.sender = peer_of(5), .generation = 1, .reply_to = endpoint_of(5)};
  TimePoint now{};
  donor.set_model(random_model(1, 1000, 3000));
  donor.set_steps(2000);
  for (int i = 0; i < 3; ++i) donor.handle(asks, ModelRequest{}, endpoint_of(5).host);
  EXPECT_TRUE(donor.wants_newer(now));
  EXPECT_TRUE(outbox.take().empty());
  donor.set_steps(2500);
  donor.set_model(random_model(2, 2010, 3000));
  std::vector<Sent> sent = outbox.take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].address, endpoint_of(5));
  ASSERT_TRUE(message_is<ModelOffer>(sent[0].message));
  EXPECT_EQ(message_as<ModelOffer>(sent[0].message)->steps, 2010u);

  donor.handle(asks, ModelRequest{.first_hash = 1}, endpoint_of(5).host);
  sent = outbox.take();
  ASSERT_EQ(sent.size(), 1u) << "a later page";
  EXPECT_GT(message_as<ModelOffer>(sent[0].message)->total_bytes, 0u);

  for (uint16_t port = 1; port <= 10; ++port) {
    const std::string name = port % 2 ? "10.9.9.9" : "another-name-of-it";
    donor.handle({.sender = peer_of(30), .generation = 1, .reply_to = {name, port}}, ModelRequest{}, "10.9.9.9");
  }
  EXPECT_EQ(outbox.take().size(), 2u) << "half of the places are enough for one host";
  for (uint8_t tag = 1; tag <= 12; ++tag) {
    const FrameHeader other{.sender = peer_of(tag), .generation = 1, .reply_to = endpoint_of(tag)};
    donor.handle(other, ModelRequest{}, endpoint_of(tag).host);
  }
  EXPECT_EQ(outbox.take().size(), 4u) << "so many more than wait here ask again";
  EXPECT_TRUE(donor.wants_newer(now));
  EXPECT_TRUE(outbox.take().empty());
  now += seconds(1);
  EXPECT_TRUE(donor.wants_newer(now));
  sent = outbox.take();
  ASSERT_EQ(sent.size(), 16u) << "nothing was saved: that is told";
  for (const Sent& one : sent) EXPECT_EQ(message_as<ModelOffer>(one.message)->total_bytes, 0u);
}

TEST(Donor, KeepsTheFileBeforeForTransfersInProgress) {
  RecordingOutbox outbox;
  Donor donor(outbox);
  const FrameHeader header{.sender = peer_of(5), .generation = 1, .reply_to = endpoint_of(5)};
  for (uint64_t snapshot = 1; snapshot <= 3; ++snapshot) {
    donor.set_model(random_model(snapshot, 10, 3000));
  }
  for (uint64_t snapshot = 1; snapshot <= 3; ++snapshot) {
    donor.handle(header, ModelBlockRequest{snapshot, 0}, endpoint_of(5).host);
  }
  donor.handle(header, ModelBlockRequest{3, 1}, endpoint_of(5).host);
  const std::vector<Sent> sent = outbox.take();
  ASSERT_EQ(sent.size(), 4u);
  EXPECT_TRUE(message_is<ModelGone>(sent[0].message));
  EXPECT_TRUE(message_is<ModelBlock>(sent[1].message));
  EXPECT_TRUE(message_is<ModelBlock>(sent[2].message));
  EXPECT_EQ(sent[2].payload.size, 3000u);
  EXPECT_TRUE(message_is<ModelGone>(sent[3].message)) << "no such block";
  EXPECT_EQ(donor.counters().blocks_sent, 2u);
  EXPECT_EQ(donor.counters().bytes_sent, 6000u);
  EXPECT_EQ(sent[1].address, endpoint_of(5));
}

// Another program has changed the checkpoint that is served: no block of it is given, and the next one is asked for.
TEST(Donor, ADamagedFileIsPassedOverAndTheNextOneIsSavedSoon) {
  class Damaged final : public ModelFile {
   public:
    explicit Damaged(std::shared_ptr<const ModelFile> before) : before_(std::move(before)) {}
    uint64_t snapshot() const override { return before_->snapshot(); }
    uint64_t round() const override { return before_->round(); }
    uint64_t steps() const override { return before_->steps(); }
    uint64_t total_bytes() const override { return before_->total_bytes(); }
    const std::array<uint8_t, 32>& root() const override { return before_->root(); }
    const std::vector<std::array<uint8_t, 16>>& hashes() const override { return before_->hashes(); }
    SharedBytes block(uint32_t) const override { return {}; }

   private:
    std::shared_ptr<const ModelFile> before_;
  };
  RecordingOutbox outbox;
  Donor donor(outbox);
  const FrameHeader asks{.sender = peer_of(5), .generation = 1, .reply_to = endpoint_of(5)};
  donor.set_model(random_model(1, 1000, 3000));
  donor.set_model(std::make_shared<Damaged>(random_model(2, 1010, 3000)));
  donor.set_steps(1020);
  EXPECT_FALSE(donor.wants_newer({}));
  for (const uint64_t snapshot : {2u, 2u, 1u}) donor.handle(asks, ModelBlockRequest{snapshot, 0}, endpoint_of(5).host);
  std::vector<Sent> sent = outbox.take();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_TRUE(message_is<ModelGone>(sent[0].message));
  EXPECT_TRUE(message_is<ModelGone>(sent[1].message));
  EXPECT_TRUE(message_is<ModelBlock>(sent[2].message)) << "the one before is whole";
  donor.handle(asks, ModelRequest{}, endpoint_of(5).host);
  EXPECT_TRUE(donor.wants_newer({}));
  EXPECT_TRUE(outbox.take().empty()) << "the newcomer waits for it";
  donor.set_model(random_model(3, 1030, 3000));
  sent = outbox.take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(message_as<ModelOffer>(sent[0].message)->steps, 1030u);
  EXPECT_FALSE(donor.wants_newer({}));
}

}  // namespace
}  // namespace starling
