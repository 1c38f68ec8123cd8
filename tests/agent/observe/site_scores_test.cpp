// How good the model is at each site, from records.
#include "agent/observe/site_scores.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/gossip/membership/membership_support.h"

namespace starling {
namespace {

PeerRecord site(uint32_t number, float accuracy, float test_loss, bool held_out) {
  PeerRecord record = record_of(number);
  record.meta.name = std::string(1, static_cast<char>('a' + number));
  record.meta.accuracy = accuracy;
  record.meta.test_loss = test_loss;
  record.meta.held_out = held_out;
  return record;
}

TEST(SiteScores, NamesTheMeanTheWorstAndTheOneAskedFor) {
  const std::vector<PeerRecord> records = {site(0, 0.9f, 0.2f, true), site(1, 0.6f, 0.5f, true),
                                           site(2, 0.75f, 1.1f, true)};
  const std::vector<SiteScores> scores = score_sites(records, peer_of(0), false);
  ASSERT_EQ(scores.size(), 1u);
  EXPECT_NEAR(scores[0].mean, 0.75, 1e-6);
  EXPECT_EQ(print_scores(scores[0], "this one"),
            "accuracy by site, each on its own held-out data: this one 90.0 %, mean of 3 75.0 %, worst 60.0 % (b)");
  EXPECT_EQ(print_scores(score_sites(records, peer_of(7), false)[0], "this one"),
            "accuracy by site, each on its own held-out data: mean of 3 75.0 %, worst 60.0 % (b)");
  EXPECT_EQ(print_scores(score_sites(records, peer_of(2), true)[0], "this one"),
            "loss by site, each on its own held-out data: this one 1.1, mean of 3 0.6, worst 1.1 (c)");
}

TEST(SiteScores, HeldOutAndTestDataAreNotMixed) {
  const std::vector<PeerRecord> records = {site(0, 0.5f, -1, true), site(1, 0.9f, -1, false), site(2, 0.7f, -1, false)};
  const std::vector<SiteScores> scores = score_sites(records, peer_of(2), false);
  ASSERT_EQ(scores.size(), 2u);
  EXPECT_EQ(print_scores(scores[0], "c"),
            "accuracy by site, each on its own test data: c 70.0 %, mean of 2 80.0 %, worst 70.0 % (c)");
  EXPECT_TRUE(scores[1].held_out);
  EXPECT_EQ(scores[1].sites, 1u);
}

TEST(SiteScores, WhatWasNotMeasuredAndRegistriesDoNotCount) {
  std::vector<PeerRecord> records = {site(0, -1, -1, true), site(1, 0.5f, -1, true)};
  records[1].meta.role = Role::kBootstrap;
  EXPECT_TRUE(score_sites(records, peer_of(0), false).empty());
  EXPECT_TRUE(score_sites({site(0, 0.5f, -1, false)}, peer_of(0), true).empty()) << "older programs tell no test loss";
}

}  // namespace
}  // namespace starling
