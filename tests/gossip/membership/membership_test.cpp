// The table of rules, event by event.
#include "gossip/membership/membership.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "gossip/limits.h"
#include "gossip/membership/questions.h"
#include "gossip/rng.h"
#include "tests/gossip/membership/membership_support.h"
#include "tests/support/seeds.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class MembershipTest : public ::testing::Test {
 protected:
  void SetUp() override { restart({}); }
  void restart(const MembershipOptions& options, uint64_t generation = 1) {
    outbox = {};
    members = std::make_unique<Membership>(options, record_of(0, generation), clock, outbox, 7, 1);
  }
  void add(uint32_t first, uint32_t last) {
    for (uint32_t i = first; i <= last; ++i) members->add(record_of(i));
    members->take_events();
    outbox.take();
  }
  void gossip(uint32_t from, Updates updates) { members->handle(peer_of(from), Gossip{std::move(updates)}); }
  MemberState state(uint32_t number) const { return members->find(peer_of(number))->state; }
  bool proven(uint32_t number) const { return members->find(peer_of(number))->proven; }
  // The random number of the next ping to a member. Nobody answers meanwhile.
  uint64_t next_ping(uint32_t number) {
    for (int i = 0; i < 1000; ++i) {
      clock.advance(milliseconds(10));
      members->tick();
      for (const auto& [to, ping] : outbox.take_all<Ping>()) {
        if (to == peer_of(number)) return ping.sequence;
      }
    }
    ADD_FAILURE() << "no ping";
    return 0;
  }
  std::vector<MemberEventKind> events_of(uint32_t number) {
    std::vector<MemberEventKind> kinds;
    for (const MemberEvent& event : members->take_events()) {
      if (event.peer == peer_of(number)) kinds.push_back(event.kind);
    }
    return kinds;
  }
  // Runs the timers; every member but `silent` answers pings.
  void run_for(Duration time, std::vector<uint32_t> silent = {}) {
    const TimePoint end = clock.now() + time;
    while (clock.now() < end) {
      clock.advance(milliseconds(10));
      members->tick();
      for (const Sent& sent : outbox.take()) {
        log.push_back(sent);
        const auto* ping = message_as<Ping>(sent.message);
        if (!ping) continue;
        const bool mute = std::any_of(silent.begin(), silent.end(), [&](uint32_t n) { return peer_of(n) == sent.to; });
        if (!mute) members->handle(sent.to, PingAck{ping->sequence, {}});
      }
    }
  }
  template <typename T>
  size_t count_logged() const {
    return static_cast<size_t>(
        std::count_if(log.begin(), log.end(), [](const Sent& sent) { return message_is<T>(sent.message); }));
  }

  FakeClock clock;
  RecordingOutbox outbox;
  std::unique_ptr<Membership> members;
  std::vector<Sent> log;
};

using Kinds = std::vector<MemberEventKind>;

TEST_F(MembershipTest, AnUnknownRecordJoins) {
  members->add(record_of(1));
  EXPECT_EQ(events_of(1), Kinds{MemberEventKind::kJoined});
  EXPECT_EQ(state(1), MemberState::kAlive);
  ASSERT_EQ(members->alive().size(), 1u);
  EXPECT_EQ(members->find(peer_of(0)), nullptr) << "self is not in its own table";
}

TEST_F(MembershipTest, ANewerRecordReplacesAnOlderOneDoesNot) {
  add(1, 2);
  gossip(2, {.alive = {record_of(1, 1, 5)}});
  gossip(2, {.alive = {record_of(1, 1, 3)}});
  EXPECT_EQ(members->find(peer_of(1))->record.version.incarnation, 5u);
  EXPECT_TRUE(members->take_events().empty()) << "a status change is no event";
}

TEST_F(MembershipTest, ASenderWithAnOlderRecordIsToldTheNewerOne) {
  add(1, 2);
  gossip(2, {.alive = {record_of(1, 1, 5)}});
  outbox.take();
  gossip(2, {.alive = {record_of(1, 1, 3)}});
  const auto answers = outbox.take_all<Gossip>();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].first, peer_of(2));
  ASSERT_EQ(answers[0].second.updates.alive.size(), 1u);
  EXPECT_EQ(answers[0].second.updates.alive[0].version.incarnation, 5u);
}

// The ways to them are dead, and theirs are not: as of a machine that slept behind a router.
TEST_F(MembershipTest, NobodyAnswersThoughTheirFramesCome) {
  add(1, 3);
  EXPECT_FALSE(members->nobody_answers(seconds(6)));
  run_for(seconds(5));
  EXPECT_FALSE(members->nobody_answers(Duration::zero()));
  run_for(seconds(20), {1});
  EXPECT_FALSE(members->nobody_answers(seconds(6))) << "the others do";
  for (int i = 0; i < 30; ++i) {  // a bad health score probes seldom
    run_for(seconds(1), {1, 2, 3});
    for (const uint32_t number : {1, 2, 3}) members->heard_from(peer_of(number), 1);
  }
  EXPECT_TRUE(members->nobody_answers(seconds(6)));
  EXPECT_FALSE(members->nobody_answers(seconds(60)));
  run_for(seconds(15));
  EXPECT_FALSE(members->nobody_answers(seconds(6)));
}

// The round trip is longer than the interval of probes: on a busy uplink that is easy.
TEST_F(MembershipTest, MembersAnswerThoughTheNextProbeHasBegun) {
  add(1, 3);
  run_for(seconds(5));
  const uint64_t failed = members->counters().probes_failed;
  std::pair<PeerId, uint64_t> last;
  std::map<PeerId, uint32_t> incarnations;
  for (int i = 0; i < 6000; ++i) {
    clock.advance(milliseconds(10));
    members->tick();
    for (const auto& [to, ping] : outbox.take_all<Ping>()) {
      const auto late = std::exchange(last, {to, ping.sequence});
      if (late.second == ping.sequence || late.first.is_zero()) continue;  // the second ping of a probe
      const PeerRecord refutes = record_of(late.first == peer_of(1)   ? 1
                                           : late.first == peer_of(2) ? 2
                                                                      : 3,
                                           1, ++incarnations[late.first]);
      members->handle(late.first, PingAck{late.second, Updates{.alive = {refutes}}});
    }
    ASSERT_FALSE(members->nobody_answers(seconds(6)));
  }
  EXPECT_GE(members->counters().probes_failed, failed + 5);
  members->handle(peer_of(1), PingAck{last.second + 1, {}});
  run_for(seconds(60), {1, 2, 3});
  EXPECT_TRUE(members->nobody_answers(seconds(6)));
  members->handle(peer_of(2), PingAck{last.second + 1, {}});
  EXPECT_TRUE(members->nobody_answers(seconds(6))) << "no ping had that number";
}

