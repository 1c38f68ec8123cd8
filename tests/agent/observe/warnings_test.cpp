#include "agent/observe/warnings.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/fake_clock.h"

namespace starling {
namespace {

using std::chrono::seconds;

class WarningsTest : public testing::Test {
 protected:
  FakeClock clock_;
  AgentStatus status_;
  std::vector<std::string> said_;
  Warnings warnings_{clock_, nullptr, [this](const std::string& text) { said_.push_back(text); }};

  // What is said when the status is reported once a second for so long.
  std::vector<std::string> report_for(int seconds_count) {
    said_.clear();
    for (int i = 0; i < seconds_count; ++i) {
      warnings_.on(status_);
      clock_.advance(seconds(1));
    }
    return said_;
  }
};

struct Case {
  const char* name;
  uint64_t& (*counter)(AgentStatus&);
  const char* remedy;
};

const Case kCases[] = {
    {"full", [](AgentStatus& s) -> uint64_t& { return s.membership.table_full; }, "a swarm of their own"},
    {"metrics", [](AgentStatus& s) -> uint64_t& { return s.metrics_lines_lost; }, "--metrics"},
    {"refused", [](AgentStatus& s) -> uint64_t& { return s.frames_refused.bad_checksum; }, "one version"},
    {"links", [](AgentStatus& s) -> uint64_t& { return s.links.refused; }, "ulimit -n"},
    {"cut", [](AgentStatus& s) -> uint64_t& { return s.links.cut; }, "from this agent's ports"},
    {"strangers", [](AgentStatus& s) -> uint64_t& { return s.links.strangers; }, "`ticket`"},
    {"joins", [](AgentStatus& s) -> uint64_t& { return s.joins.refused; }, "without --config"},
    {"older", [](AgentStatus& s) -> uint64_t& { return s.joins.older; }, "update its program"},
    {"left out", [](AgentStatus& s) -> uint64_t& { return s.exchanges.left_out; }, "empty folder"},
    {"payloads", [](AgentStatus& s) -> uint64_t& { return s.updates.payloads_refused; }, "version"},
    {"entries", [](AgentStatus& s) -> uint64_t& { return s.updates.entries_refused; }, "memory"},
    {"states", [](AgentStatus& s) -> uint64_t& { return s.updates.blocks_refused; }, "memory"},
    {"heads", [](AgentStatus& s) -> uint64_t& { return s.updates.heads_refused; }, "cut off"},
    {"thin", [](AgentStatus& s) -> uint64_t& { return s.pairs.thin_uplink; }, "uplink"},
    {"doubts", [](AgentStatus& s) -> uint64_t& { return s.pairs.doubts_broken; }, "links"},
};

TEST_F(WarningsTest, EachComesWithItsCountAndItsRemedy) {
  for (const Case& one : kCases) {
    status_ = {};
    one.counter(status_) = 17;
    Warnings fresh(clock_, nullptr, [this](const std::string& text) { said_.push_back(text); });
    said_.clear();
    fresh.on(status_);
    ASSERT_EQ(said_.size(), 1u) << one.name;
    EXPECT_EQ(said_[0].rfind("17 ", 0), 0u) << said_[0];
    EXPECT_NE(said_[0].find(one.remedy), std::string::npos) << said_[0];
  }
}

TEST_F(WarningsTest, OneIsNotSaidInThePlural) {
  status_.frames_refused.too_short = 1;
  status_.links.refused = status_.links.cut = status_.joins.refused = 1;
  report_for(1);
  ASSERT_EQ(said_.size(), 4u);
  for (const std::string& text : said_)
    EXPECT_TRUE(text.starts_with("1 frame was ") || text.starts_with("1 link was ") || text.starts_with("1 time "))
        << text;
}

TEST_F(WarningsTest, EachComesOnceAMinuteAndOnlyWhileItGrows) {
  for (const Case& one : kCases) {
    EXPECT_TRUE(report_for(61).empty()) << one.name << ": nothing has grown";
    one.counter(status_) += 3;
    EXPECT_EQ(report_for(200).size(), 1u) << one.name << ": it grew once";
    size_t count = 0;
    for (int i = 0; i < 180; ++i) {
      one.counter(status_) += 1;
      count += report_for(1).size();
    }
    EXPECT_EQ(count, 3u) << one.name << ": it grew for three minutes";
    report_for(61);  // the growth that was not told yet
  }
}

TEST_F(WarningsTest, RefusalsAreListedByCauseAndStrangersAreNone) {
  status_.frames_refused.other_swarm = 5;
  EXPECT_TRUE(report_for(1).empty());
  status_.frames_refused.too_short = 2;
  status_.frames_refused.wrong_version = 3;
  ASSERT_EQ(report_for(1).size(), 1u);
  EXPECT_NE(said_[0].find("5 frames were refused (2 too_short, 3 wrong_version)"), std::string::npos) << said_[0];
}

TEST_F(WarningsTest, FramesAtTheWrongPortAloneAreOfAnAgentThatNamesIt) {
  status_.frames_refused.wrong_channel = 12;
  ASSERT_EQ(report_for(1).size(), 1u);
  EXPECT_TRUE(said_[0].starts_with("12 frames were refused at the port for bulk data")) << said_[0];
  EXPECT_EQ(said_[0].find("one version"), std::string::npos) << said_[0];
}

TEST_F(WarningsTest, AModelLeftOutOnceOrTwiceIsNoTrouble) {
  status_.exchanges.left_out = 2;
  EXPECT_TRUE(report_for(61).empty());
}

TEST_F(WarningsTest, NobodyIsNamedWhileAllModelsAreNear) {
  status_.exchanges.left_out = 30;
  status_.left_out_last = "carol";
  status_.spread = 1e-5;
  EXPECT_TRUE(report_for(61).empty());
  status_.spread = 0.5;
  EXPECT_EQ(report_for(61).size(), 1u);
}

TEST_F(WarningsTest, WhoWasLeftOutIsNamed) {
  status_.exchanges.left_out = 3;
  status_.left_out_last = "carol";
  ASSERT_EQ(report_for(1).size(), 1u);
  EXPECT_NE(said_[0].find("last that of carol"), std::string::npos) << said_[0];
}

TEST_F(WarningsTest, WhoSentWhatTheLogOfUpdatesRefusesIsNamed) {
  status_.updates.entries_refused = 2;
  status_.updates.heads_refused = 3;
  ASSERT_EQ(report_for(1).size(), 1u) << "at once";
  EXPECT_EQ(said_[0].rfind("5 messages", 0), 0u) << said_[0];
  EXPECT_NE(said_[0].find("(2 entries, 3 heads); "), std::string::npos) << said_[0];
  status_.updates.entries_refused = 4;
  status_.refused_last = "carol";
  EXPECT_EQ(report_for(59).size(), 0u);
  ASSERT_EQ(report_for(1).size(), 1u) << "a minute later";
  EXPECT_NE(said_[0].find("(4 entries, 3 heads), the last of them from carol; "), std::string::npos) << said_[0];
}

TEST_F(WarningsTest, ADivergingLossIsSaidWithTheLearningRateAndAlsoAtTheEndOfAShortRun) {
  status_.first_loss = 2.3;
  status_.loss = 1.5e8;
  status_.learning_rate = 5;
  EXPECT_TRUE(report_for(5).empty());
  Finished end;
  static_cast<AgentStatus&>(end) = status_;
  end.rounds_diverging = 3;
  warnings_.on(end);
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NE(said_[0].find("the loss is 1.5e+08"), std::string::npos) << said_[0];
  EXPECT_NE(said_[0].find("first value (2.3)"), std::string::npos) << said_[0];
  EXPECT_NE(said_[0].find("lower swarm.optimizer.learning_rate (now 5)"), std::string::npos) << said_[0];
}

TEST_F(WarningsTest, ALossThatDoesNotFallIsSaidOfAnAgentThatBeganWithTheSwarm) {
  status_.first_loss = 2.3;
  status_.loss = 2.31;
  status_.learning_rate = 5;
  status_.steps = status_.steps_taken = 499;
  EXPECT_TRUE(report_for(1).empty());
  status_.steps = status_.steps_taken = 500;
  ASSERT_EQ(report_for(1).size(), 1u);
  EXPECT_EQ(said_[0].rfind("500 steps have not lowered the loss: it is 2.31, and was 2.3 at first", 0), 0u) << said_[0];
  EXPECT_NE(said_[0].find("learning_rate (now 5)"), std::string::npos) << said_[0];
}

TEST_F(WarningsTest, ALossBelowZeroThatDoesNotFallIsSaid) {
  status_.first_loss = status_.loss = -2.3;
  status_.steps = status_.steps_taken = 500;
  EXPECT_EQ(report_for(1).size(), 1u);
}

TEST_F(WarningsTest, ALossThatFallsOrWasLowAtAReturnIsNotSaid) {
  status_.first_loss = 2.3;
  status_.loss = 2.2;
  status_.steps = status_.steps_taken = 1000;
  EXPECT_TRUE(report_for(1).empty());
  status_.first_loss = -2.3;
  status_.loss = -2.4;
  EXPECT_TRUE(report_for(1).empty());
  status_.loss = status_.first_loss = 0.1;
  status_.steps = 5000;
  EXPECT_TRUE(report_for(1).empty());
}

TEST_F(WarningsTest, OtherEventsSayNothing) {
  warnings_.on(Evaluated{});
  EXPECT_TRUE(said_.empty());
}

// A file may not grow beyond 20 bytes while this lives, so a part of a line is written, as on a full disk.
class FileLimit {
 public:
  FileLimit() {
    EXPECT_NE(std::signal(SIGXFSZ, SIG_IGN), SIG_ERR);
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    rlimit little = before_;
    little.rlim_cur = 20;
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  }
  ~FileLimit() { EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0); }

