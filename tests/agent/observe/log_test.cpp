// The lines that people read of an agent.
#include "agent/observe/log.h"

#include <memory>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

namespace starling {
namespace {

class LogTest : public testing::Test {
 protected:
  LogTest() {
    const auto sink = std::make_shared<spdlog::sinks::ostream_sink_st>(text_);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
    spdlog::set_pattern("%v");
    spdlog::set_level(spdlog::level::info);
  }
  ~LogTest() override { spdlog::set_default_logger(before_); }

  std::string take() {
    spdlog::default_logger()->flush();
    const std::string text = text_.str();
    text_.str("");
    return text;
  }

  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream text_;
  Log log_;
};

TEST_F(LogTest, AnOlderAccuracyNamesItsStep) {
  AgentStatus status;
  status.phase = "training";
  status.steps = 100;
  log_.on(status);
  EXPECT_EQ(take().find("accuracy"), std::string::npos) << "not measured yet";
  log_.on(Evaluated{160, 0.147, 2.3});
  status.steps = 160;
  status.accuracy = 0.147;
  log_.on(status);
  EXPECT_NE(take().find(", accuracy 14.7 %, "), std::string::npos);
  status.steps = 283;
  log_.on(status);
  EXPECT_NE(take().find(", accuracy 14.7 % at step 160, "), std::string::npos);
}

// Not those of the whole run, in which an agent that joined late has taken no part.
TEST_F(LogTest, ExchangesAStepAreOfTheStepsSinceTheLastLine) {
  log_.on(Joined{.how = "from peers", .steps = 5000});
  take();
  AgentStatus status;
  status.phase = "training";
  status.steps = 5100;
  status.pairs.done = 90;
  status.pairs.late = 10;
  log_.on(status);
  EXPECT_NE(take().find(" (1.0 a step; "), std::string::npos);
  status.steps = 5200;
  status.pairs.done = 140;
  log_.on(status);
  EXPECT_NE(take().find(" (0.5 a step; "), std::string::npos);
}

TEST_F(LogTest, SaysWhatAStepConsistsOfWhereItIsMeasured) {
  AgentStatus status;
  status.phase = "training";
  status.steps = 100;
  log_.on(status);
  EXPECT_EQ(take().find("exposed"), std::string::npos);
  status.steps = 101;
  status.step.exposed_ms = 2.5;
  log_.on(status);
  EXPECT_NE(take().find(", 2.5 ms a step exposed"), std::string::npos);
  status.steps = 102;
  status.step = {.forward_ms = 3.1, .backward_ms = 6, .other_ms = 0.4, .encode_ms = 1, .exposed_ms = 2.5};
  log_.on(status);
  EXPECT_NE(take().find(", step 3.1 forward + 6.0 backward + 0.4 other + 2.5 ms exposed"), std::string::npos);
}

}  // namespace
}  // namespace starling
