// Links of a swarm with tickets: who gets in, and what is said where nobody does.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "gossip/limits.h"
#include "gossip/net/handshakes.h"
#include "gossip/net/repeat_limit.h"
#include "gossip/net/swarm_port.h"
#include "gossip/net/zmq_transport.h"
#include "tests/gossip/net/numbered_identity.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class LinkKeysTest : public testing::Test {
 protected:
  std::shared_ptr<const MemberKeys> keys(uint8_t self, uint8_t swarm = 1) {
    return std::make_shared<MemberKeys>(identity_of(self), identity_of(swarm));
  }
  std::unique_ptr<ZmqTransport> open(std::shared_ptr<const MemberKeys> keys) {
    return std::make_unique<ZmqTransport>(Endpoint{"127.0.0.1", 0}, context_, std::move(keys));
  }
  static Frame frame(const PeerId& reader, size_t payload_bytes = 0) {
    Frame frame{std::vector<std::byte>(100, std::byte{7}), {}, reader};
    if (payload_bytes) frame.payload = SharedBytes::take(std::vector<std::byte>(payload_bytes, std::byte{9}));
    return frame;
  }
  bool run_until(ZmqTransport& a, ZmqTransport& b, const std::function<bool()>& condition,
                 Duration patience = seconds(20)) {
    const TimePoint deadline = clock_.now() + patience;
    while (!condition()) {
      if (clock_.now() > deadline) return false;
      a.wait_until(clock_.now() + milliseconds(1));
      b.wait_until(clock_.now() + milliseconds(1));
    }
    return true;
  }
  // Asks again and again, as a newcomer does.
  std::string reason(ZmqTransport& newcomer, ZmqTransport& member, const PeerId& expected) {
    const Endpoint at = member.local();
    newcomer.expect_at({at, expected});
    TimePoint next = clock_.now();
    (void)run_until(newcomer, member, [&] {
      if (clock_.now() >= next) {
        next = clock_.now() + milliseconds(250);
        (void)newcomer.send(at, Channel::kControl, frame({}));
      }
      (void)newcomer.poll();
      EXPECT_FALSE(member.poll()) << "nobody is let in";
      return !newcomer.why_closed(at).empty();
    });
    return newcomer.why_closed(at);
  }
  SteadyClock clock_;
  ZmqContext context_;
};

TEST_F(LinkKeysTest, MembersReadEachOtherOnBothPortsAndKnowWhoItIs) {
  const auto a = open(keys(2)), b = open(keys(3));
  for (const Channel channel : {Channel::kControl, Channel::kBulk}) {
    const size_t payload = channel == Channel::kBulk ? kPayloadBytesMax : 0;
    ASSERT_EQ(a->send(b->local(), channel, frame(identity_of(3).id(), payload)), SendStatus::kQueued);
    std::optional<ReceivedFrame> got;
    ASSERT_TRUE(run_until(*a, *b, [&] {
      (void)a->poll();
      return (got = b->poll()).has_value();
    }));
    EXPECT_EQ(got->authenticated, identity_of(2).id());
    EXPECT_EQ(got->payload.size, payload);
  }
  EXPECT_EQ(b->counters().links.strangers, 0u);
}

// The largest parts, whose encryption needs room.
TEST_F(LinkKeysTest, TheLargestHeaderPasses) {
  const auto a = open(keys(2)), b = open(keys(3));
  Frame large = frame(identity_of(3).id());
  large.header.resize(kControlFrameBytesMax);
  ASSERT_EQ(a->send(b->local(), Channel::kControl, std::move(large)), SendStatus::kQueued);
  EXPECT_TRUE(run_until(*a, *b, [&] {
    (void)a->poll();
    return b->poll().has_value();
  }));
}

TEST_F(LinkKeysTest, AnAddressIsReachedByTheIdThatIsExpectedThere) {
  const auto a = open(keys(2)), b = open(keys(3));
  EXPECT_EQ(a->send(b->local(), Channel::kControl, frame({})), SendStatus::kBadAddress);
  a->expect_at({b->local(), identity_of(3).id()});
  ASSERT_EQ(a->send(b->local(), Channel::kControl, frame({})), SendStatus::kQueued);
  EXPECT_TRUE(run_until(*a, *b, [&] {
    (void)a->poll();
    return b->poll().has_value();
  }));
  EXPECT_EQ(a->why_closed(b->local()), "");
}

