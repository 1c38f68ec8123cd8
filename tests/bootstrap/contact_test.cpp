// Finding anybody, and what is said when nobody or the wrong one answers.
#include <gtest/gtest.h>

#include "tests/bootstrap/town.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Contact, AnyMemberLetsANewcomerIn) {
  for (uint32_t entrance = 0; entrance < 3; ++entrance) {
    Town town;
    for (int i = 0; i < 3; ++i) town.add().donor->set_settings("digits");
    town.introduce_all();
    Town::Node& newcomer = town.add(Town::joining());
    Contact& contact = town.join(newcomer, {endpoint_of(200), endpoint_of(entrance), endpoint_of(201)});
    ASSERT_TRUE(town.run_until([&] { return contact.state() == Contact::State::kAnswered; }, seconds(1)));
    EXPECT_EQ(contact.settings(), "digits");
    EXPECT_EQ(newcomer.members->alive().size(), 3u);
    ASSERT_TRUE(town.run_until([&] {
      for (auto& node : town.nodes) {
        if (node->members->alive().size() != 3) return false;
      }
      return true;
    }, seconds(2)));
    EXPECT_EQ(contact.next_deadline(), TimePoint::max());
    EXPECT_EQ(town.nodes[entrance]->donor->counters().joins, 1u);
  }
}

TEST(Contact, AnEmptyRegistryAdoptsTheFirstSettings) {
  Town town;
  Town::Node& registry = town.add({.role = Role::kBootstrap});
  Town::Node& blank = town.add(Town::joining());
  Contact& waiting = town.join(blank, {endpoint_of(0)});
  town.run_for(seconds(10));
  EXPECT_EQ(waiting.state(), Contact::State::kSearching);
  EXPECT_TRUE(contains(waiting.waiting_for(), "no swarm yet")) << waiting.waiting_for();
  EXPECT_TRUE(contains(waiting.waiting_for(), endpoint_of(0).to_string()));
  EXPECT_TRUE(contains(waiting.waiting_for(), "10 s"));

  Town::Node& founder = town.add(Town::joining());
  Contact& first = town.join(founder, {endpoint_of(0)}, "digits");
  ASSERT_TRUE(town.run_until([&] { return first.state() == Contact::State::kAnswered; }, seconds(1)));
  EXPECT_EQ(first.settings(), "digits");
  EXPECT_EQ(registry.donor->settings(), "digits");
  ASSERT_TRUE(town.run_until([&] { return waiting.state() == Contact::State::kAnswered; }, seconds(10)));
  EXPECT_EQ(waiting.settings(), "digits");
  EXPECT_EQ(blank.members->alive().size(), 2u);
}

TEST(Contact, OtherSettingsAreRefusedWithBothSides) {
  Town town;
  Town::Node& member = town.add();
  member.donor->set_settings("codec: bf16");
  Town::Node& newcomer = town.add(Town::joining());
  Contact& contact = town.join(newcomer, {endpoint_of(0)}, "codec: modulo8");
  ASSERT_TRUE(town.run_until([&] { return contact.state() == Contact::State::kRefused; }, seconds(1)));
  for (const char* part : {"here: codec: bf16", "there: codec: modulo8", "10.0.0.0:7400"}) {
    EXPECT_TRUE(contains(contact.refusal(), part)) << contact.refusal();
  }
  EXPECT_TRUE(contains(contact.refusal(), member.members->self().id.short_name()));
  EXPECT_EQ(member.donor->counters().joins_refused, 1u);
  EXPECT_EQ(member.members->find(peer_of(1)), nullptr);
  const uint64_t asked = newcomer.joins_sent;
  town.run_for(seconds(20));
  EXPECT_EQ(newcomer.joins_sent, asked) << "asking again changes nothing";
}

