// Which frames a router lets in, where each goes, and how those it refuses are counted.
#include "bootstrap/router.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <string>

#include "bootstrap/memory_model.h"
#include "gossip/limits.h"
#include "gossip/sim/virtual_network.h"
#include "tests/gossip/membership/membership_support.h"
#include "tests/gossip/net/numbered_identity.h"
#include "tests/gossip/net/wire_samples.h"
#include "tests/support/fake_clock.h"

namespace starling {
namespace {

// Hands out what the test puts in, and keeps what is sent.
class ScriptedTransport final : public Transport {
 public:
  SendStatus send(const Endpoint& to, Channel, Frame frame) override {
    sent.emplace_back(to, std::move(frame));
    return SendStatus::kQueued;
  }
  std::optional<ReceivedFrame> poll() override {
    if (waiting.empty()) return std::nullopt;
    ReceivedFrame frame = std::move(waiting.front());
    waiting.pop_front();
    return frame;
  }
  void wait_until(TimePoint) override {}
  void wake() override {}
  void forget(const Endpoint& peer) override { forgotten.push_back(peer); }
  void cut(const ReceivedFrame& frame) override { cut_links.push_back(frame.connection); }
  Endpoint local() const override { return endpoint_of(0); }
  TransportCounters counters() const override { return {}; }

  std::deque<ReceivedFrame> waiting;
  std::vector<std::pair<Endpoint, Frame>> sent;
  std::vector<Endpoint> forgotten;
  std::vector<int> cut_links;
};

class RouterTest : public ::testing::Test, public Router::Handler {
 protected:
  RouterTest()
      : router({record_of(0),
                {},
                {},
                1,
                [](const std::string& ours, const std::string& theirs) { return ours + " is not " + theirs; }},
               transport, clock) {}

  void on_bootstrap(const FrameHeader&, const BootstrapMessage&, const SharedBytes&) override { ++bootstrap; }
  void on_exchange(const FrameHeader&, const ExchangeMessage&, const SharedBytes& payload) override {
    ++exchange;
    payload_bytes += payload.size;
  }
  void on_member(const MemberEvent& event) override { events.push_back(event); }
  void on_frame_refused(const ReceivedFrame&, const char* cause) override { refusals.emplace_back(cause); }

  // A frame of peer `from`, who says that it trains `settings`.
  ReceivedFrame frame(uint32_t from, const Message& message, const std::string& settings = "digits",
                      size_t payload_bytes_in = 0) {
    const SharedBytes payload = SharedBytes::take(std::vector<std::byte>(payload_bytes_in));
    const uint64_t swarm = settings.empty() ? 0 : swarm_id_of(settings);
    const FrameHeader header{swarm, peer_of(from), 1, endpoint_of(from)};
    return {channel_of(message), SharedBytes::take(encode_frame_header(header, message, payload.span())), payload};
  }
  void receive(ReceivedFrame received) {
    transport.waiting.push_back(std::move(received));
    router.tick(*this);
  }
  // A Join, and again with the cookie that the first one is answered with.
  void receive_join(Join join, const std::string& settings) {
    const uint32_t from = join.record.id.bytes[1];
    receive(frame(from, join, settings));
    join.cookie = last_sent<JoinCookie>().value_or(JoinCookie{}).cookie;
    receive(frame(from, join, settings));
  }
  template <typename Kind>
  std::optional<Kind> last_sent() {
    FrameHeader header;
    Message message;
    for (auto sent = transport.sent.rbegin(); sent != transport.sent.rend(); ++sent) {
      const Frame& frame = sent->second;
      EXPECT_EQ(decode_frame(channel_of(Kind{}), frame.header, frame.payload.span(), &header, &message),
                DecodeStatus::kOk);
      if (const Kind* kind = message_as<Kind>(message)) return *kind;
    }
    return std::nullopt;
  }