TEST_F(LinkKeysTest, WhoHasNoTicketIsToldSo) {
  const auto member = open(keys(2)), newcomer = open(nullptr);
  const std::string why = reason(*newcomer, *member, {});
  EXPECT_NE(why.find("without a ticket"), std::string::npos) << why;
}

TEST_F(LinkKeysTest, WhoHasATicketForAnOpenSwarmIsToldSo) {
  const auto member = open(nullptr), newcomer = open(keys(3));
  const std::string why = reason(*newcomer, *member, identity_of(2).id());
  EXPECT_NE(why.find("asks for no ticket"), std::string::npos) << why;
}

TEST_F(LinkKeysTest, ATicketOfAnotherSwarmIsNamed) {
  const auto member = open(keys(2)), newcomer = open(keys(3, 9));
  const std::string why = reason(*newcomer, *member, identity_of(2).id());  // the door
  EXPECT_NE(why.find("does not open"), std::string::npos) << why;
  EXPECT_GT(member->counters().links.strangers, 0u);
}

TEST_F(LinkKeysTest, ATicketOfAnotherAgentIsNamed) {
  const auto member = open(keys(2)), newcomer = open(keys(3));
  const std::string why = reason(*newcomer, *member, identity_of(8).id());  // the port
  EXPECT_NE(why.find("does not open"), std::string::npos) << why;
}

TEST_F(LinkKeysTest, AnAddressThatNoTicketNamesIsNamed) {
  const auto member = open(keys(2)), newcomer = open(keys(3));
  const std::string why = reason(*newcomer, *member, {});
  EXPECT_NE(why.find("none of them names"), std::string::npos) << why;
}

// A link to an id that a forged record puts at an address is another one than the good one to there.
TEST_F(LinkKeysTest, AForgedIdPoisonsNoAddress) {
  const auto a = open(keys(2)), b = open(keys(3));
  ASSERT_EQ(a->send(b->local(), Channel::kControl, frame(identity_of(8).id())), SendStatus::kQueued);
  ASSERT_EQ(a->send(b->local(), Channel::kControl, frame(identity_of(3).id())), SendStatus::kQueued);
  EXPECT_TRUE(run_until(*a, *b, [&] {
    (void)a->poll();
    return b->poll().has_value();
  }));
}

TEST_F(LinkKeysTest, AMemberThatComesBackIsHeard) {
  const auto reader = open(keys(3));
  for (int life = 0; life < 3; ++life) {
    const auto member = open(keys(2));
    ASSERT_EQ(member->send(reader->local(), Channel::kControl, frame(identity_of(3).id())), SendStatus::kQueued);
    ASSERT_TRUE(run_until(*member, *reader, [&] {
      (void)member->poll();
      return reader->poll().has_value();
    })) << life;
  }
}

// As where a member died and another agent has its port now, which would count strangers without end.
TEST_F(LinkKeysTest, NobodyKnocksForEverWhereAnotherKeyIs) {
  const auto a = open(keys(2)), b = open(keys(3));
  for (const Channel channel : {Channel::kControl, Channel::kBulk}) {
    ASSERT_EQ(a->send(b->local(), channel, frame(identity_of(4).id())), SendStatus::kQueued);
  }
  ASSERT_TRUE(run_until(*a, *b, [&] {
    (void)a->poll(), (void)b->poll();
    return b->counters().links.strangers > 4;
  }));
  uint64_t counted = 0;
  TimePoint since = clock_.now();
  EXPECT_TRUE(run_until(
      *a, *b,
      [&] {
        (void)a->poll(), (void)b->poll();
        if (std::exchange(counted, b->counters().links.strangers) != counted) since = clock_.now();
        return clock_.now() - since >= seconds(3);
      },
      seconds(40)))
      << counted;
}