TEST_F(MembershipTest, OneThatIsAloneHasNobodyWhoseSilenceItCouldDoubt) {
  add(1, 1);
  run_for(seconds(5));
  run_for(seconds(4), {1});
  ASSERT_TRUE(members->nobody_answers(seconds(2)));
  gossip(1, {.left = {record_of(1)}});
  ASSERT_EQ(state(1), MemberState::kLeft);
  run_for(seconds(30));
  EXPECT_FALSE(members->nobody_answers(seconds(6)));
}

// It slept, or was cut off: what it did not answer then says nothing of the way to it.
TEST_F(MembershipTest, AMemberBackFromTheDeadHasBeenAskedNothing) {
  add(1, 2);
  run_for(seconds(5));
  run_for(seconds(60), {1});
  ASSERT_EQ(state(1), MemberState::kDead);
  EXPECT_GE(members->find(peer_of(1))->unanswered, 3u);
  gossip(2, {.alive = {record_of(1, 1, 5)}});
  ASSERT_EQ(state(1), MemberState::kAlive);
  EXPECT_EQ(members->find(peer_of(1))->unanswered, 0u);
}

TEST_F(MembershipTest, ANewGenerationIsARestartFromAnyState) {
  add(1, 5);
  gossip(2, {.alive = {record_of(1, 2, 0)}});
  EXPECT_EQ(events_of(1), Kinds{MemberEventKind::kRestarted});
  gossip(2, {.suspect = {suspicion_of(1, {2, 0}, 3)}});
  gossip(2, {.alive = {record_of(1, 3, 0)}});
  EXPECT_EQ(events_of(1), (Kinds{MemberEventKind::kSuspected, MemberEventKind::kRestarted}));
  gossip(1, {.left = {record_of(1, 3, 0)}});
  gossip(2, {.alive = {record_of(1, 4, 0)}});
  EXPECT_EQ(events_of(1), (Kinds{MemberEventKind::kLeft, MemberEventKind::kRestarted}));
  EXPECT_EQ(state(1), MemberState::kAlive);
}

TEST_F(MembershipTest, AnAccusationSuspectsAndOnlyANewerVersionClears) {
  add(1, 5);
  gossip(2, {.suspect = {suspicion_of(1, {1, 0}, 3)}});
  EXPECT_EQ(state(1), MemberState::kSuspect);
  EXPECT_EQ(members->alive().size(), 4u) << "suspects are not among the living";
  gossip(2, {.alive = {record_of(1, 1, 0)}});
  EXPECT_EQ(state(1), MemberState::kSuspect) << "the same version does not clear it";
  gossip(2, {.alive = {record_of(1, 1, 1)}});
  EXPECT_EQ(state(1), MemberState::kAlive);
  EXPECT_EQ(events_of(1), (Kinds{MemberEventKind::kSuspected, MemberEventKind::kAliveAgain}));
  EXPECT_EQ(members->counters().false_suspicions, 1u);
}

TEST_F(MembershipTest, WhoStillBelievesASuspectAliveIsToldOfTheAccusation) {
  add(1, 5);
  gossip(2, {.suspect = {suspicion_of(1, {1, 0}, 3)}});
  outbox.take();
  gossip(1, {.alive = {record_of(1, 1, 0)}});
  const auto answers = outbox.take_all<Gossip>();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].first, peer_of(1));
  ASSERT_EQ(answers[0].second.updates.suspect.size(), 1u);
  EXPECT_EQ(answers[0].second.updates.suspect[0].version, (Version{1, 0}));
}

TEST_F(MembershipTest, HostileAccusationsAreRefused) {
  add(1, 5);
  const uint64_t before = members->counters().updates_refused;
  gossip(2, {.suspect = {suspicion_of(1, {1, 0}, 1)}});   // itself
  gossip(2, {.suspect = {suspicion_of(1, {1, 0}, 0)}});   // in our name
  gossip(2, {.suspect = {suspicion_of(1, {1, 0}, 99)}});  // by a stranger
  EXPECT_EQ(members->counters().updates_refused, before + 3);
  gossip(3, {.left = {record_of(3)}});
  gossip(2, {.suspect = {suspicion_of(1, {1, 0}, 3)}});  // by one who left
  EXPECT_EQ(members->counters().updates_refused, before + 4);
  EXPECT_EQ(state(1), MemberState::kAlive);
}

TEST_F(MembershipTest, AnAccusationAboveTheOwnersVersionOnlyAsksForTheRecord) {
  add(1, 5);
  gossip(2, {.suspect = {suspicion_of(1, {1, std::numeric_limits<uint32_t>::max()}, 3)}});
  gossip(2, {.suspect = {suspicion_of(77, {1, 0}, 3)}});
  EXPECT_EQ(state(1), MemberState::kAlive);
  EXPECT_EQ(members->find(peer_of(77)), nullptr);
  const auto wants = outbox.take_all<Sync>();
  ASSERT_EQ(wants.size(), 2u);
  EXPECT_EQ(wants[0].first, peer_of(2));
  EXPECT_FALSE(wants[0].second.reply_wanted);
  EXPECT_EQ(wants[0].second.digest[0].version, (Version{1, 0}));
  EXPECT_EQ(wants[1].second.digest[0].id, peer_of(77));
}

TEST_F(MembershipTest, RecordsThatNobodyCouldOutbidAreRefused) {
  add(1, 5);
  gossip(2, {.alive = {record_of(1, 1, std::numeric_limits<uint32_t>::max())}});
  gossip(2, {.alive = {record_of(1, 1, 1u << 31)}});
  gossip(2, {.alive = {record_of(1, std::numeric_limits<uint64_t>::max(), 0)}});
  gossip(2, {.alive = {record_of(8, 1, std::numeric_limits<uint32_t>::max())}});
  EXPECT_EQ(members->find(peer_of(1))->record.version, (Version{1, 0}));
  EXPECT_EQ(members->find(peer_of(8)), nullptr);
  EXPECT_EQ(members->counters().updates_refused, 4u);
}

// A generation is the wall clock of a start. One that lies days ahead would lock its owner out until then.
TEST_F(MembershipTest, AGenerationMoreThanADayAheadIsRefused) {
  constexpr uint64_t kNow = 1'700'000'000'000, kHour = 3'600'000;
  restart({}, kNow);
  for (uint32_t i = 1; i <= 3; ++i) members->add(record_of(i, kNow + i));
  gossip(2, {.alive = {record_of(1, kNow + 1'000'000'000'000, 0)}});
  gossip(2, {.alive = {record_of(1, kNow + 25 * kHour, 0)}});
  EXPECT_EQ(members->counters().updates_refused, 2u);
  gossip(2, {.alive = {record_of(1, kNow + 23 * kHour, 0)}});
  EXPECT_EQ(members->find(peer_of(1))->record.version.generation, kNow + 23 * kHour);
  clock.advance(std::chrono::hours(2));
  gossip(2, {.alive = {record_of(1, kNow + 25 * kHour, 0)}});  // two hours later it is a start of tomorrow
  EXPECT_EQ(members->find(peer_of(1))->record.version.generation, kNow + 25 * kHour);
}

