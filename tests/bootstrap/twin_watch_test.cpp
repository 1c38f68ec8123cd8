// Two processes with one key, a forger without it, and records of earlier lives.
#include "bootstrap/twin_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_clock.h"

namespace starling {
namespace {

using std::chrono::seconds;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::array<uint8_t, 32> key_seed(uint8_t byte) {
  std::array<uint8_t, 32> seed{};
  seed.fill(byte);
  return seed;
}

struct Sent {
  Endpoint to;
  Message message;
};

// A process, and what it has sent.
struct Process final : Outbox {
  Process(const FakeClock& clock, uint8_t key, const PeerId& id, uint64_t generation, Endpoint address)
      : identity(key_seed(key)),
        self{id, {generation, 0}, std::move(address), {}},
        watch(self, clock, *this, generation, [this](std::span<const std::byte> text) { return identity.sign(text); }) {
  }
  void send(const PeerId&, const Message&, SharedBytes) override { ADD_FAILURE() << "addresses only"; }
  void send(const PeerAddress& to, const Message& message, SharedBytes) override {
    sent.push_back({to.endpoint, message});
  }
  FrameHeader header() const { return {0, self.id, self.version.generation, self.endpoint}; }

  Identity identity;
  PeerRecord self;
  TwinWatch watch;
  std::vector<Sent> sent;
};

class TwinWatchTest : public testing::Test {
 protected:
  Process& add(uint8_t key, uint64_t generation, const std::string& host) {
    processes.push_back(std::make_unique<Process>(clock, key, id, generation, Endpoint{host, 7400}));
    return *processes.back();
  }
  void run(int tenths) {
    for (int i = 0; i < tenths; ++i) {
      for (auto& process : processes) process->watch.tick();
      for (auto& from : processes) {
        for (const Sent& sent : std::exchange(from->sent, {})) {
          ++frames;
          for (auto& to : processes) {
            if (to->self.endpoint == sent.to) to->watch.handle(from->header(), sent.message);
          }
        }
      }
      clock.advance(std::chrono::milliseconds(100));
    }
  }

