// Warnings of memberships that end, at the member and at the holder of the swarm's key, over days.
#include "agent/process/trust_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "agent/process/admissions.h"
#include "agent/process/trust.h"
#include "tests/agent/state/planned_file_ops.h"
#include "tests/gossip/net/numbered_identity.h"
#include "tests/support/fake_clock.h"
#include "tests/support/log_text.h"

namespace starling {
namespace {

constexpr uint64_t kToday = 1'800'000'000, kDay = 24 * 3600;  // seconds

class TrustWatchTest : public testing::Test {
 protected:
  TrustWatchTest() { clock_.unix_s = kToday; }

  // Of a certified swarm. `not_after`: of the membership of its only other process.
  void hold_the_key(uint64_t not_after) {
    place_.keep_swarm_key(key_, true);
    AdmissionBook book(place_.folder());
    book.add({book.next_serial(), member_, not_after});
    book.store();
    Config config;
    config.swarm.trust.kind = Trust::kCertified;
    begin(config);
  }

  void be_a_member(uint64_t not_after) {
    Ticket ticket{.at = {"10.0.0.1", 7400}, .id = identity_of(2).id()};
    ticket.admission = admit(key_, {place_.id(), not_after, 1});
    Config config;
    config.agent.bootstrap = {ticket.at};
    config.agent.tickets = {ticket};
    begin(config);
  }

  // How many times the log tells of an end.
  int told_while(uint64_t seconds) {
    int told = 0;
    for (uint64_t past = 0; past < seconds; past += 60) {
      clock_.advance(std::chrono::minutes(1));
      clock_.unix_s += 60;
      watch_->tick();
      const std::string said = log_.take();
      told += said.find("membership") != std::string::npos && said.find(" on 20") != std::string::npos;
    }
    return told;
  }

  const Folder folder_;
  const Identity key_ = identity_of(1);
  const PeerId member_ = identity_of(3).id();
  FakeClock clock_;
  bool member_lives_ = true;
  std::unique_ptr<TrustWatch> watch_;
  LogText log_;

 private:
  void begin(const Config& config) {
    trusted_ = std::make_unique<Trusted>(enter_trust(config, place_, ""));
    transport_ = std::make_unique<ZmqTransport>(Endpoint{"127.0.0.1", 0}, context_, trusted_->keys);
    watch_ = std::make_unique<TrustWatch>(
        place_, *trusted_, *transport_, clock_, clocks_, [](std::string_view) {}, [] { return size_t{1}; },
        [this](const PeerId& id) { return id == member_ && member_lives_; });
  }

  const StatePlace place_{folder_.path() + "/state"};
  ZmqContext context_;
  MemberClocks clocks_{clock_};
  std::unique_ptr<Trusted> trusted_;
  std::unique_ptr<ZmqTransport> transport_;
};

TEST_F(TrustWatchTest, TheHolderOfTheKeyIsWarnedOnceADayOfAMembershipThatEnds) {
  hold_the_key(kToday + 9 * kDay);
  EXPECT_EQ(told_while(2 * kDay - 3600), 0) << "more than a week before";
  EXPECT_EQ(told_while(2 * 3600), 1);
  EXPECT_EQ(told_while(22 * 3600), 0) << "the same day";
  EXPECT_EQ(told_while(kDay), 1) << "the second day";
  member_lives_ = false;
  EXPECT_EQ(told_while(2 * kDay), 0) << "it need not be renewed";
}

TEST_F(TrustWatchTest, AMemberIsWarnedOnceADayAndMoreOftenOnceItIsOut) {
  be_a_member(kToday + 8 * kDay);
  EXPECT_EQ(told_while(kDay - 3600), 0) << "more than a week before";
  EXPECT_EQ(told_while(2 * 3600), 1);
  EXPECT_EQ(told_while(22 * 3600), 0) << "the same day";
  EXPECT_EQ(told_while(kDay), 1) << "the second day";
  (void)told_while(5 * kDay + 3600);
  EXPECT_EQ(told_while(3600), 6) << "it has ended";
}

}  // namespace
}  // namespace starling