// One that is not known or lives no more may have any clock: it displaces nobody, and exceeds a forger of the absent.
TEST_F(MembershipTest, AnyGenerationIsTakenOfWhoDoesNotLive) {
  constexpr uint64_t kNow = 1'700'000'000'000, kCentury = 3'155'760'000'000;
  restart({}, kNow);
  for (uint32_t i = 1; i <= 3; ++i) members->add(record_of(i, kNow + i));
  members->add(record_of(4, kNow + 3 * kCentury));
  EXPECT_EQ(state(4), MemberState::kAlive);
  members->add(record_of(5, 1));
  EXPECT_EQ(state(5), MemberState::kAlive);
  gossip(2, {.alive = {record_of(1, kNow + kCentury, 0)}});
  EXPECT_EQ(members->find(peer_of(1))->record.version.generation, kNow + 1) << "it lives";
  const auto ahead = members->take_record_ahead();
  ASSERT_TRUE(ahead);
  EXPECT_EQ(ahead->version.generation, kNow + kCentury);
  gossip(1, {.left = {record_of(1, kNow + 1, 0)}});
  gossip(2, {.alive = {record_of(1, kNow + kCentury, 0)}});
  EXPECT_EQ(members->find(peer_of(1))->record.version.generation, kNow + kCentury);
  EXPECT_EQ(state(1), MemberState::kAlive);
  gossip(2, {.alive = {record_of(6, UINT64_MAX, 0)}});
  EXPECT_EQ(members->find(peer_of(6)), nullptr) << "no clock says so, and nobody could exceed it";
}

TEST_F(MembershipTest, AMoveIsANewVersionThatEveryoneHearsAtOnce) {
  add(1, 5);
  gossip(3, {.left = {record_of(3, 1, 0)}});
  outbox.take_all<Gossip>();
  members->move_to({"10.1.1.1", 7777});
  EXPECT_EQ(members->self().endpoint, (Endpoint{"10.1.1.1", 7777}));
  EXPECT_EQ(members->self().version, (Version{1, 1}));
  const auto sent = outbox.take_all<Gossip>();
  EXPECT_EQ(sent.size(), 4u) << "all but the one that left";
  for (const auto& [to, gossip] : sent) EXPECT_EQ(gossip.updates.alive.at(0).endpoint.host, "10.1.1.1");
}

TEST_F(MembershipTest, ARecordOfItsOwnIdByAnotherProcessIsHandedOn) {
  add(1, 5);
  PeerRecord other = record_of(0, 5, 0);
  gossip(2, {.alive = {other}});
  ASSERT_TRUE(members->take_other_self());
  EXPECT_FALSE(members->take_other_self());
  gossip(2, {.alive = {members->self()}});
  EXPECT_FALSE(members->take_other_self()) << "its own";
  for (const uint32_t incarnation : {0u, 3u}) {
    other = record_of(0, 1, incarnation);
    other.endpoint.host = "10.2.2.2";
    gossip(2, {.alive = {other}});
    EXPECT_TRUE(members->take_other_self()) << "of the same generation, at another address";
  }
  members->hear_of_self(record_of(1, 9, 0), record_of(2).id);
  EXPECT_FALSE(members->take_other_self()) << "of another id";
}

// Its own clock says 1970: it must still meet the others.
TEST_F(MembershipTest, AWrongOwnClockRefusesNobody) {
  restart({}, 1);
  for (uint32_t i = 1; i <= 3; ++i) members->add(record_of(i, 1'700'000'000'000 + i));
  EXPECT_EQ(members->alive().size(), 3u);
}

TEST_F(MembershipTest, MalformedRecordsAreRefused) {
  PeerRecord no_port = record_of(1);
  no_port.endpoint.port = 0;
  PeerRecord bad_host = record_of(2);
  bad_host.endpoint.host = "a b";
  PeerRecord bad_mass = record_of(3);
  bad_mass.meta.mass = std::numeric_limits<double>::infinity();
  PeerRecord no_mass = record_of(4);
  no_mass.meta.mass = 0;
  PeerRecord no_id = record_of(5);
  no_id.id = {};
  for (const PeerRecord& record : {no_port, bad_host, bad_mass, no_mass, no_id}) members->add(record);
  EXPECT_TRUE(members->all().empty());
  EXPECT_EQ(members->counters().updates_refused, 5u);
}

TEST_F(MembershipTest, RefutesAnAccusationAgainstItself) {
  add(1, 5);
  gossip(2, {.suspect = {suspicion_of(0, {1, 0}, 3)}});
  EXPECT_EQ(members->self().version, (Version{1, 1}));
  EXPECT_EQ(members->counters().refutations, 1u);
  const auto answers = outbox.take_all<Gossip>();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].second.updates.alive[0].version, (Version{1, 1}));
  gossip(2, {.suspect = {suspicion_of(0, {1, 0}, 3)}});  // late: answered, not refuted again
  EXPECT_EQ(members->self().version, (Version{1, 1}));
  EXPECT_EQ(outbox.take_all<Gossip>().at(0).second.updates.alive.at(0).version, (Version{1, 1}));
}

TEST_F(MembershipTest, HostileNewsAboutItself) {
  add(1, 5);
  gossip(2, {.suspect = {suspicion_of(0, {1, 9}, 3)}});  // never announced
  EXPECT_EQ(members->self().version, (Version{1, 0}));
  gossip(2, {.suspect = {suspicion_of(0, {1, 0}, 0)}});  // by itself
  EXPECT_EQ(members->self().version, (Version{1, 0}));
  gossip(2, {.alive = {record_of(0, 1, 7)}});  // forged: overtaken
  EXPECT_EQ(members->self().version, (Version{1, 8}));
  gossip(2, {.alive = {record_of(0, 1, std::numeric_limits<uint32_t>::max())}});
  EXPECT_EQ(members->self().version, (Version{1, 8})) << "others refuse that one too";
  gossip(2, {.left = {record_of(0, 1, 8)}});
  EXPECT_EQ(members->self().version, (Version{1, 9})) << "it did not leave";
}

// Members refuse a version more than a million above the one that they hold.
TEST_F(MembershipTest, ForgedRecordsInOneFrameDoNotTakeItAwayFromTheOthers) {
  add(1, 5);
  Updates climbing;
  for (uint32_t i = 1; i <= 8; ++i) climbing.alive.push_back(record_of(0, 1, i << 20));
  gossip(2, climbing);
  EXPECT_GT(members->self().version.incarnation, 0u);
  EXPECT_LE(members->self().version.incarnation, 1u << 20) << "who holds the first version takes this one";
  const uint32_t first = members->self().version.incarnation;
  gossip(2, climbing);
  EXPECT_EQ(members->self().version.incarnation, first);
  clock.advance(seconds(30));
  gossip(2, climbing);
  EXPECT_GT(members->self().version.incarnation, first) << "by steps it comes above all that members may hold";
}