TEST(Contact, ALongRefusalIsCutToWhatAFrameMayCarry) {
  Town town;
  Town::Node& member = town.add();
  member.donor->set_settings(std::string(kSettingsBytesMax, 'a'));
  Town::Node& newcomer = town.add(Town::joining());
  size_t reason_bytes = 0;
  member.spoil = [&](Message& message, SharedBytes&) {
    if (const auto* refused = message_as<JoinRefused>(message)) reason_bytes = refused->reason.size();
    return true;
  };
  Contact& contact = town.join(newcomer, {endpoint_of(0)}, std::string(kSettingsBytesMax, 'b'));
  ASSERT_TRUE(town.run_until([&] { return contact.state() == Contact::State::kRefused; }, seconds(1)));
  EXPECT_EQ(reason_bytes, kReasonBytesMax);
}

TEST(Contact, ASeedThatAppearsLateIsFound) {
  Town town;
  Town::Node& seed = town.add();
  seed.donor->set_settings("digits");
  seed.up = false;
  Town::Node& newcomer = town.add(Town::joining());
  Contact& contact = town.join(newcomer, {endpoint_of(0), endpoint_of(9)});
  town.run_for(seconds(60));
  EXPECT_EQ(contact.state(), Contact::State::kSearching);
  const std::string text = contact.waiting_for();
  for (const char* part : {"10.0.0.0:7400", "10.0.0.9:7400", "60 s"}) {
    EXPECT_TRUE(contains(text, part)) << text;
  }
  EXPECT_GE(newcomer.joins_sent, 2u * 15);   // both addresses, at least every 5 s
  EXPECT_LE(newcomer.joins_sent, 2u * 60);
  seed.up = true;
  EXPECT_TRUE(town.run_until([&] { return contact.state() == Contact::State::kAnswered; }, seconds(6)));
}

TEST(Contact, ItsOwnAddressIsNotAsked) {
  Town town;
  Town::Node& newcomer = town.add(Town::joining());
  Contact& contact = town.join(newcomer, {endpoint_of(0)});
  town.run_for(seconds(5));
  EXPECT_EQ(newcomer.joins_sent, 0u);
  EXPECT_EQ(contact.state(), Contact::State::kSearching);
  EXPECT_TRUE(contains(contact.waiting_for(), "--bootstrap")) << contact.waiting_for();
}

TEST(Donor, NobodyJoinsForAnother) {
  Town town;
  Town::Node& member = town.add();
  member.donor->set_settings("digits");
  member.donor->handle({.sender = peer_of(5), .generation = 1, .reply_to = endpoint_of(5)},
                       Join{record_of(6), ""});
  EXPECT_TRUE(member.members->all().empty());
  EXPECT_EQ(member.donor->counters().joins, 0u);
}

TEST(Donor, AMemberThatRestartedJoinsAgain) {
  Town town;
  Town::Node& member = town.add();
  member.donor->set_settings("digits");
  for (const uint64_t generation : {1u, 2u}) {
    member.donor->handle({.sender = peer_of(5), .generation = generation, .reply_to = endpoint_of(5)},
                         Join{record_of(5, generation), "digits"});
  }
  const std::vector<MemberEvent> events = member.members->take_events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, MemberEventKind::kJoined);
  EXPECT_EQ(events[1].kind, MemberEventKind::kRestarted);
}

TEST(Donor, KeepsTheFileBeforeForTransfersInProgress) {
  Town town;
  Town::Node& member = town.add();
  RecordingOutbox outbox;
  Donor donor(*member.members, outbox, nullptr);
  const FrameHeader header{.sender = peer_of(5), .generation = 1, .reply_to = endpoint_of(5)};
  for (uint64_t snapshot = 1; snapshot <= 3; ++snapshot) {
    donor.set_model(random_model(snapshot, 10, 3000));
  }
  for (uint64_t snapshot = 1; snapshot <= 3; ++snapshot) donor.handle(header, ModelBlockRequest{snapshot, 0});
  donor.handle(header, ModelBlockRequest{3, 1});
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

}  // namespace
}  // namespace starling