  VirtualClock clock;
  ScriptedTransport transport;
  Router router;
  size_t bootstrap = 0, exchange = 0, payload_bytes = 0;
  std::vector<MemberEvent> events;
  std::vector<std::string> refusals;
};

TEST_F(RouterTest, EachFamilyGoesToItsPart) {
  router.set_settings("digits");
  router.membership().add(record_of(1));
  receive(frame(1, Gossip{Updates{.alive = {record_of(2)}}}));
  ASSERT_EQ(events.size(), 2u) << "1 by add, 2 by gossip";
  EXPECT_EQ(events[1].peer, peer_of(2));
  receive(frame(1, JoinRefused{"reason", "settings"}));
  receive(frame(1, ModelBlock{1, 0}, "digits", 100));
  EXPECT_EQ(bootstrap, 2u);
  receive(frame(1, RoundBlock{.group = 3, .mass = 1}, "digits", 64));
  receive(frame(1, Query{{peer_of(0), 1, 1}}));
  EXPECT_EQ(exchange, 2u);
  EXPECT_EQ(payload_bytes, 64u);
  receive(frame(1, ModelRequest{}));
  receive(frame(1, ModelRequest{0, last_sent<JoinCookie>().value_or(JoinCookie{}).cookie}));
  EXPECT_TRUE(last_sent<ModelOffer>()) << "the donor answers by itself";
  EXPECT_EQ(router.counters().frames_refused(), 0u);
}

TEST_F(RouterTest, FramesOfOtherSwarmsAreCountedAndOnlyJoinsPass) {
  router.set_settings("digits");
  receive(frame(1, Gossip{Updates{.alive = {record_of(1)}}}, "mnist"));
  receive(frame(1, Query{{peer_of(0), 1, 1}}, "mnist"));
  receive(frame(1, ModelRequest{}, ""));
  EXPECT_EQ(router.counters().other_swarm, 3u);
  receive(frame(1, sample_state(), "mnist", 64));
  receive(frame(1, sample_entry(), "mnist", 64));
  EXPECT_EQ(router.counters().other_swarm, 5u);
  EXPECT_EQ(exchange, 0u);
  EXPECT_TRUE(transport.sent.empty());
  EXPECT_TRUE(router.membership().all().empty());
  EXPECT_TRUE(refusals.empty()) << "other swarms are no news";
  receive_join(Join{record_of(1), ""}, "");
  EXPECT_EQ(router.counters().joins, 1u);
  EXPECT_EQ(last_sent<JoinReply>().value_or(JoinReply{}).settings, "digits");
  EXPECT_NE(router.membership().find(peer_of(1)), nullptr);
}

// A stranger knows the swarm's id, and names whom it likes to answer to.
TEST_F(RouterTest, TheModelGoesOnlyToAnAddressThatShowsItsCookie) {
  router.set_settings("digits");
  router.donor().set_model(std::make_shared<MemoryModel>(SharedBytes::take(std::vector<std::byte>(9000)), 1, 0, 0));
  const auto receive_from = [&](uint32_t address, const Message& message) {
    const FrameHeader header{swarm_id_of("digits"), peer_of(1), 1, endpoint_of(address)};
    receive({channel_of(message), SharedBytes::take(encode_frame_header(header, message, {})), {}});
  };
  const auto ask = [&](uint32_t address, uint64_t cookie) {
    transport.sent.clear();
    receive_from(address, ModelRequest{0, cookie});
    receive_from(address, ModelBlockRequest{1, 0, cookie});
    return last_sent<JoinCookie>().value_or(JoinCookie{}).cookie;
  };
  const uint64_t cookie = ask(1, 0);
  EXPECT_NE(cookie, 0u);
  EXPECT_NE(ask(2, cookie), cookie) << "of the same newcomer elsewhere";
  EXPECT_EQ(transport.sent.size(), 2u);
  for (const auto& [to, sent] : transport.sent) {
    EXPECT_EQ(to, endpoint_of(2));
    EXPECT_EQ(sent.payload.size, 0u);
    EXPECT_LT(sent.header.size(), 256u);
  }
  EXPECT_EQ(router.counters().requests_unproven, 4u);
  clock.advance(std::chrono::hours(3));
  transport.sent.clear();
  receive(frame(1, ModelRequest{0, cookie}));
  EXPECT_TRUE(last_sent<ModelOffer>()) << "a transfer may take so long";
  receive(frame(1, ModelBlockRequest{1, 0, cookie}));
  EXPECT_EQ(transport.sent.back().second.payload.size, 9000u);
  EXPECT_EQ(transport.sent.back().first, endpoint_of(1));
}

// Else a stranger could have any number of frames sent to whomever it names.
TEST_F(RouterTest, RequestsWithoutACookieAreAnsweredSoOftenASecondForEachSource) {
  router.set_settings("digits");
  router.donor().set_model(std::make_shared<MemoryModel>(SharedBytes::take(std::vector<std::byte>(9000)), 1, 0, 0));
  const auto ask = [&](uint32_t newcomer, const std::string& source, uint64_t cookie, bool block = false) {
    transport.sent.clear();
    ReceivedFrame asked = frame(newcomer, ModelRequest{0, cookie, 7});
    if (block) asked = frame(newcomer, ModelBlockRequest{1, 0, cookie, 7});
    asked.source = source;
    receive(std::move(asked));
    const std::optional<JoinCookie> answer = last_sent<JoinCookie>();
    EXPECT_EQ(answer.value_or(JoinCookie{1, 7}).nonce, 7u);
    return answer;
  };
  size_t answers = 0;
  for (int i = 0; i < 1000; ++i) {
    answers += ask(500, "10.0.0.9", 0).has_value() + ask(500, "10.0.0.9", 0, true).has_value();
  }
  EXPECT_GT(answers, 0u);
  EXPECT_LE(answers, kJoinsAtOnce);
  EXPECT_EQ(router.counters().requests_unproven, answers);
  EXPECT_EQ(router.counters().joins_dropped, 2000 - answers);
  for (uint32_t newcomer = 1; newcomer <= 8; ++newcomer) {  // eight behind one address
    const std::optional<JoinCookie> answer = ask(newcomer, "10.0.0.8", 0);
    ASSERT_TRUE(answer) << newcomer;
    for (int page = 0; page < 100; ++page) {
      ask(newcomer, "10.0.0.8", answer->cookie);
      EXPECT_TRUE(last_sent<ModelOffer>()) << "whoever has shown it is not limited";
    }
    EXPECT_EQ(last_sent<ModelOffer>().value_or(ModelOffer{}).nonce, 7u);
    receive(frame(newcomer, ModelBlockRequest{1, 0, answer->cookie, 7}));
    transport.sent.erase(transport.sent.begin());  // the offer, which went to the other port
    EXPECT_EQ(last_sent<ModelBlock>().value_or(ModelBlock{}).nonce, 7u);
  }
  clock.advance(std::chrono::seconds(1));
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(ask(500, "10.0.0.9", 0)) << i;
}

TEST_F(RouterTest, StrangersDoNotTakeThePlacesOfThoseThatWaitForANewerModel) {
  router.set_settings("digits");
  const auto model = [](uint64_t steps) {
    return std::make_shared<MemoryModel>(SharedBytes::take(std::vector<std::byte>(9000)), steps, 0, steps);
  };
  router.donor().set_model(model(1));
  router.donor().set_steps(1000);
  for (uint32_t stranger = 100; stranger < 200; ++stranger) receive(frame(stranger, ModelRequest{0, stranger}));
  EXPECT_FALSE(router.donor().wants_newer(clock.now())) << "nor does anybody save one for them";
  receive(frame(1, ModelRequest{}));
  const uint64_t cookie = last_sent<JoinCookie>().value_or(JoinCookie{}).cookie;
  transport.sent.clear();
  receive(frame(1, ModelRequest{0, cookie}));
  EXPECT_TRUE(transport.sent.empty()) << "it waits";
  router.donor().set_model(model(1000));
  EXPECT_EQ(last_sent<ModelOffer>().value_or(ModelOffer{}).steps, 1000u);
}

// The cookie has shown that the record's address is the sender's, and says nothing of the frame's.
TEST_F(RouterTest, AJoinIsAnsweredWhereItsCookieWent) {
  router.set_settings("digits");
  for (const char* settings : {"", "mnist"}) {
    Join join{record_of(1), settings, 9};
    join.record.endpoint = endpoint_of(7);  // frame() names endpoint_of(1)
    transport.sent.clear();
    receive_join(join, settings);
    EXPECT_GE(transport.sent.size(), 2u);
    for (const auto& [to, sent] : transport.sent) EXPECT_EQ(to, endpoint_of(7));
  }
  EXPECT_EQ(router.counters().joins, 1u);
  EXPECT_EQ(router.counters().joins_refused, 1u);
}

TEST_F(RouterTest, ANewcomerToAFullSwarmIsToldSo) {
  router.set_settings("digits");
  uint32_t number = 2;
  for (; router.membership().counters().table_full == 0; ++number) router.membership().add(record_of(number));
  EXPECT_GE(number, kMembersMax);
  receive_join(Join{record_of(1), "digits", 9}, "digits");
  EXPECT_EQ(last_sent<JoinRefused>().value_or(JoinRefused{}).reason,
            "the swarm has 1024 members, which is the most it can have; end some of them, or begin another swarm");
  EXPECT_EQ(router.counters().joins_refused, 1u);
  EXPECT_EQ(router.counters().joins, 0u);
}

TEST_F(RouterTest, WithoutSettingsNoFrameIsOfThisSwarm) {
  receive(frame(1, Gossip{Updates{.alive = {record_of(1)}}}, ""));
  EXPECT_EQ(router.counters().other_swarm, 1u) << "no two agents without settings are one swarm";
  EXPECT_TRUE(router.membership().all().empty());
}

TEST_F(RouterTest, DamagedFramesAreCountedByCause) {
  router.set_settings("digits");
  ReceivedFrame damaged = frame(1, Gossip{});
  std::vector<std::byte> bytes(damaged.header.span().begin(), damaged.header.span().end());
  bytes.back() ^= std::byte{1};
  damaged.header = SharedBytes::take(bytes);
  receive(damaged);
  receive(damaged);
  ReceivedFrame misplaced = frame(1, Gossip{});
  misplaced.channel = Channel::kBulk;
  receive(misplaced);
  const RouterCounters& counters = router.counters();
  EXPECT_EQ(counters.undecoded[static_cast<size_t>(DecodeStatus::kBadChecksum)], 2u);
  EXPECT_EQ(counters.undecoded[static_cast<size_t>(DecodeStatus::kWrongChannel)], 1u);
  EXPECT_EQ(counters.frames_refused(), 3u);
  EXPECT_EQ(counters.refusals().size(), 2u);
  EXPECT_EQ(refusals,
            (std::vector<std::string>{describe(DecodeStatus::kBadChecksum), describe(DecodeStatus::kBadChecksum),
                                      describe(DecodeStatus::kWrongChannel)}));
}

TEST_F(RouterTest, ANewcomerAtTheBulkPortIsToldTheOtherOne) {
  router.set_settings("digits");
  ReceivedFrame misplaced = frame(1, Join{record_of(1), "", 77}, "");
  misplaced.channel = Channel::kBulk;
  receive(misplaced);
  const JoinRefused told = last_sent<JoinRefused>().value_or(JoinRefused{});
  EXPECT_EQ(told.nonce, 77u);
  EXPECT_NE(told.reason.find("name the one before, " + endpoint_of(0).to_string()), std::string::npos) << told.reason;
  EXPECT_EQ(router.counters().frames_refused(), 0u);
  for (int i = 0; i < 1000; ++i) receive(misplaced);
  EXPECT_LE(transport.sent.size(), static_cast<size_t>(kJoinsAtOnce)) << "no more than answers to Joins";
  EXPECT_GT(router.counters().frames_refused(), 700u);
}

TEST_F(RouterTest, ASenderThatIsNotTheAuthenticatedOneIsRefused) {
  router.set_settings("digits");
  ReceivedFrame forged = frame(1, Gossip{Updates{.alive = {record_of(1)}}});
  forged.authenticated = peer_of(2);
  forged.connection = 7;
  receive(forged);
  EXPECT_EQ(transport.cut_links, std::vector<int>{7});
  EXPECT_EQ(router.counters().wrong_sender, 1u);
  EXPECT_EQ(refusals.size(), 1u);
  EXPECT_TRUE(router.membership().all().empty());
  ReceivedFrame joining = frame(1, Join{record_of(1), "digits"}, "");
  joining.authenticated = peer_of(2);
  receive(joining);
  EXPECT_EQ(router.counters().wrong_sender, 2u);
  EXPECT_EQ(router.counters().joins, 0u) << "not even a join";

  forged.authenticated = peer_of(1);
  receive(forged);
  EXPECT_EQ(transport.cut_links.size(), 2u);
  EXPECT_EQ(router.counters().frames_refused(), 2u);
  EXPECT_NE(router.membership().find(peer_of(1)), nullptr);
}

// Memberships end at kEnd, and by the clock of this machine it is `wall.unix_s`.
class EndingMembershipsTest : public RouterTest {
 protected:
  static constexpr uint64_t kEnd = 1'800'000'000, kYear = 365 * 24 * 3600;