TEST_F(MembershipTest, ForgedRecordsInOneFrameTakeNoMemberOutOfItsReach) {
  add(1, 5);
  Updates climbing;
  for (uint32_t i = 1; i <= 8; ++i) climbing.alive.push_back(record_of(1, 1, i << 20));
  gossip(2, climbing);
  EXPECT_EQ(members->find(peer_of(1))->record.version.incarnation, 1u << 20);
  gossip(1, {.alive = {record_of(1, 1, (1u << 20) - 9)}});
  EXPECT_EQ(members->find(peer_of(1))->record.version.incarnation, 1u << 20);
  clock.advance(seconds(30));
  gossip(1, {.alive = {record_of(1, 1, (1u << 20) + 1)}});
  EXPECT_EQ(members->find(peer_of(1))->record.version.incarnation, (1u << 20) + 1);
}

// The agent would begin again above it, and no later process of it could.
TEST_F(MembershipTest, ANumberThatNoClockGivesIsNoLaterProcess) {
  add(1, 5);
  for (const uint64_t generation : {UINT64_MAX, uint64_t{1} << 62, (uint64_t{1} << 61) + 1}) {
    gossip(2, {.alive = {record_of(0, generation, 0)}});
    members->hear_of_self(record_of(0, generation, 0), record_of(2).id);
    EXPECT_FALSE(members->take_other_self()) << generation;
  }
  gossip(2, {.alive = {record_of(0, uint64_t{1} << 61, 0)}});
  EXPECT_TRUE(members->take_other_self());
}

// A member that holds it takes none of the records below it.
TEST_F(MembershipTest, AForgedFarewellOfALaterVersionIsOvertaken) {
  add(1, 5);
  gossip(2, {.left = {record_of(0, 1, 7)}});
  EXPECT_EQ(members->self().version, (Version{1, 8}));
  EXPECT_EQ(outbox.take_all<Gossip>().at(0).second.updates.alive.at(0).version, (Version{1, 8}));
}

TEST_F(MembershipTest, ACopiedKeyIsCountedAndNotFoughtOver) {
  add(1, 5);
  gossip(2, {.alive = {record_of(0, 5, 0)}});
  EXPECT_EQ(members->counters().identity_clashes, 1u);
  EXPECT_EQ(members->self().version, (Version{1, 0}));
}

TEST_F(MembershipTest, LeftCountsFromTheSubjectOrForTheVersionHeld) {
  add(1, 5);
  gossip(2, {.left = {record_of(1, 1, 4)}});
  EXPECT_EQ(state(1), MemberState::kAlive) << "hearsay about a version that we do not hold";
  gossip(2, {.left = {record_of(1, 1, 0)}});
  EXPECT_EQ(state(1), MemberState::kLeft);
  gossip(3, {.left = {record_of(3, 1, 4)}});
  EXPECT_EQ(state(3), MemberState::kLeft);
  gossip(2, {.alive = {record_of(1, 1, 1)}});
  EXPECT_EQ(state(1), MemberState::kAlive) << "the subject takes a lie back";
}

TEST_F(MembershipTest, StrangersAreHeardOnlyToIntroduceThemselves) {
  add(1, 2);
  members->handle(peer_of(50), Ping{3, peer_of(0), {.alive = {record_of(1, 1, 9)}}});
  EXPECT_TRUE(outbox.take().empty());
  EXPECT_EQ(members->find(peer_of(1))->record.version.incarnation, 0u);
  members->handle(peer_of(50), Ping{4, peer_of(0), {.alive = {record_of(50), record_of(1, 1, 9)}}});
  EXPECT_EQ(state(50), MemberState::kAlive);
  EXPECT_EQ(members->find(peer_of(1))->record.version.incarnation, 9u);
  EXPECT_EQ(outbox.take_all<PingAck>().at(0).second.sequence, 4u);
}

TEST_F(MembershipTest, APingMeantForAnotherIsNotAnswered) {
  add(1, 2);
  members->handle(peer_of(1), Ping{3, peer_of(9), {}});
  EXPECT_TRUE(outbox.take_all<PingAck>().empty());
  members->handle(peer_of(1), Ping{3, PeerId{}, {}});
  EXPECT_EQ(outbox.take_all<PingAck>().size(), 1u) << "zero means whoever is here";
}

TEST_F(MembershipTest, ASilentMemberIsSuspectedOnlyAfterHelpersFailedThenDies) {
  add(1, 4);
  run_for(seconds(6), {1});
  EXPECT_GE(count_logged<PingRequest>(), 3u);
  EXPECT_EQ(state(1), MemberState::kSuspect);
  run_for(seconds(30), {1});
  EXPECT_EQ(state(1), MemberState::kDead);
  EXPECT_EQ(events_of(1), (Kinds{MemberEventKind::kSuspected, MemberEventKind::kDied}));
  for (uint32_t other : {2, 3, 4}) EXPECT_EQ(state(other), MemberState::kAlive);
  for (const Sent& sent : log) {
    const auto* news = message_as<Gossip>(sent.message);
    if (!news) continue;
    for (const Suspicion& suspicion : news->updates.suspect) EXPECT_EQ(suspicion.accuser, peer_of(0));
  }
}

TEST_F(MembershipTest, ConfirmationsShortenTheSuspicion) {
  for (const bool confirmed : {false, true}) {
    restart({});
    add(1, 4);
    for (int times = 0; times < 4; ++times) {  // the same accuser again confirms nothing
      gossip(2, {.suspect = {suspicion_of(1, {1, 0}, 2)}});
    }
    run_for(milliseconds(2000));
    if (confirmed) gossip(2, {.suspect = {suspicion_of(1, {1, 0}, 3), suspicion_of(1, {1, 0}, 4)}});
    run_for(milliseconds(2100));  // a suspicion lasts from when it began
    EXPECT_EQ(state(1), confirmed ? MemberState::kDead : MemberState::kSuspect);
  }
}

TEST_F(MembershipTest, TheTimerOfAnOldVersionDoesNotStrikeTheNewOne) {
  add(1, 4);
  gossip(2, {.suspect = {suspicion_of(1, {1, 0}, 2), suspicion_of(1, {1, 0}, 3), suspicion_of(1, {1, 0}, 4)}});
  run_for(milliseconds(3500));
  gossip(2, {.alive = {record_of(1, 1, 1)}});
  gossip(2, {.suspect = {suspicion_of(1, {1, 1}, 2), suspicion_of(1, {1, 1}, 3), suspicion_of(1, {1, 1}, 4)}});
  run_for(milliseconds(2000));
  EXPECT_EQ(state(1), MemberState::kSuspect) << "4 s of its own";
  run_for(milliseconds(2200));
  EXPECT_EQ(state(1), MemberState::kDead);
}

TEST_F(MembershipTest, ASuspectThatTalksToUsDoesNotDie) {
  add(1, 4);
  gossip(2, {.suspect = {suspicion_of(1, {1, 0}, 2), suspicion_of(1, {1, 0}, 3), suspicion_of(1, {1, 0}, 4)}});
  for (int i = 0; i < 20; ++i) {
    run_for(milliseconds(500), {1});
    members->heard_from(peer_of(1), 1);
  }
  EXPECT_EQ(state(1), MemberState::kSuspect);
  run_for(seconds(9), {1});
  EXPECT_EQ(state(1), MemberState::kDead);
}