  FakeClock clock;
  const PeerId id = Identity(key_seed(1)).id();
  int forged = 0;
  std::vector<std::unique_ptr<Process>> processes;
  int frames = 0;
};

TEST_F(TwinWatchTest, ASignedAnswerTellsATwinAndWhichOneIsYounger) {
  Process& old = add(1, 100, "10.0.0.1");
  Process& young = add(1, 200, "10.0.0.2");
  young.watch.ask(old.self.endpoint);
  run(5);
  ASSERT_TRUE(old.watch.twin() && young.watch.twin());
  EXPECT_EQ(young.watch.twin()->address, old.self.endpoint);
  EXPECT_EQ(old.watch.twin()->address, young.self.endpoint) << "which was only asked";
  EXPECT_TRUE(young.watch.twin()->older);
  EXPECT_FALSE(old.watch.twin()->older);
  EXPECT_TRUE(contains(young.watch.must_end(false), "this identity is in use at 10.0.0.1:7400: that process began"));
  EXPECT_EQ(old.watch.must_end(false), "");
}

TEST_F(TwinWatchTest, OfOneNumberOneOfTheTwoIsYounger) {
  Process& one = add(1, 100, "10.0.0.1");
  Process& other = add(1, 100, "10.0.0.2");
  PeerRecord record = other.self;
  one.watch.on_record(record);
  run(5);
  ASSERT_TRUE(one.watch.twin() && other.watch.twin());
  EXPECT_NE(one.watch.twin()->older, other.watch.twin()->older);
}

TEST_F(TwinWatchTest, NobodyWithoutTheKeyIsOne) {
  Process& mine = add(1, 100, "10.0.0.1");
  Process& forger = add(2, 50, "10.0.0.2");  // names the id, and has another key
  forger.watch.ask(mine.self.endpoint);
  mine.watch.on_record({id, {500, 0}, forger.self.endpoint, {}});
  run(30);
  EXPECT_FALSE(mine.watch.twin());
  EXPECT_TRUE(forger.watch.twin()) << "the answer of the one with the key is good";
}

// The answer of a process to somebody else's question is of no use at another address.
TEST_F(TwinWatchTest, AnAnswerIsOfItsProcessAlone) {
  Process& old = add(1, 100, "10.0.0.1");
  Process& young = add(1, 200, "10.0.0.2");
  young.watch.ask({"10.0.0.3", 7400});
  young.watch.tick();
  const Message question = std::exchange(young.sent, {}).at(0).message;
  old.watch.handle({0, id, 1, {"10.0.0.3", 7400}}, question);
  Message answer;
  for (const Sent& sent : std::exchange(old.sent, {})) answer = sent.message;
  young.watch.handle({0, id, 1, {"10.0.0.3", 7400}}, answer);
  EXPECT_FALSE(young.watch.twin());
  young.watch.handle(old.header(), answer);
  EXPECT_TRUE(young.watch.twin());
}

TEST_F(TwinWatchTest, WhereNobodyAnswersTheNumberIsToBeExceeded) {
  Process& mine = add(1, 100, "10.0.0.1");
  mine.watch.on_record({id, {500, 0}, {"10.0.0.9", 7400}, {}});
  run(30);
  EXPECT_EQ(mine.watch.overtaken(), 0u) << "an answer may take long";
  run(30);
  EXPECT_EQ(mine.watch.overtaken(), 500u);
  EXPECT_TRUE(contains(mine.watch.must_begin_again(1000), "clocks was wrong")) << "none answered there";
}

TEST_F(TwinWatchTest, ATwinThatEndsIsNoneAndItsNumberIsExceeded) {
  Process& old = add(1, 100, "10.0.0.1");
  const Endpoint gone = add(1, 200, "10.0.0.2").self.endpoint;
  old.watch.on_record({id, {200, 0}, gone, {}});
  run(10);
  ASSERT_TRUE(old.watch.twin());
  EXPECT_EQ(old.watch.overtaken(), 0u);
  processes.pop_back();
  run(150);
  EXPECT_FALSE(old.watch.twin());
  EXPECT_EQ(old.watch.overtaken(), 200u);
}

TEST_F(TwinWatchTest, TheFarewellOfATwinEndsItAtOnceAndNamesIt) {
  Process& old = add(1, 100, "10.0.0.1");
  Process& copy = add(1, 200, "10.0.0.2");
  const PeerRecord record = copy.self;
  old.watch.on_record(record);
  run(10);
  ASSERT_TRUE(old.watch.twin() && copy.watch.twin());
  EXPECT_TRUE(old.watch.disputed());
  copy.watch.part(copy.self);
  run(2);
  EXPECT_FALSE(old.watch.twin());
  EXPECT_EQ(old.watch.overtaken(), 200u);
  EXPECT_TRUE(contains(old.watch.must_begin_again(1000), "a copy of this state folder ran at 10.0.0.2:7400"));
  EXPECT_TRUE(old.watch.disputed());
}

TEST_F(TwinWatchTest, AnAnswerIsToldThoughTheFarewellCameRightBehindIt) {
  Process& old = add(1, 100, "10.0.0.1");
  Process& copy = add(1, 200, "10.0.0.2");
  old.watch.on_record(copy.self);
  run(10);
  copy.watch.part(copy.self);
  run(2);
  EXPECT_FALSE(old.watch.twin());
  EXPECT_TRUE(contains(old.watch.take_notice(), "in use at 10.0.0.2:7400: that process began after this one"));
  EXPECT_EQ(old.watch.take_notice(), "") << "nothing came since";
  EXPECT_EQ(copy.watch.take_notice(), "") << "the younger one itself";
}

// Anybody may send frames with this id, from whichever address.
TEST_F(TwinWatchTest, ForgedFramesNeitherDelayTheJoinForLongNorWhatRecordsSay) {
  Process& mine = add(1, 100, "10.0.0.1");
  const auto forge = [&] {
    for (int i = 0; i < 6; ++i) {
      mine.watch.handle({0, id, 300, {"10.2.0." + std::to_string(forged++ % 250), 7400}}, Ping{1, id, {}});
    }
  };
  forge();
  EXPECT_FALSE(mine.watch.may_join()) << "one of them may be an earlier process";
  for (int i = 0; i < 10; ++i) run(1), forge();
  EXPECT_TRUE(mine.watch.may_join());
  mine.watch.on_record({id, {500, 0}, {"10.0.0.9", 7400}, {}});
  for (int i = 0; i < 60; ++i) run(1), forge();
  EXPECT_EQ(mine.watch.overtaken(), 500u);
}

TEST_F(TwinWatchTest, AMemberThatHoldsTheEndedTwinLaterIsNotAskedAboutIt) {
  Process& old = add(1, 100, "10.0.0.1");
  Process& copy = add(1, 200, "10.0.0.2");
  const PeerRecord record = copy.self;
  copy.watch.ask(old.self.endpoint);
  run(10);
  ASSERT_TRUE(old.watch.twin() && copy.watch.twin());
  copy.watch.part(copy.self);
  run(1);
  EXPECT_EQ(old.watch.overtaken(), 0u) << "no member holds it";
  EXPECT_FALSE(old.watch.disputed());
  old.watch.on_record(record);
  run(1);
  EXPECT_EQ(old.watch.overtaken(), 200u);
  EXPECT_TRUE(contains(old.watch.must_begin_again(1000), "a copy of this state folder ran at 10.0.0.2:7400"));
}

TEST_F(TwinWatchTest, OnlyTheTwinItselfSaysItsFarewell) {
  Process& old = add(1, 100, "10.0.0.1");
  Process& copy = add(1, 200, "10.0.0.2");
  old.watch.on_record(copy.self);
  run(10);
  ASSERT_TRUE(old.watch.twin());
  const Message farewell = Gossip{Updates{.left = {copy.self}}};
  old.watch.handle({0, id, 200, {"10.0.0.3", 7400}}, farewell);
  EXPECT_TRUE(old.watch.twin()) << "of another address";
  PeerRecord earlier = copy.self;
  earlier.version.generation = 150;
  old.watch.handle(copy.header(), Gossip{Updates{.left = {earlier}}});
  EXPECT_TRUE(old.watch.twin()) << "of another life";
  old.watch.handle(copy.header(), farewell);
  EXPECT_FALSE(old.watch.twin());
}

TEST_F(TwinWatchTest, TheOwnAddressByAnotherNameIsNone) {
  Process& mine = add(1, 100, "10.0.0.1");
  mine.watch.on_record({id, {300, 0}, mine.self.endpoint, {}});  // of an earlier life at this address
  run(2);
  EXPECT_FALSE(mine.watch.twin());
  EXPECT_EQ(mine.watch.overtaken(), 300u);
}

// Two under one address: each begins again above the other, and only the number of a start tells which one was first.
TEST_F(TwinWatchTest, ATwinAtTheOwnAddressTakesItsPlaceBack) {
  Process& old = add(1, 100, "10.0.0.1");
  old.watch.on_record({id, {200, 0}, old.self.endpoint, {}});
  run(1);
  EXPECT_EQ(old.watch.overtaken(), 200u);
  EXPECT_TRUE(contains(old.watch.must_begin_again(1000), "in use at 10.0.0.1:7400: a process with a copy"));
  EXPECT_TRUE(contains(old.watch.must_begin_again(150), "clocks was wrong")) << "no clock says that number yet";
  EXPECT_EQ(old.watch.must_end(true), "") << "that one began by its clock";
  Process& copy = add(1, 200, "10.0.0.1");
  copy.watch.on_record({id, {201, 0}, copy.self.endpoint, {}});
  EXPECT_TRUE(contains(copy.watch.must_end(true), "in use at 10.0.0.1:7400: a process that began before this one"));
  EXPECT_EQ(copy.watch.must_end(false), "") << "another start in the folder may have that number";
  Process& elsewhere = add(1, 200, "10.0.0.2");
  elsewhere.watch.on_record({id, {201, 0}, copy.self.endpoint, {}});
  EXPECT_EQ(elsewhere.watch.must_end(true), "") << "that one can be asked";
}

TEST_F(TwinWatchTest, AFloodOfForgedFramesCausesAFewPings) {
  Process& mine = add(1, 100, "10.0.0.1");
  for (uint32_t i = 0; i < 10'000; ++i) {
    mine.watch.handle({0, id, i, {"10.1.0." + std::to_string(i % 250), 7400}}, Ping{i, id, {}});
  }
  run(100);
  EXPECT_LE(frames, 20);
}

}  // namespace
}  // namespace starling