 private:
  rlimit before_{};
};

TEST(WarningsOfMetrics, ALostLineIsSaidAndWrittenOnceThereIsRoom) {
  const std::string path = testing::TempDir() + "starling_warnings_metrics.jsonl";
  std::remove(path.c_str());
  FakeClock clock;
  MetricsFile metrics(path);
  std::vector<std::string> said;
  Warnings warnings(clock, &metrics, [&](const std::string& text) { said.push_back(text); });
  warnings.on(AgentStatus{});
  EXPECT_TRUE(said.empty());
  {
    const FileLimit limit;
    metrics.on(AgentStatus{});
    metrics.flush(std::chrono::seconds(20));
  }
  warnings.on(AgentStatus{});
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].rfind("1 lines of metrics", 0), 0u) << said[0];
  EXPECT_NE(said[0].find("File too large (ulimit -f: 20 B)"), std::string::npos) << said[0];
  EXPECT_EQ(said[0].find("disk full"), std::string::npos) << said[0];
  metrics.on(AgentStatus{});
  metrics.flush(std::chrono::seconds(20));
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(text.find("\"metrics_lines_lost\":1,\"metrics_lost_last\":\"File too large (ulimit -f: 20 B)\"}"),
            std::string::npos)
      << text;
  std::remove(path.c_str());
}

}  // namespace
}  // namespace starling