TEST_F(MembershipTest, AnyFrameAfterThePingCountsAsItsAck) {
  add(1, 1);
  for (const uint64_t generation : {1u, 2u}) {  // of generation 2 we hold nothing: it proves nothing of what we hold
    const uint64_t failed = members->counters().probes_failed;
    for (int i = 0; i < 30; ++i) {
      run_for(milliseconds(200), {1});
      members->heard_from(peer_of(1), generation);
    }
    EXPECT_EQ(members->counters().probes_failed > failed, generation == 2);
  }
}

// A process whose number is days ahead is taken once the one before is found dead, and listens where that one did.
TEST_F(MembershipTest, TheAcksOfALaterProcessDoNotKeepTheEarlierOneAlive) {
  constexpr uint64_t kNow = 1'700'000'000'000, kLater = kNow + 3'000'000'000;
  restart({}, kNow);
  for (uint32_t i = 1; i <= 4; ++i) members->add(record_of(i, kNow));
  for (int i = 0; i < 6000; ++i) {
    clock.advance(milliseconds(10));
    members->tick();
    ASSERT_GT(members->next_deadline(), clock.now() - milliseconds(10)) << "the owner would spin";
    for (const Sent& sent : outbox.take()) {
      const uint64_t generation = sent.to == peer_of(1) ? kLater : kNow;
      if (const auto* ping = message_as<Ping>(sent.message)) {
        members->handle(sent.to, PingAck{ping->sequence, {}}, generation);
      } else if (const auto* request = message_as<PingRequest>(sent.message)) {
        members->handle(sent.to, PingAck{request->sequence, {}}, generation);  // a helper that holds the later one
      }
    }
  }
  EXPECT_EQ(state(1), MemberState::kDead);
  EXPECT_FALSE(proven(1));
  for (uint32_t other : {2, 3, 4}) EXPECT_EQ(state(other), MemberState::kAlive);
  gossip(2, {.alive = {record_of(1, kLater)}});
  EXPECT_EQ(state(1), MemberState::kAlive);
}

TEST_F(MembershipTest, AHelperProbesAndReportsBothOutcomes) {
  add(1, 3);
  members->handle(peer_of(1), PingRequest{77, peer_of(2), {}});
  const auto pings = outbox.take_all<Ping>();
  ASSERT_EQ(pings.size(), 1u);
  EXPECT_EQ(pings[0].first, peer_of(2));
  members->handle(peer_of(3), PingAck{pings[0].second.sequence, {}});
  EXPECT_TRUE(outbox.take_all<PingAck>().empty()) << "only the target can answer";
  members->handle(peer_of(2), PingAck{pings[0].second.sequence, {}});
  const auto acks = outbox.take_all<PingAck>();
  ASSERT_EQ(acks.size(), 1u);
  EXPECT_EQ(acks[0].first, peer_of(1));
  EXPECT_EQ(acks[0].second.sequence, 77u);

  members->handle(peer_of(1), PingRequest{78, peer_of(2), {}});
  log.clear();
  run_for(milliseconds(600), {1, 2, 3});
  const auto nack =
      std::find_if(log.begin(), log.end(), [](const Sent& sent) { return message_is<PingNack>(sent.message); });
  ASSERT_NE(nack, log.end());
  EXPECT_EQ(message_as<PingNack>(nack->message)->sequence, 78u);

  members->handle(peer_of(1), PingRequest{79, peer_of(66), {}});
  EXPECT_EQ(outbox.take_all<PingNack>().at(0).second.sequence, 79u) << "unknown target: at once";
}

TEST_F(MembershipTest, OnlyAnAnswerWithTheNumberSentToItProvesAProcess) {
  add(1, 2);
  gossip(2, {.alive = {record_of(3)}});
  for (const uint32_t number : {1u, 2u, 3u}) {
    members->heard_from(peer_of(number), 1);
    EXPECT_FALSE(proven(number)) << "anybody can send such a frame";
  }
  const uint64_t sequence = next_ping(1);
  members->handle(peer_of(1), PingAck{sequence + 1, {}});
  members->handle(peer_of(1), PingNack{sequence});
  EXPECT_FALSE(proven(1));
  members->handle(peer_of(2), PingAck{sequence, {}});
  EXPECT_FALSE(proven(1));
  EXPECT_FALSE(proven(2)) << "the number was sent to another";
  members->handle(peer_of(1), PingAck{sequence, {}});
  EXPECT_TRUE(proven(1));
  EXPECT_FALSE(proven(2));
  EXPECT_FALSE(proven(3));
}

// A generator's own numbers tell its state: four in a row do, and with the state all that follow.
TEST_F(MembershipTest, PingsDoNotTellTheNumbersOfTheNextOnes) {
  std::set<uint64_t> raw;
  Rng generator(7);  // of the membership's seed
  for (int i = 0; i < 100000; ++i) raw.insert(generator.next_u64());
  const auto numbers_of = [&](uint64_t secret) {
    members = std::make_unique<Membership>(MembershipOptions{}, record_of(0), clock, outbox, 7, secret);
    add(1, 2);
    std::set<uint64_t> numbers;
    for (int i = 0; i < 20; ++i) members->handle(peer_of(1), PingRequest{77, peer_of(2), {}});
    for (const auto& [to, ping] : outbox.take_all<Ping>()) numbers.insert(ping.sequence);  // on behalf of that one
    for (int i = 0; i < 20; ++i) {
      const uint64_t number = next_ping(1);
      numbers.insert(number);
      members->handle(peer_of(1), PingAck{number, {}});
    }
    EXPECT_EQ(numbers.size(), 40u) << "another each time";
    for (const uint64_t number : numbers) EXPECT_FALSE(raw.contains(number));
    return numbers;
  };
  const std::set<uint64_t> numbers = numbers_of(1);
  std::vector<uint64_t> shared;
  std::ranges::set_intersection(numbers, numbers_of(2), std::back_inserter(shared));
  EXPECT_TRUE(shared.empty()) << "they follow from a secret of the process";
}

TEST_F(MembershipTest, ARestartIsAnotherProcessToProve) {
  add(1, 1);
  const uint64_t sequence = next_ping(1);
  members->handle(peer_of(1), PingAck{sequence, {}});
  gossip(1, {.alive = {record_of(1, 1, 1)}});
  EXPECT_TRUE(proven(1)) << "its news are of the same process";
  gossip(1, {.alive = {record_of(1, 2)}});
  EXPECT_FALSE(proven(1));
  members->handle(peer_of(1), PingAck{sequence, {}});
  EXPECT_FALSE(proven(1)) << "the process before had been asked";
  members->prove(peer_of(1), 1);
  EXPECT_FALSE(proven(1)) << "of the process before";
  members->handle(peer_of(1), PingAck{next_ping(1), {}});
  EXPECT_TRUE(proven(1));
  members->prove(peer_of(66), 1);
  EXPECT_EQ(members->find(peer_of(66)), nullptr);
}