// Of a holder of the door key that is no member, as in a certified swarm: nothing is heard, and the link is cut.
TEST_F(LinkKeysTest, ALinkWithoutAProofIsCut) {
  const auto reader = open(keys(3));
  const auto door = keys(2);
  zmq::context_t context;
  zmq::socket_t dealer(context, zmq::socket_type::dealer);
  dealer.set(zmq::sockopt::linger, 0);
  const CurveKey server = curve_public(identity_of(3).id()).value();
  const auto set = [&](int option, const CurveKey& key) {
    ASSERT_EQ(zmq_setsockopt(dealer.handle(), option, key.data(), key.size()), 0);
  };
  set(ZMQ_CURVE_SERVERKEY, server);
  set(ZMQ_CURVE_PUBLICKEY, door->door().open);
  set(ZMQ_CURVE_SECRETKEY, door->door().secret);
  dealer.set(zmq::sockopt::routing_id, std::string(kProofOfLinkBytes, '\1'));
  dealer.connect("tcp://127.0.0.1:" + std::to_string(reader->local().port));
  dealer.send(zmq::buffer("hello", 5), zmq::send_flags::none);
  EXPECT_TRUE(run_until(*reader, *reader, [&] {
    EXPECT_FALSE(reader->poll());
    return reader->counters().links.cut > 0;
  }));
  EXPECT_EQ(reader->counters().frames_refused, 0u) << "they are no frames of another version";
  EXPECT_EQ(reader->counters().frames_received, 0u);
}

// A registry with the keys of the swarms 1 and 5, and a member of each.
TEST_F(LinkKeysTest, ADoorForEachSwarmTellsThemApart) {
  const auto both = open(keys(3, 1)), one = open(keys(2, 1)), five = open(keys(4, 5));
  both->open_to(keys(3, 5));
  const PeerId registry = identity_of(3).id();
  std::optional<ReceivedFrame> got;
  for (const auto& [member, swarm] : {std::pair<ZmqTransport*, uint8_t>{one.get(), 1}, {five.get(), 5}}) {
    ASSERT_EQ(member->send(both->local(), Channel::kControl, frame(registry)), SendStatus::kQueued);
    ASSERT_TRUE(run_until(*member, *both, [&, from = member] {
      (void)from->poll();
      return (got = both->poll()).has_value();
    }));
    EXPECT_EQ(got->swarm, identity_of(swarm).id());
    EXPECT_EQ(got->authenticated, identity_of(swarm == 1 ? 2 : 4).id());
    Frame answer = frame(*got->authenticated);
    answer.swarm = got->swarm;
    ASSERT_EQ(both->send(member->local(), Channel::kControl, std::move(answer)), SendStatus::kQueued);
    ASSERT_TRUE(run_until(*member, *both, [&, to = member] {
      (void)both->poll();
      return (got = to->poll()).has_value();
    })) << "an answer goes out with the keys of its swarm";
    EXPECT_EQ(got->authenticated, registry);
  }
  EXPECT_EQ(both->counters().links.strangers, 0u);
  EXPECT_EQ(both->counters().links.cut, 0u);
}

TEST_F(LinkKeysTest, AnAnswerWithTheKeysOfAnotherSwarmOpensNothing) {
  const auto both = open(keys(3, 1)), five = open(keys(4, 5));
  both->open_to(keys(3, 5));
  for (const uint8_t swarm : {1, 5}) {
    Frame told = frame(identity_of(4).id());
    told.swarm = identity_of(swarm).id();
    ASSERT_EQ(both->send(five->local(), Channel::kControl, std::move(told)), SendStatus::kQueued);
  }
  size_t heard = 0;
  EXPECT_TRUE(run_until(*five, *both, [&] {
    (void)both->poll();
    while (five->poll()) ++heard;
    return heard > 0 && five->counters().links.strangers > 0;
  }));
  EXPECT_EQ(heard, 1u);
}

// The membership is good, in the other swarm.
TEST_F(LinkKeysTest, AMembershipOfOneSwarmBehindTheDoorOfAnotherIsCut) {
  const auto both = open(keys(3, 1));
  both->open_to(keys(3, 5));
  const auto foreign = [&](uint8_t self, uint8_t door, uint8_t swarm) {
    Admission spliced = admit(identity_of(swarm), {.id = identity_of(self).id()});
    spliced.door = admit(identity_of(door), {.id = identity_of(self).id()}).door;
    return open(std::make_shared<MemberKeys>(identity_of(self), spliced));
  };
  const auto member = foreign(4, 1, 5);
  const std::string why = reason(*member, *both, identity_of(3).id());
  EXPECT_NE(why.find("breaks off each link"), std::string::npos) << why;
  EXPECT_GE(both->counters().links.cut, 3u);
  EXPECT_EQ(both->take_foreign(identity_of(5).id()), "") << "it is of the other door";
  const std::string told = both->take_foreign(identity_of(1).id());
  EXPECT_NE(told.find("a membership that the swarm's key has not signed"), std::string::npos) << told;
  const auto another = foreign(6, 1, 5), third = foreign(7, 5, 1);
  EXPECT_NE(reason(*another, *both, identity_of(3).id()), "");
  EXPECT_EQ(both->take_foreign(identity_of(1).id()), "") << "not again so soon";
  EXPECT_NE(reason(*third, *both, identity_of(3).id()), "");
  EXPECT_NE(both->take_foreign(identity_of(5).id()), "") << "each door has a limit of its own";
}

