#include "agent/config/scenario.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <stdexcept>

namespace starling {
namespace {

using Kind = ScenarioEvent::Kind;
using namespace std::chrono_literals;

std::string error_of(const std::function<void(Scenario&)>& call) {
  Scenario scenario;
  try {
    call(scenario);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

TEST(Scenario, ReadsWhatTheFlagsSay) {
  Scenario scenario;
  scenario.add_kill("2@8");
  scenario.add_kill("0@step300");
  scenario.add_join("@12");
  scenario.add_join("13.5");
  scenario.add_join("@step350");
  scenario.add_pause("3@1+2.5");
  scenario.add_pause("4@step7+0");
  const std::vector<ScenarioEvent> expected = {{Kind::kKill, 2, 8s},        {Kind::kKill, 0, 0s, 300},
                                               {Kind::kJoin, 0, 12s},       {Kind::kJoin, 0, 13500ms},
                                               {Kind::kJoin, 0, 0s, 350},   {Kind::kPause, 3, 1s, {}, 2500ms},
                                               {Kind::kPause, 4, 0s, 7, 0s}};
  EXPECT_EQ(scenario.events(), expected);
  EXPECT_EQ(scenario.joins(), 3u);
  EXPECT_EQ(scenario.end(), 13500ms);
}

TEST(Scenario, SaysWhatItExpectedAndWhatItFound) {
  for (const char* text : {"", "2", "@8", "2@", "x@8", "-1@8", "2@-1", "2@nan", "2@inf", "2@1e10", "2@8s", "2@step",
                           "2@step-1", "2@step1.5", "2@step99999999999999999999", "99999999999@1", "2@8+1", "2 @8"}) {
    EXPECT_EQ(
        error_of([&](Scenario& s) { s.add_kill(text); }),
        "expected AGENT@SECONDS such as 2@8, or AGENT@stepN (agents count from 0), found '" + std::string(text) + "'");
  }
  for (const char* text : {"", "@", "@-1", "@x", "2@8", "@@8", "@step", "@8 "}) {
    EXPECT_EQ(error_of([&](Scenario& s) { s.add_join(text); }),
              "expected @SECONDS such as @12, or @stepN, found '" + std::string(text) + "'");
  }
  for (const char* text : {"", "2@8", "2+1", "2@8+", "2@8+-1", "2@8+x", "+1", "2@8+1+1", "2@step3", "2@step+1"}) {
    EXPECT_EQ(error_of([&](Scenario& s) { s.add_pause(text); }),
              "expected AGENT@SECONDS+SECONDS such as 2@8+1.5, or AGENT@stepN+SECONDS (agents count from 0), found '" +
                  std::string(text) + "'");
  }
}

TEST(Scenario, RefusesAPauseWithoutAnEnd) {
  for (const char* text : {"2@8+86401", "2@step5+1e9"}) {
    EXPECT_EQ(error_of([&](Scenario& s) { s.add_pause(text); }), "a pause lasts at most a day (86400 s), found '" +
                                                                     std::string(text) +
                                                                     "'; to take an agent out for good, kill it");
  }
  EXPECT_EQ(error_of([&](Scenario& s) { s.add_pause("2@8+86400"); }), "");
}

TEST(Scenario, RefusesAnAgentThatWillNeverBe) {
  const auto refusal = [](const std::function<void(Scenario&)>& add) {
    return error_of([&](Scenario& scenario) {
      scenario.add_join("@1");
      add(scenario);
      scenario.refuse_absent(3);
    });
  };
  EXPECT_EQ(refusal([](Scenario& s) { s.add_kill("3@1"); }), "");  // the one that joins
  EXPECT_EQ(refusal([](Scenario& s) { s.add_kill("4@1.5"); }), "--kill 4@1.5: the agents are 0 to 3");
  EXPECT_EQ(refusal([](Scenario& s) { s.add_pause("9@step20+1"); }), "--pause 9@step20: the agents are 0 to 3");
}

TEST(ScenarioAgenda, GivesEachEventOnceWhenItIsDue) {
  Scenario scenario;
  scenario.add_join("@5");
  scenario.add_kill("1@2");
  scenario.add_kill("2@step100");
  ScenarioAgenda agenda(scenario);
  EXPECT_EQ(agenda.next(), Duration(2s));
  EXPECT_TRUE(agenda.take_due(1900ms, 99).empty());
  EXPECT_FALSE(agenda.is_step_due(99));
  EXPECT_TRUE(agenda.is_step_due(100));
  EXPECT_EQ(agenda.take_due(1900ms, 100), (std::vector<ScenarioEvent>{{Kind::kKill, 2, 0s, 100}}));
  EXPECT_FALSE(agenda.waits_for_step());
  EXPECT_EQ(agenda.take_due(5s, 500), (std::vector<ScenarioEvent>{{Kind::kKill, 1, 2s}, {Kind::kJoin, 0, 5s}}));
  EXPECT_TRUE(agenda.take_due(1000h, ~uint64_t{0}).empty());
  EXPECT_EQ(agenda.next(), std::nullopt);
  EXPECT_TRUE(agenda.missed(9s).empty());
}

TEST(ScenarioAgenda, APauseEndsAfterItsTime) {
  Scenario scenario;
  scenario.add_pause("1@2+3");
  scenario.add_pause("0@step10+1.5");
  ScenarioAgenda agenda(scenario);
  EXPECT_EQ(agenda.take_due(2250ms, 9), (std::vector<ScenarioEvent>{{Kind::kPause, 1, 2s, {}, 3s}}));
  EXPECT_EQ(agenda.next(), Duration(5s));  // counted from when it was planned
  EXPECT_EQ(agenda.take_due(3s, 10), (std::vector<ScenarioEvent>{{Kind::kPause, 0, 0s, 10, 1500ms}}));
  EXPECT_EQ(agenda.next(), Duration(4500ms));  // counted from when the step was reached
  EXPECT_EQ(agenda.take_due(6s, 10), (std::vector<ScenarioEvent>{{Kind::kResume, 0, 4500ms}, {Kind::kResume, 1, 5s}}));
}

TEST(ScenarioAgenda, APauseThatIsOverWhenItIsNoticedEndsAtOnce) {
  Scenario scenario;
  scenario.add_pause("1@2+3");
  EXPECT_EQ(ScenarioAgenda(scenario).take_due(9s, 0),
            (std::vector<ScenarioEvent>{{Kind::kPause, 1, 2s, {}, 3s}, {Kind::kResume, 1, 5s}}));
}

TEST(ScenarioAgenda, SaysWhatDidNotHappen) {
  Scenario scenario;
  scenario.add_pause("1@2+30");
  scenario.add_kill("0@40");
  scenario.add_join("@step900");
  ScenarioAgenda agenda(scenario);
  (void)agenda.take_due(3s, 100);
  EXPECT_EQ(
      agenda.missed(12340ms),
      (std::vector<std::string>{"the join planned for step 900 did not happen: the swarm had ended at 12.3 s",
                                "the end of the pause planned for 32 s did not happen: the swarm had ended at 12.3 s",
                                "the kill planned for 40 s did not happen: the swarm had ended at 12.3 s"}));
}

TEST(ScenarioAgenda, TheMedianIsTheUpperOne) {
  EXPECT_EQ(median_step({}), 0u);
  EXPECT_EQ(median_step({7}), 7u);
  EXPECT_EQ(median_step({9, 1}), 9u);
  EXPECT_EQ(median_step({9, 1, 5}), 5u);
}

}  // namespace
}  // namespace starling