TEST_F(MembershipTest, AHelpersPingProvesTheProcessThatItWasSentTo) {
  add(1, 3);
  const auto ping_for_another = [&] {
    members->handle(peer_of(1), PingRequest{77, peer_of(2), {}});
    return outbox.take_all<Ping>().at(0).second.sequence;
  };
  uint64_t sequence = ping_for_another();
  members->handle(peer_of(3), PingAck{sequence, {}});
  members->handle(peer_of(2), PingAck{sequence + 1, {}});
  EXPECT_FALSE(proven(2));
  EXPECT_FALSE(proven(3));
  gossip(2, {.alive = {record_of(2, 2)}});
  members->handle(peer_of(2), PingAck{sequence, {}});
  EXPECT_FALSE(proven(2)) << "it restarted meanwhile";
  members->handle(peer_of(2), PingAck{ping_for_another(), {}});
  EXPECT_TRUE(proven(2));
  EXPECT_FALSE(proven(1)) << "who asked has answered nothing";
}

TEST_F(MembershipTest, RoundTripsAreMeasured) {
  add(1, 1);
  TimePoint due{};
  std::optional<uint64_t> sequence;
  for (int i = 0; i < 500; ++i) {
    clock.advance(milliseconds(10));
    members->tick();
    if (i % 3 == 0) members->heard_from(peer_of(1), 1);  // other traffic of its says nothing about the way
    if (sequence && clock.now() >= due) {
      members->heard_from(peer_of(1), 1);
      members->handle(peer_of(1), PingAck{*std::exchange(sequence, {}), {}});
    }
    for (const auto& [to, ping] : outbox.take_all<Ping>()) {
      sequence = ping.sequence;
      due = clock.now() + milliseconds(50);
    }
  }
  EXPECT_EQ(members->find(peer_of(1))->round_trip, milliseconds(50));
}

TEST_F(MembershipTest, ItsOwnStallKillsNobody) {
  add(1, 4);
  run_for(seconds(2));
  gossip(2, {.suspect = {suspicion_of(1, {1, 0}, 2), suspicion_of(1, {1, 0}, 3), suspicion_of(1, {1, 0}, 4)}});
  clock.advance(seconds(60));
  members->tick();
  EXPECT_EQ(state(1), MemberState::kSuspect);
  EXPECT_EQ(members->counters().stalls, 1u);
  EXPECT_EQ(members->alive().size(), 3u);
  gossip(2, {.alive = {record_of(1, 1, 1)}});
  EXPECT_EQ(state(1), MemberState::kAlive);
}

TEST_F(MembershipTest, StatusIsAnnouncedAtMostOncePerInterval) {
  add(1, 2);
  const uint32_t before = members->self().version.incarnation;
  MemberMeta meta = members->self().meta;
  for (int i = 1; i <= 200; ++i) {
    meta.steps = static_cast<uint64_t>(i);
    members->update_self(meta);
    run_for(milliseconds(10));
  }
  EXPECT_GE(members->self().version.incarnation, before + 3);
  EXPECT_LE(members->self().version.incarnation, before + 5);
  run_for(milliseconds(600));
  EXPECT_EQ(members->self().meta.steps, 200u) << "the last one is not lost";
  const uint32_t settled = members->self().version.incarnation;
  members->update_self(meta);
  run_for(seconds(2));
  EXPECT_EQ(members->self().version.incarnation, settled) << "nothing changed";
}

TEST_F(MembershipTest, OfManyMembersEachAnnouncesItsStatusRarelyButAtOnceItsPhaseItsLastStepAndItsStop) {
  add(1, 60);
  run_for(seconds(120));  // all have answered
  const uint32_t before = members->self().version.incarnation;
  MemberMeta meta = members->self().meta;
  const auto step = [&] {
    ++meta.steps;
    members->update_self(meta);
    run_for(milliseconds(10));
  };
  for (int i = 0; i < 1500; ++i) step();
  const uint32_t during = members->self().version.incarnation - before;
  EXPECT_GE(during, 2u);
  EXPECT_LE(during, 4u) << "60 members at 5 s each send as much as 6 at 500 ms";
  outbox.take_all<Gossip>();
  const auto told_at_once = [&](uint64_t last_step = 0) {
    members->update_self(meta, last_step);
    return outbox.take_all<Gossip>().size();
  };
  ++meta.steps;
  EXPECT_EQ(told_at_once(meta.steps + 1), 0u);
  EXPECT_GE(told_at_once(meta.steps), 59u) << "its last step";
  ++meta.steps;
  EXPECT_EQ(told_at_once(meta.steps - 1), 0u) << "it was told";
  meta.phase = Phase::kSettling;
  EXPECT_GE(told_at_once(), 59u);
  meta.stop_after = 5000;
  EXPECT_GE(told_at_once(), 59u);
  EXPECT_EQ(members->self().meta.stop_after, 5000u);
  const uint32_t settling = members->self().version.incarnation;
  for (int i = 0; i < 200; ++i) step();
  EXPECT_GE(members->self().version.incarnation, settling + 3) << "while settling others wait for it";
}

TEST_F(MembershipTest, LeavingTellsEverybodyAndStopsRefuting) {
  add(1, 5);
  gossip(2, {.left = {record_of(3)}});
  members->announce_leave();
  const auto told = outbox.take_all<Gossip>();
  EXPECT_EQ(told.size(), 4u);
  for (const auto& [to, news] : told) {
    ASSERT_EQ(news.updates.left.size(), 1u);
    EXPECT_EQ(news.updates.left[0].id, peer_of(0));
  }
  gossip(2, {.suspect = {suspicion_of(0, {1, 0}, 4)}});
  EXPECT_EQ(members->self().version, (Version{1, 0}));
  MemberMeta meta = members->self().meta;
  meta.steps = 9;
  members->update_self(meta);
  EXPECT_GT(members->next_deadline(), clock.now() - seconds(1)) << "no deadline is stuck in the past";
  members->announce_leave();
  EXPECT_TRUE(outbox.take().empty());
}

// Those of probes would come one after the other.
TEST_F(MembershipTest, WhoIsNewIsAskedAtOnceAndWhoIsSilentOnceAPeriod) {
  for (uint32_t other = 1; other <= 20; ++other) members->add(record_of(other));
  std::map<PeerId, int> asked;
  for (int i = 0; i < 50; ++i) {
    members->tick();
    for (const auto& [to, ping] : outbox.take_all<Ping>()) {
      if (i < 2) ++asked[to];
      if (to < peer_of(11)) members->handle(to, PingAck{ping.sequence, {}});
    }
    clock.advance(milliseconds(10));
  }
  EXPECT_EQ(asked.size(), 20u);
  for (uint32_t other = 1; other <= 20; ++other) EXPECT_EQ(proven(other), other <= 10) << other;
  size_t again = 0;
  for (int i = 0; i < 100; ++i) {
    clock.advance(milliseconds(10));
    members->tick();
    for (const auto& [to, ping] : outbox.take_all<Ping>()) again += to > peer_of(10);
  }
  EXPECT_GE(again, 10u);
  EXPECT_LE(again, 15u) << "and some probes";
}

