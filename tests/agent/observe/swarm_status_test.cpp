// The table and the JSON of `starling status`, from records.
#include "agent/observe/swarm_status.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "agent/report/redrawn.h"
#include "tests/gossip/membership/membership_support.h"

namespace starling {
namespace {

class SwarmStatusTest : public testing::Test {
 protected:
  SwarmStatusTest() {
    view_.swarm_id = 0x1f9a03c2;
    for (uint32_t i = 0; i < 4; ++i) {
      PeerRecord record = record_of(i);
      record.meta.name = std::string(1, static_cast<char>('a' + i));
      record.meta.steps = 1000 + 10 * i;
      record.meta.steps_per_s = 42;
      record.meta.loss = 0.1123f;
      record.meta.accuracy = 0.975f;
      record.meta.distance = 0.012f;
      record.meta.program = 0x000300;
      record.meta.done = 990;
      record.meta.failed = 2;
      view_.rows.push_back({record, MemberState::kAlive});
    }
    view_.teller = view_.rows[0].record;
  }
  MemberMeta& meta(size_t i) { return view_.rows[i].record.meta; }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const SwarmSite& site : look_at_sites(view_)) all.push_back(site.name);
    return all;
  }

  SwarmView view_;
  SwarmGoal goal_{"digits", 2000};
};

TEST_F(SwarmStatusTest, ShowsAllOfARecordAndTheSwarmInOneLine) {
  const std::vector<std::string> lines = render_swarm(view_, goal_, 0);
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[0], "swarm digits (000000001f9a03c2): 4 agents, step 1010/2000, 50 %");
  EXPECT_EQ(lines[1],
            "accuracy by site, each on its own test data: a (asked) 97.5 %, mean of 4 97.5 %, worst 97.5 % (a)");
  EXPECT_EQ(lines[2], "agent state    step behind steps/s  loss accuracy distance done failed version");
  EXPECT_EQ(lines[3], "a     training 1000     30      42 0.112   97.5 %    0.012  990      2   0.3.0");
  EXPECT_EQ(lines[6], "d     training 1030      0      42 0.112   97.5 %    0.012  990      2   0.3.0");
}

TEST_F(SwarmStatusTest, AnAgentThatWaitsForOthersOrIsInItsFirstStepIsStarting) {
  meta(0).steps = 0;
  EXPECT_EQ(look_at_sites(view_)[0].state, "starting");
  meta(0).phase = Phase::kJoining;
  EXPECT_EQ(look_at_sites(view_)[0].state, "joining");
}

TEST_F(SwarmStatusTest, ASwarmThatHasNotBegunTellsHowManyAreMissing) {
  goal_.wait_for = 6;
  EXPECT_EQ(render_swarm(view_, goal_, 0)[0].find("waits"), std::string::npos) << "some have taken steps";
  for (size_t i = 0; i < 4; ++i) meta(i).steps = 0;
  EXPECT_EQ(render_swarm(view_, goal_, 0)[0],
            "swarm digits (000000001f9a03c2): 4 agents, waits for 2 more, step 0/2000, 0 %");
}

TEST_F(SwarmStatusTest, SitesThatDoNotAnswerAreNoSitesOfTheMean) {
  view_.rows[3].state = MemberState::kSuspect;
  EXPECT_NE(render_swarm(view_, goal_, 0)[1].find("mean of 3 "), std::string::npos);
}

TEST_F(SwarmStatusTest, TheWorstComesFirst) {
  EXPECT_EQ(names(), (std::vector<std::string>{"a", "b", "c", "d"})) << "by what they are behind";
  meta(2).failed = 1200;
  EXPECT_EQ(names(), (std::vector<std::string>{"c", "a", "b", "d"}));
  view_.rows[3].state = MemberState::kSuspect;
  EXPECT_EQ(names(), (std::vector<std::string>{"d", "c", "a", "b"}));
  view_.rows[1].state = MemberState::kDead;
  EXPECT_EQ(names(), (std::vector<std::string>{"b", "d", "c", "a"}));
  const std::vector<SwarmSite> sites = look_at_sites(view_);
  EXPECT_EQ(sites[0].state, "gone");
  EXPECT_EQ(sites[1].state, "silent");
  EXPECT_EQ(sites[2].trouble, "1200 of 2190 exchanges failed");
  EXPECT_EQ(sites[3].behind, 20u) << "behind the foremost that lives";
  EXPECT_EQ(render_swarm(view_, goal_, 0)[0],
            "swarm digits (000000001f9a03c2): 2 agents, step 1000/2000, 50 %, 3 in trouble");
}

TEST_F(SwarmStatusTest, TroubleIsSeenInRecords) {
  const auto trouble = [&] { return look_at_sites(view_)[0].trouble; };
  EXPECT_EQ(trouble(), "");
  meta(3).steps_per_s = 9;
  EXPECT_EQ(trouble(), "slow: the median agent takes 42 steps/s");
  meta(3).distance = 0.2f;
  EXPECT_EQ(trouble(), "its model is far from the others");
  meta(3).unsaved = true;
  EXPECT_EQ(trouble(), "its last checkpoint failed: look at its log");
  meta(3).loss = std::numeric_limits<float>::max();
  EXPECT_NE(trouble().find("not finite"), std::string::npos);
}