TEST(RepeatLimit, AllowsARepetitionAfterTwiceAsLongEachTime) {
  RepeatLimit limit(seconds(60), seconds(3600));
  const TimePoint start;
  EXPECT_TRUE(limit.allows(start));
  TimePoint last = start;
  for (const int pause : {60, 120, 240, 480, 960, 1920, 3600, 3600}) {
    EXPECT_FALSE(limit.allows(last + seconds(pause - 1))) << pause;
    EXPECT_TRUE(limit.allows(last += seconds(pause))) << pause;
  }
}

// Of one expected address, with a clock of its own.
class ExpectedPeersTest : public testing::Test {
 protected:
  using Event = HandshakeEvent;
  ExpectedPeersTest() { peers_.expect({at_, identity_of(3).id()}); }
  std::string after(std::vector<Event> events, milliseconds later = milliseconds(0)) {
    now_ += later;
    size_t i = 0;
    const auto next = [&](const Endpoint&, const PeerId&) -> std::optional<Event> {
      if (i == events.size()) return std::nullopt;
      if (sends_ && i > 0 && events[i - 1] == Event::kSucceeded) peers_.sent(at_, now_);
      return events[i++];
    };
    peers_.look(now_, next, [](const Endpoint&, const PeerId&) {});
    if (sends_ && !events.empty() && events.back() == Event::kSucceeded) peers_.sent(at_, now_);
    return peers_.why_closed(at_);
  }
  std::string after_cut_links() {
    std::string why;
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(why, "") << i;
      why = after({Event::kConnected, Event::kSucceeded, Event::kEnded}, milliseconds(200));
    }
    return why;
  }

  const Endpoint at_{"10.0.0.1", 7400};
  ExpectedPeers peers_{true};
  TimePoint now_;
  bool sends_ = true;  // a frame, over each link as soon as it is open
};

TEST_F(ExpectedPeersTest, ALinkThatLastsTakesTheWordBack) {
  const std::string why = after_cut_links();
  EXPECT_NE(why.find("has expired or is revoked there"), std::string::npos) << why;
  EXPECT_EQ(after({Event::kConnected, Event::kSucceeded}, milliseconds(200)), why) << "it may be cut as well";
  EXPECT_EQ(after({}, milliseconds(999)), why);
  EXPECT_EQ(after({}, milliseconds(1)), "");
  EXPECT_EQ(after({Event::kEnded, Event::kConnected, Event::kSucceeded, Event::kEnded}), "") << "the count begins anew";
}

// An agent asks again less and less often, and the other side cuts its links when it does.
TEST_F(ExpectedPeersTest, ALinkIsJudgedByItsFirstFrame) {
  sends_ = false;
  std::string why;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(why, "") << i;
    after({Event::kConnected, Event::kSucceeded}, milliseconds(200));
    after({}, milliseconds(5000));
    peers_.sent(at_, now_);
    why = after({Event::kEnded}, milliseconds(200));
  }
  EXPECT_NE(why.find("breaks off each link"), std::string::npos) << why;
  for (int i = 0; i < 9; ++i) after({Event::kConnected, Event::kSucceeded, Event::kEnded}, milliseconds(200));
  EXPECT_EQ(after({}, milliseconds(5000)), why) << "links that nothing went over";
  peers_.sent(at_, now_);  // and what tells that it is open comes later
  EXPECT_EQ(after({Event::kConnected, Event::kSucceeded}), why);
  EXPECT_EQ(after({}, milliseconds(1000)), "");
}

TEST_F(ExpectedPeersTest, AHandshakeThatIsBrokenOffTakesTheWordBack) {
  EXPECT_NE(after_cut_links(), "");
  EXPECT_EQ(after({Event::kConnected, Event::kBrokenOff}, milliseconds(200)), "");
}

// The end of the link before it was not told.
TEST_F(ExpectedPeersTest, ALinkThatIsOpenedAnewIsNoneThatLasts) {
  const std::string why = after_cut_links();
  EXPECT_EQ(after({Event::kConnected, Event::kSucceeded, Event::kConnected}, milliseconds(200)), why);
  EXPECT_EQ(after({}, milliseconds(2000)), why);
}