TEST_F(MembershipTest, AnAnswerInAnothersNameOrOfAnEarlierProcessProvesNothing) {
  members->add(record_of(1));
  members->add(record_of(2));
  members->tick();
  const auto pings = outbox.take_all<Ping>();
  ASSERT_GE(pings.size(), 2u);
  for (const auto& [to, ping] : pings) {
    members->handle(to == peer_of(1) ? peer_of(2) : peer_of(1), PingAck{ping.sequence, {}});
  }
  EXPECT_FALSE(proven(1) || proven(2));
  members->add(record_of(1, 2));
  for (const auto& [to, ping] : pings) members->handle(to, PingAck{ping.sequence, {}});
  EXPECT_FALSE(proven(1));
  EXPECT_TRUE(proven(2));
}

// Its link to this agent is cut, and others reach it: a group must reckon with the same members everywhere.
TEST_F(MembershipTest, WhomOneThatAnsweredReachesHasAnsweredToo) {
  for (uint32_t other = 1; other <= 3; ++other) members->add(record_of(other));
  const auto answered = [this](uint32_t other) { return members->find(peer_of(other))->ever_answered; };
  bool asked_through_another = false;
  for (int i = 0; i < 400; ++i) {
    members->tick();
    for (const Sent& sent : outbox.take()) {
      const auto* ping = message_as<Ping>(sent.message);
      if (ping != nullptr && sent.to == peer_of(1)) members->handle(peer_of(1), PingAck{ping->sequence, {}});
      const auto* request = message_as<PingRequest>(sent.message);
      if (request == nullptr || sent.to != peer_of(1) || request->target != peer_of(2)) continue;
      asked_through_another = true;
      members->handle(peer_of(3), PingAck{request->sequence, {}});  // a stranger may not say so
      EXPECT_FALSE(answered(2));
      members->handle(peer_of(1), PingAck{request->sequence, {}});
    }
    if (answered(2)) break;
    clock.advance(milliseconds(10));
  }
  EXPECT_TRUE(asked_through_another);
  EXPECT_TRUE(answered(2));
  EXPECT_FALSE(proven(2)) << "its claims do not count";
  EXPECT_FALSE(answered(3));
}

// They may be of one host, or of one port, which would be flooded; those that stay silent are asked ever more rarely.
TEST_F(MembershipTest, AStrangersTargetIsNotFlooded) {
  for (const bool one_port : {false, true}) {
    restart({});
    for (uint32_t other = 1; other <= 300; ++other) {
      PeerRecord record = record_of(other);
      record.endpoint = {"10.1.1.1", static_cast<uint16_t>(one_port ? 7400 : 7000 + other)};
      members->add(record);
    }
    size_t first = 0, later = 0;
    for (int i = 0; i < 6000; ++i) {
      members->tick();
      const size_t sent = outbox.take_all<Ping>().size();
      (i < 95 ? first : later) += sent;
      clock.advance(milliseconds(10));
    }
    EXPECT_LE(first, (one_port ? 1u : Questions::kAskedOfHostMax) + 3) << "and some probes";
    EXPECT_LE(later, one_port ? 400u : 2500u) << "in a minute";
  }
}

TEST_F(MembershipTest, AStrangerHasBoundedNumbersOfPingsSent) {
  for (uint32_t other = 1; other <= 1000; ++other) members->add(record_of(other));
  size_t sent = 0;
  for (int i = 0; i < 90; ++i) {
    members->tick();
    sent += outbox.take_all<Ping>().size();
    clock.advance(milliseconds(10));
  }
  EXPECT_GE(sent, 128u);
  EXPECT_LE(sent, 2 * 128u + 4);
}

// Ids that somebody invents would hear most of what is told, and members hardly anything.
TEST_F(MembershipTest, NewsGoesToThoseThatAnswered) {
  add(1, 3);
  for (uint32_t other = 1; other <= 3; ++other) members->prove(peer_of(other), 1);
  for (uint32_t invented = 100; invented < 150; ++invented) members->add(record_of(invented));
  outbox.take();
  size_t told = 0;
  for (int i = 0; i < 100; ++i) {
    gossip(1, {.alive = {record_of(2, 1, static_cast<uint32_t>(i + 1))}});
    clock.advance(milliseconds(10));
    members->tick();
    for (const auto& [to, news] : outbox.take_all<Gossip>()) {
      told += to == peer_of(1) || to == peer_of(2) || to == peer_of(3);
      EXPECT_LT(to, peer_of(4));
    }
  }
  EXPECT_GE(told, 12u);
}

TEST_F(MembershipTest, TombstonesExpireAndAreBounded) {
  MembershipOptions options;
  options.tombstone_life = std::chrono::minutes(1);
  restart(options);
  add(1, 3);
  gossip(1, {.left = {record_of(1)}});
  EXPECT_EQ(members->all().size(), 3u);
  EXPECT_EQ(events_of(1).back(), MemberEventKind::kLeft);
  run_for(std::chrono::seconds(90));
  EXPECT_EQ(members->find(peer_of(1)), nullptr);
  EXPECT_EQ(events_of(1), std::vector{MemberEventKind::kReaped});
  for (uint32_t i = 0; i < 60; ++i) {
    for (uint32_t j = 0; j < 100; ++j) {
      const uint32_t number = 10 + i * 100 + j;
      members->add(record_of(number));
      gossip(number, {.left = {record_of(number)}});
    }
  }
  run_for(seconds(20));
  EXPECT_EQ(members->all().size(), kTombstonesMax + 2);
  EXPECT_EQ(members->counters().table_full, 6000 - kTombstonesMax);
  EXPECT_EQ(events_of(10).back(), MemberEventKind::kReaped);  // it had to make room
}