  static RouterOptions options(MemberClocks& clocks) {
    RouterOptions options{record_of(0), {}, {}, 1, [](const std::string&, const std::string&) { return ""; }};
    options.clocks = &clocks;
    return options;
  }
  EndingMembershipsTest() { judge.set_settings("digits"); }
  void know(std::initializer_list<uint32_t> members) {
    for (const uint32_t member : members) judge.membership().add(record_of(member));
  }
  // Whether the frame's message reached its part.
  bool passes(uint32_t from, const Message& message, uint64_t not_after = kEnd) {
    ReceivedFrame received = frame(from, message);
    received.authenticated = peer_of(from);
    received.not_after = not_after;
    received.connection = static_cast<int>(from);
    const uint64_t before = judge.counters().no_member;
    transport.waiting.push_back(std::move(received));
    judge.tick(*this);
    return judge.counters().no_member == before;
  }
  bool tells(uint32_t from, uint64_t unix_s, uint64_t not_after = kEnd) {
    return passes(from, PingAck{1, {}, {}, unix_s}, not_after);
  }

  FakeClock wall;
  MemberClocks clocks{wall};
  Router judge{options(clocks), transport, clock};
};

TEST_F(EndingMembershipsTest, AloneThisMachinesClockDecides) {
  know({1});
  wall.unix_s = kEnd;
  EXPECT_TRUE(passes(1, Query{{peer_of(0), 1, 1}}));
  EXPECT_EQ(exchange, 1u);
  wall.unix_s = kEnd + 1;
  EXPECT_FALSE(passes(1, Query{{peer_of(0), 1, 1}}));
  EXPECT_FALSE(passes(1, Gossip{Updates{.alive = {record_of(3)}}}));
  EXPECT_FALSE(tells(1, kEnd - kYear)) << "of two clocks this machine's own counts";
  EXPECT_FALSE(passes(1, Join{record_of(1), "digits"}));
  EXPECT_NE(last_sent<JoinRefused>().value_or(JoinRefused{}).reason.find("has expired"), std::string::npos);
  EXPECT_FALSE(last_sent<JoinCookie>());
  EXPECT_TRUE(passes(1, Query{{peer_of(0), 1, 1}}, 0)) << "one that never ends";
  EXPECT_EQ(exchange, 2u);
  EXPECT_EQ(judge.membership().find(peer_of(3)), nullptr);
  EXPECT_TRUE(transport.cut_links.empty()) << "this machine's clock may be wrong";
}

TEST_F(EndingMembershipsTest, AClockAYearAheadEndsNothingWhereTwoOthersTellTheirs) {
  know({1, 2, 3});
  wall.unix_s = kEnd + kYear;
  EXPECT_FALSE(passes(3, Query{{peer_of(0), 1, 1}}));
  EXPECT_EQ(last_sent<Ping>().value_or(Ping{}).target, peer_of(3)) << "it is asked for its clock";
  EXPECT_FALSE(tells(1, kEnd - 5));
  EXPECT_TRUE(tells(2, kEnd - 5));
  EXPECT_TRUE(passes(3, Query{{peer_of(0), 1, 1}}));
  EXPECT_EQ(exchange, 1u);
  EXPECT_TRUE(transport.cut_links.empty()) << "the links of those that answer must last";
}

// What one asks the other is late there, too.
TEST_F(EndingMembershipsTest, TwoThatAreLateToEachOtherDoNotAskForEver) {
  know({1});
  wall.unix_s = kEnd + 1;
  EXPECT_FALSE(passes(1, Query{{peer_of(0), 1, 1}}));
  const std::optional<Ping> asked = last_sent<Ping>();
  ASSERT_TRUE(asked);
  transport.sent.clear();
  EXPECT_FALSE(passes(1, Ping{asked->sequence, peer_of(0), {}}));
  EXPECT_NE(last_sent<Ping>().value_or(Ping{1, {}, {}}).sequence, asked->sequence) << "a probe may have been due";
}

TEST_F(EndingMembershipsTest, AClockAYearBehindLetsNobodyStay) {
  know({1, 2, 3});
  wall.unix_s = kEnd - kYear;
  EXPECT_TRUE(passes(3, Query{{peer_of(0), 1, 1}}));
  EXPECT_TRUE(tells(1, kEnd + 5, 0));
  EXPECT_TRUE(tells(2, kEnd + 5, 0));
  EXPECT_FALSE(passes(3, Query{{peer_of(0), 1, 1}}));
  EXPECT_EQ(transport.cut_links, std::vector<int>{3});
}

TEST_F(EndingMembershipsTest, ThoseThatHaveExpiredByTheOthersClocksHaveNoSay) {
  know({1, 2, 3, 4, 5});
  wall.unix_s = kEnd + 5;
  EXPECT_TRUE(tells(1, kEnd + 5, 0));
  EXPECT_TRUE(tells(2, kEnd + 5, 0));
  for (const uint32_t liar : {3u, 4u, 5u}) EXPECT_FALSE(tells(liar, kEnd - kYear));
  EXPECT_EQ(clocks.count(), 2u);
  EXPECT_FALSE(passes(3, Query{{peer_of(0), 1, 1}}));
}

TEST_F(EndingMembershipsTest, NoStrangersClockCounts) {
  know({1});
  wall.unix_s = kEnd + kYear;
  EXPECT_FALSE(tells(8, kEnd - 5));
  EXPECT_FALSE(tells(9, kEnd - 5));
  EXPECT_EQ(clocks.count(), 0u);
  ReceivedFrame forged = frame(1, PingAck{1, {}, {}, kEnd - 5});
  transport.waiting.push_back(std::move(forged));
  judge.tick(*this);
  EXPECT_EQ(clocks.count(), 0u) << "of no proven sender";
}

// Else a newcomer with a clock that is far ahead would never be let in.
TEST_F(EndingMembershipsTest, ANewcomerHearsTheAnswersToItsQuestions) {
  wall.unix_s = kEnd + kYear;
  const auto answer = [this](uint32_t from) { return passes(from, JoinReply{"digits", {record_of(from)}, "", 1}); };
  EXPECT_TRUE(answer(1));
  EXPECT_TRUE(passes(1, JoinCookie{1, 1}));
  EXPECT_EQ(bootstrap, 2u);
  EXPECT_FALSE(passes(1, Query{{peer_of(0), 1, 1}}));
  know({1});
  EXPECT_FALSE(answer(1)) << "it is a newcomer no more";
}

// It may go on to send what an honest program no longer sends.
TEST_F(RouterTest, EachFrameOfARevokedMemberCostsItsLinkAndDoesNothing) {
  const Identity key = identity_of(1);
  Revocations revocations(key.id());
  RouterOptions options{record_of(0), {}, {}, 1, [](const std::string&, const std::string&) { return ""; }};
  options.revocations = &revocations;
  Router certified(options, transport, clock);
  certified.set_settings("digits");
  certified.membership().add(record_of(1));
  certified.membership().add(record_of(2));
  certified.membership().revoke(sign_revocation(key, peer_of(1), 1));
  std::vector<int> expected;
  const auto cut = [&](uint32_t from, const Message& message, size_t payload_bytes_in = 0) {
    ReceivedFrame received = frame(from, message, "digits", payload_bytes_in);
    received.authenticated = peer_of(from);
    received.connection = static_cast<int>(7 + expected.size());
    if (from == 1) expected.push_back(received.connection);
    transport.sent.clear();
    transport.waiting.push_back(std::move(received));
    certified.tick(*this);
    EXPECT_EQ(transport.cut_links, expected);
  };
  cut(1, Join{record_of(1), "digits"});
  EXPECT_EQ(last_sent<Revoked>().value_or(Revoked{}).entries, revocations.bytes()) << "it is told why";
  EXPECT_FALSE(last_sent<JoinCookie>());
  cut(1, Propose{.xid = {peer_of(1), 1, 1}, .deadline_ms = 1000});
  cut(1, BlockPayload{{peer_of(1), 1, 1}, 0}, 64);
  cut(1, RoundBlock{.group = 3, .mass = 1}, 64);
  cut(1, sample_entry(), 64);
  cut(1, Gossip{Updates{.alive = {record_of(3)}}});
  cut(1, ModelRequest{});
  cut(1, ModelBlock{1, 0}, 100);
  EXPECT_EQ(certified.counters().no_member, expected.size());
  EXPECT_EQ(exchange + bootstrap, 0u);
  EXPECT_EQ(certified.membership().find(peer_of(3)), nullptr);
  cut(2, RoundBlock{.group = 3, .mass = 1}, 64);
  EXPECT_EQ(exchange, 1u) << "others are heard, and keep their links";
}

TEST_F(RouterTest, WithoutSettingsItAdoptsNobodysAndWithThemItRefusesOthers) {
  for (const char* settings : {"", "digits"}) {
    receive_join(Join{record_of(1), settings, 9}, settings);
    EXPECT_EQ(router.swarm_id(), 0u) << "whoever comes first decides nothing";
    EXPECT_TRUE(router.membership().all().empty()) << "without settings nobody is let in";
    EXPECT_EQ(last_sent<JoinReply>().value_or(JoinReply{}).nonce, 9u);
  }
  router.set_settings("digits");
  receive_join(Join{record_of(3), "mnist", 10}, "mnist");
  const JoinRefused refused = last_sent<JoinRefused>().value_or(JoinRefused{});
  EXPECT_EQ(refused.reason, "digits is not mnist");
  EXPECT_EQ(refused.nonce, 10u);
  EXPECT_EQ(router.counters().joins_refused, 1u);
  EXPECT_EQ(router.membership().find(peer_of(3)), nullptr);
}

// Of another version: as frames of this one, with another number in the prefix.
Frame of_version(uint16_t version, Frame frame) {
  std::memcpy(frame.header.data() + 4, &version, sizeof version);
  return frame;
}

// Silence would let it ask for ever. The answer is of the asker's version, so that its program reads it.
TEST_F(RouterTest, ANewcomerOfAnotherVersionHearsWhichAndWhatToDo) {
  router.set_settings("digits");
  for (const uint16_t version : {uint16_t{kProtocolVersion - 1}, uint16_t{kProtocolVersion + 1}}) {
    transport.sent.clear();
    ReceivedFrame asked = frame(1, Join{record_of(1), "", 77}, "");
    Frame other = of_version(version, {{asked.header.span().begin(), asked.header.span().end()}, {}});
    asked.header = SharedBytes::take(std::move(other.header));
    receive(std::move(asked));
    ASSERT_EQ(transport.sent.size(), 1u);
    EXPECT_EQ(transport.sent[0].first, endpoint_of(1));
    uint16_t answered;
    std::memcpy(&answered, transport.sent[0].second.header.data() + 4, sizeof answered);
    EXPECT_EQ(answered, version);
    transport.sent[0].second = of_version(kProtocolVersion, std::move(transport.sent[0].second));
    const auto refused = last_sent<JoinRefused>();
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->nonce, 77u);
    const bool older = version < kProtocolVersion;
    EXPECT_EQ(refused->reason, "this program speaks version " + std::to_string(kProtocolVersion) +
                                   " of the protocol and yours version " + std::to_string(version) + ": update the " +
                                   (older ? "newcomer's" : "swarm's") + " program");
  }
  EXPECT_EQ(router.counters().joins_refused, 2u);
  EXPECT_TRUE(router.membership().all().empty());
}

// It would be let in, and would then wait for its model for ever.
TEST_F(RouterTest, ANewcomerOfAnOlderProgramHearsBothVersionsAndWhatToDo) {
  router.set_settings("digits");
  Join join{record_of(1), "", 77, 0, 0};
  join.record.meta.phase = Phase::kJoining;
  receive(frame(1, join, ""));
  ASSERT_EQ(transport.sent.size(), 1u) << "the oldest know no cookie";
  EXPECT_EQ(transport.sent[0].first, endpoint_of(1));
  const JoinRefused refused = last_sent<JoinRefused>().value_or(JoinRefused{});
  EXPECT_EQ(refused.nonce, 77u);
  EXPECT_EQ(refused.reason,
            "this program speaks version 2.2 of the protocol and yours version 2.0: update the "
            "newcomer's program");
  EXPECT_EQ(router.counters().joins_older, 1u);
  for (int i = 0; i < 1000; ++i) receive(frame(1, join, ""));
  EXPECT_LE(transport.sent.size(), kJoinsAtOnce) << "nor is its address proven";
  EXPECT_TRUE(router.membership().all().empty());

  clock.advance(std::chrono::minutes(1));
  join.record.meta.phase = Phase::kTraining;
  receive_join(join, "digits");
  EXPECT_TRUE(last_sent<JoinReply>()) << "who has a model already stays a member";
  const uint64_t before = router.counters().joins_older;
  receive(frame(1, ModelRequest{}));
  receive(frame(1, ModelRequest{0, 0, 9}));
  EXPECT_EQ(router.counters().joins_older, before + 1) << "the first has no number";
}

TEST_F(RouterTest, OfAnotherVersionOnlyJoinsAreAnsweredAndSoManyASecond) {
  router.set_settings("digits");
  const auto receive_older = [&](const Message& message) {
    ReceivedFrame asked = frame(1, message, "");
    Frame other = of_version(1, {{asked.header.span().begin(), asked.header.span().end()}, {}});
    asked.header = SharedBytes::take(std::move(other.header));
    asked.source = "10.0.0.9";
    receive(std::move(asked));
  };
  receive_older(Gossip{Updates{.alive = {record_of(2)}}});
  receive_older(JoinReply{"digits", {}, "", 77});
  receive_older(JoinRefused{"no", "", 77});
  EXPECT_TRUE(transport.sent.empty()) << "an answer to an answer would never end";
  for (int i = 0; i < 1000; ++i) receive_older(Join{record_of(1), "", 77});
  EXPECT_GT(transport.sent.size(), 0u);
  EXPECT_LE(transport.sent.size(), 256u);
}

TEST_F(RouterTest, ANewcomerThatWantsAnotherSwarmIsRefused) {
  router.set_settings("digits");
  receive_join(Join{record_of(1), "", 1}, "mnist");  // the header names the swarm
  EXPECT_EQ(router.counters().joins_refused, 1u);
  EXPECT_EQ(router.membership().find(peer_of(1)), nullptr);
  receive_join(Join{record_of(1), "", 1}, "digits");
  EXPECT_EQ(router.counters().joins, 1u);
}

Message proposal_of(uint32_t peer) { return Propose{.xid = {peer_of(peer), 1, 1}, .deadline_ms = 500}; }

PeerRecord record_in(uint32_t peer, Phase phase) {
  PeerRecord record = record_of(peer);
  record.meta.phase = phase;
  return record;
}

// Silence would cost an honest newcomer a deadline: its record may not have come yet.
TEST_F(RouterTest, AProposalOfAStrangerIsAnsweredBusyAndItsRecordAskedFor) {
  router.set_settings("digits");
  receive(frame(1, proposal_of(1)));
  EXPECT_EQ(exchange, 0u);
  EXPECT_EQ(router.counters().proposals_refused, 1u);
  EXPECT_EQ(last_sent<Busy>().value_or(Busy{}).xid.proposer, peer_of(1));
  const Sync asked = last_sent<Sync>().value_or(Sync{});
  ASSERT_EQ(asked.digest.size(), 1u);
  EXPECT_EQ(asked.digest[0].id, peer_of(1));
  for (const auto& [to, sent] : transport.sent) EXPECT_EQ(to, endpoint_of(1));

  receive(frame(1, Sync{.records = {record_in(1, Phase::kTraining)}}));  // its answer
  receive(frame(1, proposal_of(1)));
  EXPECT_EQ(exchange, 1u);
}

TEST_F(RouterTest, OnlyMembersThatTrainOrSettleMayPropose) {
  router.set_settings("digits");
  for (const Phase phase : {Phase::kJoining, Phase::kTraining, Phase::kSettling, Phase::kFinished, Phase::kSick}) {
    const auto peer = static_cast<uint32_t>(10 + static_cast<int>(phase));
    router.membership().add(record_in(peer, phase));
    const size_t before = exchange;
    receive(frame(peer, proposal_of(peer)));
    EXPECT_EQ(exchange - before, phase == Phase::kTraining || phase == Phase::kSettling) << static_cast<int>(phase);
  }
  PeerRecord registry = record_in(20, Phase::kTraining);
  registry.meta.role = Role::kBootstrap;
  router.membership().add(registry);
  PeerRecord earlier = record_in(21, Phase::kTraining);  // and then it restarted
  earlier.version.generation = 0;
  router.membership().add(earlier);
  PeerRecord left = record_in(22, Phase::kTraining);
  router.membership().add(left);
  receive(frame(22, Gossip{Updates{.left = {left}}}));
  const size_t before = exchange;
  for (const uint32_t peer : {20u, 21u, 22u}) receive(frame(peer, proposal_of(peer)));
  EXPECT_EQ(exchange, before);
}

// A forged Join names any member, and nobody but the process at its address gets the cookie.
TEST_F(RouterTest, AJoinWithItsCookieProvesAProcess) {
  router.set_settings("digits");
  router.membership().add(record_of(1));
  const auto proven = [&] { return router.membership().find(peer_of(1))->proven; };
  receive(frame(1, Join{record_of(1), "digits"}));
  const uint64_t cookie = last_sent<JoinCookie>().value_or(JoinCookie{}).cookie;
  Join join{record_of(1), "digits"};
  join.cookie = cookie + 1;
  receive(frame(1, join));
  EXPECT_FALSE(proven());
  join.cookie = cookie;
  receive(frame(1, join));
  EXPECT_TRUE(proven());
}

TEST_F(RouterTest, BlocksOfStrangersAreDroppedAndTheRestOfTheirMessagesPasses) {
  router.set_settings("digits");
  receive(frame(1, BlockPayload{{peer_of(1), 1, 1}, 0, 0}, "digits", 64));
  EXPECT_EQ(exchange, 0u) << "they would wait for a proposal";
  receive(frame(1, Commit{.xid = {peer_of(1), 1, 1}, .blocks = {1}}));
  receive(frame(1, Query{{peer_of(0), 1, 1}}));
  EXPECT_EQ(exchange, 2u) << "they may settle what it began as a member";
  router.membership().add(record_in(1, Phase::kJoining));
  receive(frame(1, BlockPayload{{peer_of(1), 1, 1}, 0, 0}, "digits", 64));
  EXPECT_EQ(exchange, 3u);
}

TEST_F(RouterTest, AFloodOfProposalsIsAnsweredSoManyTimesASecond) {
  router.set_settings("digits");
  for (int i = 0; i < 5000; ++i) receive(frame(1, proposal_of(1)));
  const auto busy = static_cast<double>(transport.sent.size()) / 2;  // each with a Sync
  EXPECT_EQ(busy, kJoinsAtOnce);
  ReceivedFrame other = frame(2, proposal_of(2));
  other.source = "10.1.1.1";
  receive(std::move(other));
  EXPECT_EQ(last_sent<Busy>().value_or(Busy{}).xid.proposer, peer_of(2)) << "another host's count is its own";
}

// All that is sent to it goes where the forged record says, so it would never hear of it.
TEST_F(RouterTest, AProcessAtAnotherAddressThanItsRecordIsToldOfIt) {
  router.set_settings("digits");
  router.membership().add(record_of(1));
  router.membership().add(record_of(2));
  PeerRecord forged = record_of(1, 1, 9);
  forged.endpoint = {"10.9.9.9", 7400};
  receive(frame(2, Gossip{Updates{.alive = {forged}}}));
  const auto told = [&] {
    FrameHeader header;
    Message message;
    for (const auto& [to, sent] : transport.sent) {
      if (to != endpoint_of(1)) continue;
      EXPECT_EQ(decode_frame(Channel::kControl, sent.header, {}, &header, &message), DecodeStatus::kOk);
      const auto* news = message_as<Gossip>(message);
      if (news && !news->updates.alive.empty()) return news->updates.alive[0].version.incarnation;
    }
    return 0u;
  };
  transport.sent.clear();
  receive(frame(1, Gossip{}));
  EXPECT_EQ(told(), 9u);
  receive(frame(1, Gossip{Updates{.alive = {record_of(1, 1, 10)}}}));  // its answer
  transport.sent.clear();
  receive(frame(1, Gossip{}));
  EXPECT_EQ(told(), 0u);
}

TEST_F(RouterTest, ALinkThatAnotherMemberUsesStays) {
  router.set_settings("digits");
  router.membership().add(record_of(1));
  PeerRecord before = record_of(2);  // the same agent with the identity that it had before
  before.endpoint = endpoint_of(1);
  router.membership().add(before);
  receive(frame(2, Gossip{Updates{.left = {before}}}));
  EXPECT_EQ(router.membership().find(peer_of(2))->state, MemberState::kLeft);
  EXPECT_TRUE(transport.forgotten.empty());
  receive(frame(1, Gossip{Updates{.left = {record_of(1)}}}));
  EXPECT_EQ(transport.forgotten, std::vector{endpoint_of(1)});
}

TEST_F(RouterTest, ItsOwnFramesAreIgnored) {
  router.set_settings("digits");
  receive(frame(0, Join{record_of(0), "digits"}));
  EXPECT_TRUE(transport.sent.empty());
  EXPECT_EQ(router.counters().joins, 0u);
}

TEST_F(RouterTest, MembersHearNothingWhileAnOlderProcessCouldAnswer) {
  const Endpoint before = endpoint_of(7), seed = endpoint_of(5);
  RouterOptions options{.self = record_of(0), .seeds = {seed}, .compare = [](auto&, auto&) { return ""; }};
  options.membership.heal_interval = std::chrono::milliseconds(100);
  Router router(options, transport, clock);
  router.set_settings("digits");
  router.twins().ask(before);
  const TimePoint begun = clock.now();
  const auto heard = [this](const Endpoint& at) {
    return std::any_of(transport.sent.begin(), transport.sent.end(), [&](const auto& one) { return one.first == at; });
  };
  router.tick(*this);
  EXPECT_TRUE(heard(before));
  for (const Message& message :
       {Message(MembershipMessage(Ping{1, peer_of(0), {}})), Message(BootstrapMessage(Join{record_of(1), "digits"}))}) {
    transport.waiting.push_back(frame(1, message));
    router.tick(*this);
    EXPECT_FALSE(heard(endpoint_of(1)));
  }
  while (!router.twins().may_join()) {
    ASSERT_FALSE(heard(seed));
    ASSERT_GT(router.next_deadline(), clock.now()) << "it would not rest";
    clock.advance(std::chrono::milliseconds(10));
    router.tick(*this);
  }
  EXPECT_EQ(clock.now() - begun, std::chrono::seconds(1));
  while (!heard(seed) && clock.now() - begun < std::chrono::minutes(1)) {
    clock.advance(std::chrono::milliseconds(10));
    router.tick(*this);
  }
  EXPECT_TRUE(heard(seed));
}

TEST_F(RouterTest, WhatCannotBeSentIsCounted) {
  router.send(peer_of(7), Query{{peer_of(0), 1, 1}});
  EXPECT_EQ(router.counters().sends_failed, 1u) << "no member, no address";
  EXPECT_TRUE(transport.sent.empty());
}

}  // namespace
}  // namespace starling