// Of an older program, and before the first step.
TEST_F(SwarmStatusTest, WhatIsNotKnownIsShownAsSuch) {
  meta(0) = {};
  EXPECT_EQ(render_swarm(view_, goal_, 0)[3].substr(0, 8), "00000000") << "its id, where it has no name";
  meta(0).name = "a";
  const std::vector<std::string> lines = render_swarm(view_, goal_, 0);
  EXPECT_EQ(lines[3], "a     joining     0   1030       -     -        -        -    -      -       -");
  const auto json = nlohmann::json::parse(swarm_json(view_, goal_));
  for (const char* key : {"steps_per_s", "loss", "accuracy", "distance", "done", "failed", "version", "trouble"}) {
    EXPECT_TRUE(json.at("members").at(0).at(key).is_null()) << key;
  }
}

TEST_F(SwarmStatusTest, ANarrowTableLeavesOutWhatMattersLeast) {
  meta(2).failed = 1200;
  for (const size_t columns : {30, 50, 60, 80, 100, 140}) {
    const std::vector<std::string> lines = render_swarm(view_, goal_, columns);
    for (const std::string& line : lines) EXPECT_LE(columns_of(line), columns);
    EXPECT_EQ(lines[3].substr(0, 14), "c     training") << columns;
    EXPECT_EQ(lines[2].find("version") != std::string::npos, columns >= 100) << lines[2];
    if (columns >= 50) {
      EXPECT_NE(lines[3].find("1200 of 2190"), std::string::npos) << lines[3];
    }
  }
}

// Half of a swarm of two: neither is known to be right.
TEST_F(SwarmStatusTest, OtherClassesThanTheOthersHaveAreTrouble) {
  const auto in_trouble = [&] {
    std::string list;
    for (const SwarmSite& site : look_at_sites(view_)) {
      if (site.trouble.find("classes differ") != std::string::npos) list += site.name;
    }
    return list;
  };
  for (size_t i = 0; i < 3; ++i) meta(i).classes_hash = 7;
  EXPECT_EQ(in_trouble(), "") << "one has no names";
  meta(1).classes_hash = 8;
  EXPECT_EQ(in_trouble(), "b");
  view_.rows[2].state = MemberState::kDead;
  EXPECT_EQ(in_trouble(), "ab");
}

TEST_F(SwarmStatusTest, SitesAreComparedInALineOfTheirOwn) {
  for (size_t i = 0; i < 4; ++i) {
    meta(i).held_out = true;
    meta(i).accuracy = 0.9f - 0.1f * static_cast<float>(i);
    meta(i).test_loss = 0.25f;
  }
  view_.rows[3].state = MemberState::kDead;
  EXPECT_EQ(render_swarm(view_, goal_, 0)[1],
            "accuracy by site, each on its own held-out data: a (asked) 90.0 %, mean of 3 80.0 %, worst 70.0 % (c)");
  const auto json = nlohmann::json::parse(swarm_json(view_, goal_)).at("by_site").at(0);
  EXPECT_EQ(json.at("on"), "held-out");
  EXPECT_EQ(json.at("worst_at"), "c");
  EXPECT_EQ(json.at("sites"), 3);
  goal_.is_text = true;
  EXPECT_EQ(render_swarm(view_, goal_, 0)[1],
            "loss by site, each on its own held-out data: a (asked) 0.25, mean of 3 0.25, worst 0.25 (a)");
  for (size_t i = 0; i < 4; ++i) meta(i).test_loss = -1;
  EXPECT_EQ(render_swarm(view_, goal_, 0)[1].substr(0, 5), "agent") << "nothing is measured";
}

TEST_F(SwarmStatusTest, ANameOfSettingsMovesNoCursor) {
  goal_.name = "dig\x1b[2Jits\n";
  EXPECT_EQ(render_swarm(view_, goal_, 0)[0].find("swarm dig [2Jits  ("), 0u);
}

TEST_F(SwarmStatusTest, RegistriesAreNoSites) {
  meta(1).role = Role::kBootstrap;
  EXPECT_EQ(names(), (std::vector<std::string>{"a", "c", "d"}));
  view_.rows.clear();
  EXPECT_EQ(render_swarm(view_, goal_, 80)[0], "swarm digits (000000001f9a03c2): 0 agents");
}

TEST_F(SwarmStatusTest, JsonHasTheSameInOneLine) {
  goal_.name = "dig\n\"its";
  const std::string text = swarm_json(view_, goal_);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json.at("swarm"), "dig\n\"its");
  EXPECT_EQ(json.at("id"), "000000001f9a03c2");
  EXPECT_EQ(json.at("stop_after"), 2000);
  const auto& first = json.at("members").at(0);
  EXPECT_EQ(first.at("name"), "a");
  EXPECT_EQ(first.at("asked"), true);
  EXPECT_EQ(first.at("endpoint"), "10.0.0.0:7400");
  EXPECT_EQ(first.at("done"), 990);
  EXPECT_EQ(first.at("version"), "0.3.0");
  EXPECT_NEAR(first.at("accuracy").get<double>(), 0.975, 1e-6);
}

}  // namespace
}  // namespace starling