// A member with a link that breaks now and then is none of another swarm.
TEST_F(LinkKeysTest, ALinkThatLastsIsNoForeignOne) {
  const auto a = open(keys(2)), b = open(keys(3));
  a->expect_at({b->local(), identity_of(3).id()});
  size_t heard = 0;
  TimePoint next_cut = clock_.now();
  EXPECT_TRUE(run_until(*a, *b, [&] {
    (void)a->send(b->local(), Channel::kControl, frame({}));
    (void)a->poll();
    EXPECT_EQ(a->why_closed(b->local()), "");
    while (const auto got = b->poll()) {
      ++heard;
      if (clock_.now() < next_cut) continue;
      b->cut(*got);
      next_cut = clock_.now() + milliseconds(2000);
    }
    return b->counters().links.cut > 3;
  }));
  EXPECT_EQ(b->take_foreign(), "");
}

TEST_F(LinkKeysTest, TwoSwarmsWithOneDoorAreRefused) {
  const auto both = open(keys(3, 1));
  Admission spliced = admit(identity_of(5), {.id = identity_of(3).id()});
  spliced.door = admit(identity_of(1), {.id = identity_of(3).id()}).door;
  EXPECT_THROW(both->open_to(std::make_shared<MemberKeys>(identity_of(3), spliced)), std::invalid_argument);
}

TEST_F(LinkKeysTest, AClosedSwarmIsHeardNoMoreAndTheOtherIs) {
  const auto both = open(keys(3, 1)), one = open(keys(2, 1)), five = open(keys(4, 5));
  both->open_to(keys(3, 5));
  const PeerId registry = identity_of(3).id();
  SwarmPort of_one(*both, identity_of(1).id()), of_five(*both, identity_of(5).id());
  const auto hears = [&](ZmqTransport& member, SwarmPort& port, Duration patience) {
    return run_until(
        member, *both,
        [&] {
          (void)member.send(both->local(), Channel::kControl, frame(registry));
          (void)member.poll();
          SwarmPort::deal(*both, {&of_one, &of_five}, 100);
          return port.poll().has_value();
        },
        patience);
  };
  EXPECT_TRUE(hears(*one, of_one, seconds(20)));
  EXPECT_TRUE(hears(*five, of_five, seconds(20)));
  while (of_one.poll() || of_five.poll()) {
  }
  both->close_to(identity_of(1).id());
  EXPECT_FALSE(hears(*one, of_one, seconds(1)));
  while (of_five.poll()) {  // what was under way
  }
  EXPECT_TRUE(hears(*five, of_five, seconds(20)));
  EXPECT_GT(both->counters().links.cut, 0u);
  EXPECT_EQ(of_one.send(one->local(), Channel::kControl, frame(identity_of(2).id())), SendStatus::kBadAddress);
  EXPECT_EQ(of_five.send(five->local(), Channel::kControl, frame(identity_of(4).id())), SendStatus::kQueued);
}

// Whether it has ended is judged above: the transport has no clock that counts.
TEST_F(LinkKeysTest, EachFrameSaysWhenItsMembershipEnds) {
  for (const uint64_t not_after : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    const Admission admission = admit(identity_of(1), {identity_of(2).id(), not_after, 1});
    const auto member = open(std::make_shared<MemberKeys>(identity_of(2), admission)), reader = open(keys(3));
    std::optional<ReceivedFrame> got;
    EXPECT_TRUE(run_until(*member, *reader, [&] {
      (void)member->send(reader->local(), Channel::kControl, frame(identity_of(3).id()));
      (void)member->poll();
      return (got = reader->poll()).has_value();
    }));
    EXPECT_EQ(got.value_or(ReceivedFrame{.not_after = 7}).not_after, not_after);
  }
}

TEST_F(LinkKeysTest, ACutLinkOpensAnew) {
  const auto a = open(keys(2)), b = open(keys(3));
  size_t heard = 0;
  EXPECT_TRUE(run_until(*a, *b, [&] {
    (void)a->send(b->local(), Channel::kControl, frame(identity_of(3).id()));
    (void)a->poll();
    while (const auto got = b->poll()) {
      if (heard++ == 0) b->cut(*got);
    }
    return b->counters().links.cut > 0 && heard > 100;
  }));
}

}  // namespace
}  // namespace starling
