// Merge plans: their bytes, who takes which, and that they change which frames there are and nothing else.
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "gossip/updates/update_plan.h"
#include "tests/gossip/updates/lockstep.h"

namespace starling::exchange_test {
namespace {

using Ends = std::vector<uint32_t>;
const std::vector<size_t> kSizes(kSlices, kElements);

std::vector<uint8_t> bytes_of(const Ends& ends, uint64_t round = 1, const std::vector<size_t>& sizes = kSizes) {
  UpdatePlans plans(true, sizes);
  plans.propose(ends);
  return plans.say(round);
}

Ends each_alone() {
  Ends ends(kSlices);
  std::iota(ends.begin(), ends.end(), 1);
  return ends;
}

TEST(UpdatePlan, HoldsEightRoundsAfterItWasSaid) {
  UpdatePlans plans(true, kSizes);
  EXPECT_EQ(plans.ends(5), each_alone());
  plans.take(bytes_of({2, 6}, 20), 20);
  EXPECT_EQ(plans.ends(27), each_alone());
  EXPECT_EQ(plans.ends(28), (Ends{2, 6}));
  EXPECT_EQ(plans.bucket_of_slices(28), (Ends{0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(plans.say(30), bytes_of({2, 6}, 20)) << "every entry of slice 0 repeats it";
  plans.take({}, 31);
  EXPECT_EQ(plans.ends(31), (Ends{2, 6})) << "an owner that knows none takes it from nobody";
  EXPECT_EQ(plans.refused(), 0u);
}

TEST(UpdatePlan, ChangesOnceInTwoHundredRounds) {
  UpdatePlans plans(true, kSizes);
  plans.take(bytes_of({2, 6}, 20), 20);
  plans.propose({3, 6});
  EXPECT_EQ(plans.say(219), bytes_of({2, 6}, 20)) << "not yet";
  plans.take(bytes_of({3, 6}, 219), 219);
  EXPECT_EQ(plans.ends(300), (Ends{2, 6}));
  EXPECT_EQ(plans.refused(), 1u);
  EXPECT_NE(plans.last_fault().find("less than 200 rounds"), std::string::npos);
  EXPECT_EQ(plans.say(220), bytes_of({3, 6}, 220));
  plans.take(plans.say(220), 220);
  EXPECT_EQ(plans.ends(227), (Ends{2, 6})) << "the one before holds until then";
  EXPECT_EQ(plans.ends(228), (Ends{3, 6}));

  plans.take(bytes_of({4, 6}, 20), 500);
  EXPECT_EQ(plans.ends(500), (Ends{3, 6})) << "an owner may not date its plan back so far";
  EXPECT_EQ(plans.refused(), 2u);
}

// In another order, or one of them alone, as in a split, or who took several entries at once and saw the newest.
TEST(UpdatePlan, OfTwoPlansTooCloseTheEarlierOneHoldsWhateverIsHeardFirst) {
  for (const uint64_t later : {300, 303, 499}) {
    UpdatePlans in_order(true, kSizes), behind(true, kSizes);
    const std::vector<uint8_t> first = bytes_of({2, 6}, 300), second = bytes_of({3, 6}, later);
    for (UpdatePlans* plans : {&in_order, &behind}) plans->take(bytes_of({5, 6}, 1), 1);
    in_order.take(first, 300);
    in_order.take(second, later);
    EXPECT_EQ(in_order.refused(), 1u);
    behind.take(second, later);
    for (const std::vector<uint8_t>& entry : {first, second, first}) behind.take(entry, 500);
    EXPECT_EQ(behind.newest(), in_order.newest()) << later;
    EXPECT_EQ(behind.say(500), first) << "and it is repeated";
    EXPECT_EQ(behind.ends(307), (Ends{5, 6})) << "the one before holds until then, not the one that gave way";
  }
}

TEST(UpdatePlan, WhoDatesPlansBackChangesThemOnceInTwoHundredRounds) {
  UpdatePlans plans(true, kSizes);
  plans.take(bytes_of({2, 6}, 400), 400);
  plans.take(bytes_of({3, 6}, 300), 410);
  EXPECT_EQ(plans.newest().ends, (Ends{3, 6}));
  plans.take(bytes_of({4, 6}, 200), 411);
  EXPECT_EQ(plans.newest().ends, (Ends{3, 6}));
  plans.take(bytes_of({4, 6}, 500), 500);
  EXPECT_EQ(plans.newest().ends, (Ends{4, 6})) << "two hundred rounds after the one that holds";
  plans.take(bytes_of({5, 6}, 450), 609);
  EXPECT_EQ(plans.newest().ends, (Ends{4, 6}));
  EXPECT_EQ(plans.refused(), 2u);
  plans.take(bytes_of({5, 6}, 450), 610);
  EXPECT_EQ(plans.newest().ends, (Ends{5, 6}));
}

TEST(UpdatePlan, WhoJoinsTakesThePlanAndTheNextOneWhenTheOthersDo) {
  UpdatePlans plans(true, kSizes);
  plans.take(bytes_of({2, 6}, 20), 219);
  EXPECT_EQ(plans.ends(219), (Ends{2, 6}));
  plans.take(bytes_of({3, 6}, 220), 220);
  EXPECT_EQ(plans.ends(228), (Ends{3, 6}));
}

// Each one is refused by its name, counted, and the last good plan stays.
TEST(UpdatePlan, RefusesWhatIsNoPlanAndKeepsTheLastGoodOne) {
  UpdatePlans plans(true, kSizes);
  plans.take(bytes_of({2, 6}, 20), 20);
  uint64_t refused = 0;
  const auto refuses = [&](const std::vector<uint8_t>& bytes, const std::string& why, uint64_t round = 1000) {
    plans.take(bytes, round);
    EXPECT_EQ(plans.refused(), ++refused) << why;
    EXPECT_NE(plans.last_fault().find(why), std::string::npos) << plans.last_fault();
    EXPECT_EQ(plans.ends(1000), (Ends{2, 6}));
  };
  const std::vector<uint8_t> good = bytes_of({3, 6}, 990);
  for (size_t size = 1; size < good.size(); ++size) refuses({good.begin(), good.begin() + size}, "of a wrong size");
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::vector<uint8_t> flipped = good;
    flipped[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    refuses(flipped, bit / 8 == 1 ? "of a wrong size" : "damaged");
  }
  refuses(bytes_of({3, 6}, 990, {50, 50, 50, 50, 50, 51}), "for another model");
  const uint64_t model = [] {
    uint64_t value = 0;
    const std::vector<uint8_t> bytes = bytes_of({6});
    std::memcpy(&value, bytes.data() + 2, sizeof value);
    return value;
  }();
  for (const Ends& ends : {Ends{}, Ends{3}, Ends{3, 3, 6}, Ends{4, 3, 6}, Ends{0, 6}, Ends{3, 6, 7}, Ends{6, 6}}) {
    refuses(encode_plan({ends, 990}, model), "overlap or leave slices out");
  }
  refuses(encode_plan({{3, 6}, 1009}, model), "too far ahead");
  plans.take(good, 1000);
  EXPECT_EQ(plans.ends(1000), (Ends{3, 6}));
  UpdatePlans off(false, kSizes);
  off.take(good, 1000);
  EXPECT_EQ(off.ends(1000), each_alone());
  EXPECT_EQ(off.refused(), 1u);
}

UpdateAgentOptions merging() {
  UpdateAgentOptions options = sparse_slices();
  options.merge = true;
  return options;
}

// Six slices in two buckets, four owners.
TEST(UpdatePlan, BucketsTravelInFewerFramesAndEndWithTheSameBits) {
  Lockstep whole(false), merged(true, merging());
  for (auto& [id, agent] : merged.swarm.agents) agent->exchange().plans().propose({1, kSlices});
  size_t before = 0, after = 0;
  for (int round = 1; round <= 24; ++round) {
    merged.frames = 0;
    whole.round();
    merged.round();
    (round < 9 ? before : after) += merged.frames;
    for (uint8_t tag = 1; tag <= kAgents; ++tag) {
      ASSERT_EQ(merged.params(tag), whole.params(tag)) << "round " << round << ", member " << int{tag};
      ASSERT_EQ(merged.swarm.at(tag).accumulator, whole.swarm.at(tag).accumulator);
      EXPECT_EQ(merged.swarm.at(tag).exchange().plans().ends(merged.swarm.at(tag).exchange().round()),
                round < 9 ? each_alone() : (Ends{1, kSlices}));
    }
  }
  // Alone: each of six slices to its owner from three others, and back. In buckets the five late slices have four
  // owners, one of whom has two of them; the sixth one is alone.
  EXPECT_EQ(before, 8u * 2 * 3 * kSlices);
  EXPECT_EQ(after, 16u * 2 * 3 * 5);
  EXPECT_EQ(merged.swarm.at(1).exchange().plans().refused(), 0u);
}

TEST(UpdatePlan, TwoPlansAtOnceCostFramesAndNoSum) {
  Lockstep whole(false), mixed(true, merging());
  for (uint8_t tag = 1; tag <= kAgents; ++tag) {
    mixed.swarm.at(tag).exchange().plans().try_out({tag % 2 == 0 ? 1u : 5u, kSlices});
  }
  for (int round = 1; round <= 24; ++round) {
    whole.round();
    mixed.round();
    for (uint8_t tag = 1; tag <= kAgents; ++tag) {
      ASSERT_EQ(mixed.params(tag), whole.params(tag)) << "round " << round << ", member " << int{tag};
      ASSERT_EQ(mixed.swarm.at(tag).accumulator, whole.swarm.at(tag).accumulator);
    }
  }
  for (uint8_t tag = 1; tag <= kAgents; ++tag) {
    EXPECT_GT(mixed.swarm.at(tag).exchange().frames_saved(), 0u);
  }
}

// As after a split in both halves of which a plan was proposed.
TEST(UpdatePlan, WhoHoldTwoPlansSoonHoldOne) {
  Lockstep mixed(true, merging());
  for (uint8_t tag = 1; tag <= kAgents; ++tag) {
    mixed.swarm.at(tag).exchange().plans().take(bytes_of({tag % 2 == 0 ? 1u : 5u, kSlices}, tag % 2), tag % 2);
  }
  for (int round = 1; round <= 16; ++round) mixed.round();
  for (uint8_t tag = 1; tag <= kAgents; ++tag) {
    EXPECT_EQ(mixed.swarm.at(tag).exchange().plans().newest(), (UpdatePlan{{1, kSlices}, 8})) << int{tag};
  }
}

// Its own entries say the plan that holds, what the others get of them a plan for another model. They count the entries
// and refuse the plan; it moves to their log.
TEST(UpdatePlan, OneWhoseEntriesSayABadPlanChangesNeitherPlanNorLog) {
  Lockstep merged(true, merging());
  for (auto& [id, agent] : merged.swarm.agents) agent->exchange().plans().propose({1, kSlices});
  for (int round = 1; round <= 10; ++round) merged.round();
  const std::vector<uint8_t> bad = bytes_of({3, kSlices}, 10, {50, 50, 50, 50, 50, 51});
  size_t said = 0;
  merged.swarm.network.damage = [&](Flight& flight) {
    auto* entry = message_as<LogEntry>(flight.message);
    if (entry == nullptr || entry->slice != 0 || flight.from != test_peer(1)) return;
    entry->plan = bad;
    entry->head.hash = entry_hash(*entry, xxh3_128(flight.payload.span()));
    ++said;
  };
  merged.swarm.observer.may_forge = true;
  const uint64_t length = merged.swarm.at(2).exchange().log(0).head().length;
  for (int round = 0; round < 24; ++round) merged.round();
  EXPECT_GT(said, 0u);
  for (const uint8_t tag : {2, 3, 4}) {
    const UpdateGroup& group = merged.swarm.at(tag).exchange();
    EXPECT_GT(group.plans().refused(), 0u) << int{tag};
    EXPECT_EQ(group.plans().last_fault(), "for another model");
    EXPECT_EQ(group.plans().newest().ends, (Ends{1, kSlices}));
    EXPECT_GE(group.log(0).head().length, length + 20) << "the entries count";
    EXPECT_EQ(merged.params(tag), merged.params(2));
  }
}

// A plan of two buckets holds, and all have handed in the one whose gradients are final first, slices `from` and later.
void go_to_the_middle_of_backward(Lockstep& merged, uint32_t from) {
  for (auto& [id, agent] : merged.swarm.agents) agent->exchange().plans().propose({from, kSlices});
  for (int round = 1; round <= 10; ++round) merged.round();
  EXPECT_EQ(merged.swarm.at(1).exchange().plans().ends(11), (Ends{from, kSlices}));
  merged.step();
  merged.backward(from);
}

std::set<uint32_t> slices_sent(const std::vector<Sent>& sent, uint64_t round) {
  std::set<uint32_t> slices;
  for (const Sent& one : sent) {
    if (one.round == round) slices.insert(one.slice);
  }
  return slices;
}

uint64_t counted_of(UpdateAgent& by, uint32_t slice, const PeerId& of) {
  return by.exchange().log(slice).table().row(of)->newest;
}

TEST(UpdatePlan, AMemberThatStopsBetweenTwoBucketsHoldsNobodyUp) {
  Lockstep merged(true, merging());
  go_to_the_middle_of_backward(merged, 5);  // its bundles of five slices never come
  const PeerId dead = test_peer(2);
  merged.stopped.insert(dead);
  for (uint8_t tag : {1, 3, 4}) merged.submit(merged.swarm.at(tag), 0);
  const TimePoint began = merged.swarm.clock.now();
  merged.boundary();
  merged.end_round();
  EXPECT_LE(merged.swarm.clock.now() - began, milliseconds(200)) << "two deadlines";
  const uint64_t last = counted_of(merged.swarm.at(1), 5, dead);
  EXPECT_GT(last, counted_of(merged.swarm.at(1), 0, dead)) << "the bucket that it handed in counts";
  for (auto& [id, agent] : merged.swarm.agents) {
    agent->view.erase(dead);
    if (id != dead) agent->exchange().forget(dead);
  }
  const uint64_t saved = merged.swarm.at(1).exchange().frames_saved();
  for (int round = 0; round < 5; ++round) merged.round();
  for (uint32_t s = 0; s < kSlices; ++s) {
    EXPECT_GE(merged.swarm.at(1).exchange().log(s).head().length, 15u) << s;
    for (uint8_t tag : {3, 4}) {
      EXPECT_EQ(merged.swarm.at(tag).exchange().log(s).head(), merged.swarm.at(1).exchange().log(s).head()) << s;
    }
  }
  EXPECT_EQ(merged.params(3), merged.params(1));
  EXPECT_GT(merged.swarm.at(1).exchange().frames_saved(), saved) << "the plan holds on";
}

// The others make all entries without its last bucket, which counts once it comes.
TEST(UpdatePlan, WhoComputesLongestHandsInItsLastBucketAllTheSame) {
  Lockstep merged(true, merging());
  go_to_the_middle_of_backward(merged, 5);  // and five are left
  UpdateAgent& slow = merged.swarm.at(4);
  merged.slow.insert(slow.id);
  for (uint8_t tag = 1; tag < 4; ++tag) merged.submit(merged.swarm.at(tag), 0);
  const TimePoint began = merged.swarm.clock.now();
  merged.boundary();
  merged.end_round();
  EXPECT_LE(merged.swarm.clock.now() - began, milliseconds(200)) << "two deadlines";
  EXPECT_TRUE(slow.exchange().under_way()) << "it ended without its own boundary";
  const uint64_t before = counted_of(merged.swarm.at(1), 0, slow.id);
  merged.slow.clear();
  EXPECT_TRUE(slow.exchange().begin(slow.x, 1, 1, [] {}, false));
  slow.complete();
  EXPECT_EQ(slices_sent(merged.sent[slow.id], 11), slices_sent(merged.sent[slow.id], 10)) << "as of any round";
  merged.end_round();
  for (int round = 0; round < 3; ++round) merged.round();
  EXPECT_TRUE(merged.swarm.all_heads_equal());
  EXPECT_GT(counted_of(merged.swarm.at(1), 0, slow.id), before);
  for (uint8_t tag = 2; tag <= kAgents; ++tag) EXPECT_EQ(merged.params(tag), merged.params(1));
}

TEST(UpdatePlan, WhoRestartsLearnsThePlanFromTheLog) {
  Lockstep merged(true, merging());
  for (auto& [id, agent] : merged.swarm.agents) agent->exchange().plans().propose({3, kSlices});
  for (int round = 1; round <= 12; ++round) merged.round();
  UpdateAgent& again = merged.swarm.add(4, 2);
  merged.swarm.share_views();
  for (uint8_t tag = 1; tag < 4; ++tag) merged.swarm.at(tag).exchange().forget(again.id);
  EXPECT_TRUE(again.exchange().plans().newest().ends.empty());
  for (int round = 1; round <= 6; ++round) merged.round();
  EXPECT_EQ(again.exchange().plans().ends(again.exchange().round()), (Ends{3, kSlices}));
  EXPECT_TRUE(merged.swarm.all_heads_equal());
}

}  // namespace
}  // namespace starling::exchange_test