// Between two looks at the tombstones, and in what is passed on.
TEST_F(MembershipTest, IdsThatComeAndGoAreBounded) {
  add(1, 3);
  for (uint32_t number = 10; number < 12'010; ++number) {
    members->add(record_of(number));
    gossip(number, {.left = {record_of(number)}});
  }
  EXPECT_LE(members->all().size(), kMembersMax + 2 * kTombstonesMax);
  for (uint32_t member : {1, 2, 3}) EXPECT_EQ(state(member), MemberState::kAlive);
  run_for(seconds(150));
  size_t passed_on = 0;
  for (const Sent& sent : log) {
    const auto* news = message_as<Gossip>(sent.message);
    if (news) passed_on += news->updates.left.size();
  }
  EXPECT_LE(passed_on, 30'000u);
}

TEST_F(MembershipTest, TheTableIsBounded) {
  add(1, 1100);
  EXPECT_EQ(members->alive().size(), kMembersMax - 1);
  EXPECT_EQ(members->counters().table_full, 1100 - (kMembersMax - 1));
  const auto records = members->sample_records(kSyncRecordsMax);
  EXPECT_EQ(records.size(), kSyncRecordsMax);
  EXPECT_EQ(records[0].id, peer_of(0));
}

TEST_F(MembershipTest, FramesCarryABoundedNumberOfUpdatesAndEachIsPassedOnABoundedNumberOfTimes) {
  for (uint32_t i = 1; i <= 40; ++i) members->add(record_of(i));
  run_for(seconds(30));
  size_t about_7 = 0;
  for (const Sent& sent : log) {
    const auto* news = message_as<Gossip>(sent.message);
    const auto* ping = message_as<Ping>(sent.message);
    if (!news && !ping) continue;
    const Updates& updates = news ? news->updates : ping->updates;
    EXPECT_LE(updates.alive.size() + updates.suspect.size() + updates.left.size(), kGossipUpdatesPerFrameMax);
    for (const PeerRecord& record : updates.alive) about_7 += record.id == peer_of(7);
  }
  EXPECT_GE(about_7, 6u);
  EXPECT_LE(about_7, 8u);  // 4 * ceil(log10(42)), less those that would have told it about itself
}

TEST_F(MembershipTest, SyncBringsEachSideWhatItLacks) {
  add(1, 4);
  gossip(2, {.alive = {record_of(3, 1, 5)}});
  gossip(2, {.suspect = {suspicion_of(4, {1, 0}, 2)}});
  outbox.take();
  Sync sync{.records = {record_of(1)}, .reply_wanted = true};
  sync.digest = {{peer_of(1), {1, 0}, 0}, {peer_of(3), {1, 2}, 0}, {peer_of(4), {1, 0}, 0}, {peer_of(9), {1, 0}, 0}};
  members->handle(peer_of(1), sync);
  const auto replies = outbox.take_all<Sync>();
  ASSERT_EQ(replies.size(), 1u);
  const Sync& reply = replies[0].second;
  EXPECT_FALSE(reply.reply_wanted);
  std::vector<PeerId> ids;
  for (const PeerRecord& record : reply.records) ids.push_back(record.id);
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(ids, (std::vector<PeerId>{peer_of(0), peer_of(2), peer_of(3)}));
  ASSERT_EQ(reply.digest.size(), 2u);
  for (const DigestEntry& entry : reply.digest) {
    const bool suspect = entry.id == peer_of(4) && entry.state == static_cast<uint8_t>(MemberState::kSuspect);
    const bool please_send = entry.id == peer_of(9) && entry.version == Version{0, 0};
    EXPECT_TRUE(suspect || please_send);
  }
}

TEST_F(MembershipTest, ARequestForRecordsIsAnsweredAndEndsThere) {
  add(1, 4);
  members->handle(peer_of(1), Sync{.digest = {{peer_of(2), {0, 0}, 0}}});
  const auto replies = outbox.take_all<Sync>();
  ASSERT_EQ(replies.size(), 1u);
  ASSERT_EQ(replies[0].second.records.size(), 1u);
  EXPECT_EQ(replies[0].second.records[0].id, peer_of(2));
  members->handle(peer_of(1), replies[0].second);
  EXPECT_TRUE(outbox.take().empty()) << "an answer is not answered";
}

TEST_F(MembershipTest, DeadInASyncIsASuspicionNotAVerdict) {
  add(1, 4);
  members->handle(peer_of(1), Sync{.digest = {{peer_of(2), {1, 0}, 2}, {peer_of(0), {1, 0}, 2}}});
  EXPECT_EQ(state(2), MemberState::kSuspect);
  EXPECT_EQ(members->self().version, (Version{1, 1})) << "itself: refuted";
}

TEST_F(MembershipTest, DeadMembersAndSeedsAreContactedForEver) {
  const Endpoint seed{"seed.example", 7400};
  members->set_seeds({seed, endpoint_of(0)});
  add(1, 2);
  run_for(seconds(60), {1, 2});
  EXPECT_EQ(state(1), MemberState::kDead);
  EXPECT_EQ(state(2), MemberState::kDead);
  log.clear();
  run_for(std::chrono::minutes(5), {1, 2});
  size_t to_seed = 0, to_dead = 0;
  for (const Sent& sent : log) {
    if (!message_is<Sync>(sent.message)) continue;
    to_seed += sent.to.is_zero() && sent.address == seed;
    to_dead += !sent.to.is_zero();
    EXPECT_FALSE(sent.address == endpoint_of(0)) << "itself is no seed";
  }
  EXPECT_GE(to_seed, 15u);
  EXPECT_GE(to_dead, 15u);
  EXPECT_LE(to_seed + to_dead, 100u);
}

TEST_F(MembershipTest, ADeadMemberThatReturnsHearsOfItAndComesBack) {
  add(1, 2);
  run_for(seconds(60), {1});
  ASSERT_EQ(state(1), MemberState::kDead);
  outbox.take();
  members->handle(peer_of(1), Ping{5, peer_of(0), {.alive = {record_of(1)}}});
  const auto answers = outbox.take_all<Gossip>();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].second.updates.suspect.at(0).subject, peer_of(1));
  gossip(1, {.alive = {record_of(1, 1, 1)}});
  EXPECT_EQ(state(1), MemberState::kAlive);
  EXPECT_EQ(events_of(1).back(), MemberEventKind::kAliveAgain);
}

// The same news in any order; passed on repeatedly, as gossip is.
TEST_F(MembershipTest, AnyOrderOfTheSameNewsGivesTheSameState) {
  for (uint64_t rng_seed = 1; rng_seed <= seed_count(300); ++rng_seed) {
    Rng rng(rng_seed);
    struct News {
      uint32_t from;
      Updates updates;
    };
    std::vector<News> news;
    for (int i = 0; i < 30; ++i) {
      const uint32_t subject = 1 + rng.below(4);
      const Version version{1 + rng.below(2), rng.below(3)};
      const uint32_t from = 10 + rng.below(4);
      switch (rng.below(4)) {
        case 0: news.push_back({from, {.suspect = {{peer_of(subject), version, peer_of(from)}}}}); break;
        case 1:
          news.push_back({subject, {.left = {record_of(subject, version.generation, version.incarnation)}}});
          break;
        default: news.push_back({from, {.alive = {record_of(subject, version.generation, version.incarnation)}}});
      }
    }
    std::vector<std::pair<Version, MemberState>> expected;
    for (int order = 0; order < 4; ++order) {
      restart({});
      add(1, 13);
      rng.shuffle(news);
      for (int pass = 0; pass < 2; ++pass) {
        for (const News& one : news) gossip(one.from, one.updates);
      }
      std::vector<std::pair<Version, MemberState>> result;
      for (const Member& member : members->all()) result.emplace_back(member.record.version, member.state);
      if (order == 0) expected = result;
      ASSERT_EQ(result, expected) << "rng seed " << rng_seed;
    }
  }
}

}  // namespace
}  // namespace starling
