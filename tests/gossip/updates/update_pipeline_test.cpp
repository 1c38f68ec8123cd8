// Slices handed in one by one while steps still go on: the same payloads, entries and replicas as at a boundary.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "tests/gossip/updates/lockstep.h"

namespace starling::exchange_test {
namespace {

TEST(UpdatePipeline, EndsWithTheBitsThatABoundaryAloneEndsWith) {
  Lockstep whole(false), pipelined(true);
  for (int round = 0; round < 30; ++round) {
    whole.round();
    pipelined.round();
    for (uint8_t tag = 1; tag <= kAgents; ++tag) {
      ASSERT_EQ(pipelined.params(tag), whole.params(tag)) << "round " << round << ", member " << int{tag};
      ASSERT_EQ(pipelined.swarm.at(tag).accumulator, whole.swarm.at(tag).accumulator);
    }
  }
  EXPECT_EQ(pipelined.accepted, 30 * kAgents * kSlices);
  EXPECT_EQ(pipelined.swarm.at(1).exchange().tally().handed_in_early, 30 * kSlices);
  EXPECT_EQ(whole.swarm.at(1).exchange().tally().handed_in_early, 0u);
  EXPECT_TRUE(pipelined.told_all);
  for (uint32_t s = 0; s < kSlices; ++s) EXPECT_EQ(pipelined.swarm.at(1).exchange().log(s).head().length, 30u);
  EXPECT_NE(pipelined.params(1), std::vector<float>(kSlices * kElements)) << "nothing was learned";
}

TEST(UpdatePipeline, SendsWhileBackwardGoesOn) {
  Lockstep pipelined(true);
  pipelined.step();
  pipelined.backward(1);
  std::map<uint32_t, int> slices;
  for (const auto& [id, sent] : pipelined.sent) {
    for (const Sent& one : sent) ++slices[one.slice];
  }
  // One of the members owns each of them, and sends nothing.
  EXPECT_EQ(slices, (std::map<uint32_t, int>{{1, 3}, {2, 3}, {3, 3}, {4, 3}, {5, 3}}));
  pipelined.pass(milliseconds(300));  // far longer than any deadline
  EXPECT_TRUE(pipelined.any_under_way()) << "a round cannot end before its boundary";
  EXPECT_EQ(pipelined.swarm.at(2).exchange().log(5).head().length, 1u) << "its entry came meanwhile";
  EXPECT_EQ(pipelined.swarm.at(2).exchange().log(0).head().length, 0u);
  EXPECT_EQ(pipelined.params(2), std::vector<float>(kSlices * kElements)) << "and is applied at the step's end only";
  pipelined.boundary();
  pipelined.end_round();
  for (uint8_t tag = 1; tag <= kAgents; ++tag) {
    EXPECT_NE(pipelined.params(tag), std::vector<float>(kSlices * kElements));
    const std::vector<UpdateReport> reports = pipelined.swarm.at(tag).exchange().take_reports();
    ASSERT_EQ(reports.size(), 1u);
    EXPECT_EQ(reports[0].entries, kSlices);
    EXPECT_LT(reports[0].duration, milliseconds(100)) << "waiting began at the boundary";
  }
}

TEST(UpdatePipeline, TakesWhatIsHereWhileItWaitsForTheRest) {
  Lockstep plain(true), keeping(true);
  keeping.keeps_up = true;
  for (int round = 0; round < 10; ++round) {
    plain.round();
    keeping.step();
    keeping.backward(1);
    keeping.pass(milliseconds(20));
    UpdateAgent& member = keeping.swarm.at(2);
    const std::vector<float> before = member.params;
    EXPECT_EQ(member.exchange().log(1).head().length, round + 1u);
    EXPECT_EQ(member.replica(1).head().length, static_cast<uint64_t>(round)) << "backward reads the params still";
    keeping.boundary();
    keeping.pass(milliseconds(1));
    ASSERT_TRUE(keeping.any_under_way()) << "slice 0 has just been handed in";
    EXPECT_EQ(member.replica(1).head().length, round + 1u);
    EXPECT_NE(member.params, before);
    const std::vector<float> x(member.slice(member.x, 1).begin(), member.slice(member.x, 1).end());
    EXPECT_EQ(x, std::vector<float>(member.slice(member.params, 1).begin(), member.slice(member.params, 1).end()));
    keeping.end_round();
    for (uint8_t tag = 1; tag <= kAgents; ++tag) {
      ASSERT_EQ(keeping.params(tag), plain.params(tag)) << "round " << round << ", member " << int{tag};
      ASSERT_EQ(keeping.swarm.at(tag).accumulator, plain.swarm.at(tag).accumulator);
      ASSERT_EQ(keeping.swarm.at(tag).exchange().held_back(), plain.swarm.at(tag).exchange().held_back());
    }
  }
}

// Delays differ from seed to seed, so entries and the others' payloads come in another order.
TEST(UpdatePipeline, SendsTheSamePayloadsInTheSameOrderWhateverArrivesWhen) {
  std::map<PeerId, std::vector<std::tuple<uint64_t, uint32_t, uint64_t, uint64_t>>> first;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Lockstep pipelined(true, sparse_slices(), seed);
    pipelined.swarm.network.options.control_min = milliseconds(1);
    pipelined.swarm.network.options.control_max = milliseconds(9);
    for (int round = 0; round < 8; ++round) pipelined.round();
    for (auto& [id, sent] : pipelined.sent) {
      auto& keys = first[id];
      const size_t known = keys.size();
      size_t i = 0;
      for (const Sent& one : sent) {
        if (seed == 1)
          keys.push_back(one.key());
        else
          ASSERT_TRUE(i < known && one.key() == keys[i]) << "seed " << seed << ", payload " << i;
        ++i;
      }
      ASSERT_EQ(i, keys.size());
      for (size_t k = 1; k < keys.size(); ++k) {
        const bool next_round = std::get<0>(keys[k]) > std::get<0>(keys[k - 1]);
        EXPECT_TRUE(next_round || std::get<1>(keys[k]) < std::get<1>(keys[k - 1])) << "the last slice goes first";
      }
    }
  }
}

TEST(UpdatePipeline, TheBoundaryClosesWhatBackwardNeverReached) {
  Lockstep pipelined(true);
  for (int round = 0; round < 5; ++round) {
    pipelined.step();
    pipelined.backward(round % 2 == 0 ? 4 : 0);  // of some slices no layer says that it has ended
    pipelined.boundary();
    pipelined.end_round();
  }
  for (uint32_t s = 0; s < kSlices; ++s) EXPECT_EQ(pipelined.swarm.at(1).exchange().log(s).head().length, 5u);
}

// Links would stand idle while all that backward ended with last is chosen.
TEST(UpdatePipeline, EachBucketIsChosenByItself) {
  UpdateAgentOptions options = sparse_slices();
  options.merge = true;  // then it is noted what was chosen together
  Lockstep pipelined(true, options);
  for (int round = 0; round < 3; ++round) {
    pipelined.step();
    UpdateAgent& member = pipelined.swarm.at(1);
    const std::vector<uint32_t> together = {5, 4};  // final at the same time
    for (auto& [id, agent] : pipelined.swarm.agents) {
      EXPECT_TRUE(agent->exchange().submit(together, agent->x, 1, 1, [] {}));
      agent->complete();
    }
    EXPECT_EQ(member.exchange().take_selections().size(), 2u);
    pipelined.boundary();
    const std::vector<UpdateSelection> rest = member.exchange().take_selections();
    ASSERT_EQ(rest.size(), kSlices - 2) << "and so is what was left for the boundary";
    for (const UpdateSelection& one : rest) EXPECT_EQ(one.elements, kElements);
    pipelined.end_round();
  }
  EXPECT_EQ(pipelined.swarm.at(1).exchange().tally().handed_in_early, 6u) << "what the boundary hands in is not early";
  for (uint32_t s = 0; s < kSlices; ++s) EXPECT_EQ(pipelined.swarm.at(1).exchange().log(s).head().length, 3u);
}

TEST(UpdatePipeline, AMemberThatStopsInBackwardHoldsNobodyUp) {
  Lockstep pipelined(true);
  for (int round = 0; round < 3; ++round) pipelined.round();
  pipelined.step();
  pipelined.backward(3);
  const PeerId dead = test_peer(2);
  pipelined.stopped.insert(dead);
  for (size_t slice = 3; slice-- > 0;) {
    for (auto& [id, agent] : pipelined.swarm.agents) {
      if (id != dead) pipelined.submit(*agent, static_cast<uint32_t>(slice));
    }
  }
  const TimePoint began = pipelined.swarm.clock.now();
  pipelined.boundary();
  pipelined.end_round();
  EXPECT_LE(pipelined.swarm.clock.now() - began, milliseconds(200)) << "two deadlines";
  for (auto& [id, agent] : pipelined.swarm.agents) {
    agent->view.erase(dead);
    if (id != dead) agent->exchange().forget(dead);
  }
  for (int round = 0; round < 5; ++round) pipelined.round();
  for (uint32_t s = 0; s < kSlices; ++s) EXPECT_GE(pipelined.swarm.at(1).exchange().log(s).head().length, 8u) << s;
}

// Links as slow as backward: two thirds of all parts come before the boundary, the last ones 70 ms after it. Counted
// one by one, as waits of 0 s, the former would shorten both deadlines to the least: a tenth of the entries came late.
TEST(UpdatePipeline, PartsThatComeBeforeTheBoundaryDoNotShortenTheDeadlines) {
  constexpr size_t kMany = 24, kLarge = 625, kLeft = 6;
  const auto exact = make_update_codec({});
  Lockstep pipelined(true, {.slices = kMany,
                            .elements = kLarge,
                            .deadline_min = milliseconds(5),
                            .deadline_max = milliseconds(400),
                            .codec = exact.get(),
                            .last_first = true});
  pipelined.slice_time = milliseconds(5);
  pipelined.swarm.network.set_node_rate(1e6);
  size_t entries = 0;
  for (int round = 0; round < 30; ++round) {
    pipelined.step();
    pipelined.backward(kLeft);
    const TimePoint boundary = pipelined.swarm.clock.now();
    pipelined.boundary();
    pipelined.end_round();
    EXPECT_GT(pipelined.swarm.clock.now() - boundary, milliseconds(40)) << "the links were no limit";
    for (const UpdateReport& report : pipelined.swarm.at(1).exchange().take_reports()) entries += report.entries;
  }
  EXPECT_EQ(entries, 30 * kMany);
  EXPECT_LE(pipelined.swarm.at(1).exchange().tally().pulls_sent, kMany);
}

// Member 1 is 17 ms ahead of the others and learns to wait 26 ms. When two of them come after 23 ms, the last one is
// not late after 31. Its payload would count a round later, so the bits would not be those of a boundary alone.
TEST(UpdatePipeline, WhoIsLastIsWaitedForOnceMostHaveHandedIn) {
  const auto exact = make_update_codec({});
  Lockstep pipelined(true, {.slices = kSlices,
                            .elements = kElements,
                            .deadline_min = milliseconds(2),
                            .deadline_max = milliseconds(200),
                            .codec = exact.get(),
                            .last_first = true});
  const auto boundary_of = [&](uint8_t tag) {
    UpdateAgent& agent = pipelined.swarm.at(tag);
    EXPECT_TRUE(agent.exchange().begin(agent.x, 1, 1, [] {}, false));
    agent.complete();
  };
  for (int round = 0; round < 12; ++round) {
    const bool late = round == 11;
    pipelined.step();
    pipelined.backward(5);
    boundary_of(1);
    pipelined.pass(milliseconds(late ? 23 : 17));
    boundary_of(2);
    boundary_of(3);
    pipelined.pass(milliseconds(late ? 7 : 0));
    boundary_of(4);
    pipelined.end_round();
  }
  for (uint32_t s = 0; s < kSlices; ++s) {
    const UpdateLog& log = pipelined.swarm.at(1).exchange().log(s);
    EXPECT_EQ(log.head().length, 12u);
    for (uint8_t tag = 1; tag <= kAgents; ++tag) EXPECT_EQ(log.table().row(test_peer(tag))->newest, 12u) << s;
  }
}

// The others make all entries without it: they have a majority.
TEST(UpdatePipeline, WhoComputesLongestStillHandsInTheRest) {
  Lockstep pipelined(true);
  pipelined.step();
  pipelined.backward(3);
  UpdateAgent& slow = pipelined.swarm.at(4);
  pipelined.slow.insert(slow.id);
  for (uint8_t tag = 1; tag < 4; ++tag) {
    for (uint32_t slice : {2u, 1u, 0u}) pipelined.submit(pipelined.swarm.at(tag), slice);
  }
  pipelined.boundary();
  pipelined.end_round();
  for (uint32_t s = 0; s < kSlices; ++s) EXPECT_EQ(slow.exchange().log(s).head().length, 1u) << "slice " << s;
  EXPECT_TRUE(slow.exchange().under_way()) << "it ended without its own boundary";
  EXPECT_EQ(slow.params, std::vector<float>(kSlices * kElements));
  pipelined.slow.clear();
  EXPECT_TRUE(slow.exchange().begin(slow.x, 1, 1, [] {}, false));
  slow.complete();
  pipelined.end_round();
  for (int round = 0; round < 3; ++round) pipelined.round();
  EXPECT_TRUE(pipelined.swarm.all_heads_equal());
  for (size_t s = 0; s < kSlices; ++s) {
    EXPECT_GE(slow.exchange().log(static_cast<uint32_t>(s)).table().row(slow.id)->newest, 3u) << "slice " << s;
  }
}

// Steps of multiples of 4 on four members of one mass: every sum is exact.
TEST(UpdatePipeline, WhatIsAbandonedCountsOnceAllTheSame) {
  const auto exact = make_update_codec({});
  Lockstep pipelined(true, {.slices = kSlices, .elements = kElements, .codec = exact.get()});
  UpdateSwarm& swarm = pipelined.swarm;
  pipelined.step();
  std::vector<float> expected(kSlices * kElements);
  for (auto& [id, agent] : swarm.agents) {
    for (size_t i = 0; i < agent->x.size(); ++i) {
      agent->x[i] = static_cast<float>(4 * id.bytes[0]) + static_cast<float>(4 * (i % 7));
      expected[i] += agent->x[i] / 4;
    }
  }
  pipelined.backward(2);
  for (auto& [id, agent] : swarm.agents) agent->exchange().abandon();
  EXPECT_FALSE(pipelined.any_under_way());
  for (auto& [id, agent] : swarm.agents) {
    agent->exchange().catch_up(agent->x, [] {});
    agent->complete();
    EXPECT_EQ(agent->x, agent->params);
    for (size_t s = 0; s < kSlices; ++s) {
      EXPECT_EQ(agent->replica(s).sent().newest_seq(), s >= 2 ? 1u : 0u) << "handed in before it was abandoned";
    }
  }
  for (int round = 0; round < 8 && (round == 0 || !swarm.all_drained()); ++round) {
    for (auto& [id, agent] : swarm.agents) agent->x = agent->params;
    pipelined.boundary();
    pipelined.end_round();
  }
  EXPECT_TRUE(swarm.all_heads_equal());
  EXPECT_TRUE(swarm.all_drained());
  for (uint8_t tag = 1; tag <= kAgents; ++tag) EXPECT_EQ(pipelined.params(tag), expected);
  pipelined.step();  // and a later boundary hands in every slice again
  pipelined.boundary();
  pipelined.end_round();
  for (size_t s = 0; s < kSlices; ++s) {
    EXPECT_FALSE(std::all_of(expected.begin(), expected.end(),
                             [&](const float& value) {
                               const size_t i = static_cast<size_t>(&value - expected.data());
                               return i / kElements != s || pipelined.params(1)[i] == value;
                             }))
        << "slice " << s << " did not move";
  }
}

// Credits of large slices cover two parts at first: were they those of slice 1, slice 5 of the same owner would wait
// until backward has ended.
TEST(UpdatePipeline, CreditsBeginWithTheSliceThatIsHandedInFirst) {
  const auto exact = make_update_codec({});
  const size_t elements = kUpdatePartBytes / sizeof(float) + 1000;  // two parts
  Lockstep pipelined(true, {.slices = kSlices, .elements = elements, .codec = exact.get(), .last_first = true});
  pipelined.step();
  pipelined.backward(5);
  for (const auto& [id, sent] : pipelined.sent) {
    EXPECT_EQ(sent.size(), 2u);
    for (const Sent& one : sent) EXPECT_EQ(one.slice, 5u);
  }
  EXPECT_EQ(pipelined.sent.size(), kAgents - 1) << "the owner sends nothing";
}

// Credits bound what is under way by the payloads' own sizes, not by those of whole slices.
TEST(UpdatePipeline, SmallPayloadsOfLargeSlicesGoAtOnce) {
  const auto topk = make_update_codec({.kind = UpdateKind::kTopk, .density = 0.001});
  const size_t elements = kUpdatePartBytes / sizeof(float) + 1000;  // two parts in fp32
  Lockstep pipelined(true, {.slices = 2 * kSlices, .elements = elements, .codec = topk.get(), .last_first = true});
  size_t credits = 0;
  pipelined.swarm.network.drop = [&](const Flight& flight) {
    const auto* credit = message_as<RoundCredit>(flight.message);
    credits += credit != nullptr && credit->credit > 0;
    return false;
  };
  pipelined.round();
  EXPECT_EQ(credits, 0u);
  for (const auto& [id, sent] : pipelined.sent) EXPECT_EQ(sent.size(), 2 * kSlices * (kAgents - 1) / kAgents);
}

TEST(UpdatePipeline, ASliceThatIsNotFiniteMakesItsMemberSickAndNoOther) {
  Lockstep pipelined(true);
  for (int round = 0; round < 3; ++round) pipelined.round();
  pipelined.step();
  UpdateAgent& sick = pipelined.swarm.at(3);
  sick.x[2 * kElements] = std::numeric_limits<float>::infinity();
  pipelined.backward();
  pipelined.boundary();
  EXPECT_TRUE(sick.exchange().sick());
  pipelined.end_round();
  for (uint8_t tag = 1; tag <= kAgents; ++tag) {
    for (const float value : pipelined.params(tag)) ASSERT_TRUE(std::isfinite(value));
    EXPECT_EQ(pipelined.swarm.at(tag).exchange().sick(), tag == 3);
  }
  for (int round = 0; round < 3; ++round) pipelined.round();
  EXPECT_FALSE(sick.exchange().sick());
  EXPECT_TRUE(pipelined.swarm.all_heads_equal());
}

// fp32 whose choice and whose coding take so long on the clock that it is told of.
class TimedCodec final : public UpdateCodecAround {
 public:
  std::optional<UpdateSupport> choose(UpdateRole role, std::span<const float> x,
                                      const UpdateSeeds& seeds) const override {
    pass(role, milliseconds(3));
    return inner().choose(role, x, seeds);
  }
  std::optional<size_t> encode_chosen(UpdateRole role, std::span<const float> x, const UpdateSeeds& seeds,
                                      const UpdateSupport& chosen, MutableBytes out) const override {
    pass(role, milliseconds(2));
    return inner().encode_chosen(role, x, seeds, chosen, out);
  }
  VirtualClock* clock = nullptr;

 private:
  void pass(UpdateRole role, Duration duration) const {  // entries are made for all, and not counted
    if (role == UpdateRole::kContribution) clock->advance_to(clock->now() + duration);
  }
};

TEST(UpdatePipeline, CountsChoosingAndCodingApart) {
  TimedCodec codec;
  Lockstep pipelined(true, {.slices = kSlices, .elements = kElements, .codec = &codec});
  codec.clock = &pipelined.swarm.clock;
  UpdateGroup& group = pipelined.swarm.at(1).exchange();
  pipelined.step();
  pipelined.backward(2);  // four slices early, the other two at the boundary
  EXPECT_EQ(group.take_select_time(), 4 * milliseconds(3));
  EXPECT_EQ(group.take_encode_time(), 4 * milliseconds(2));
  pipelined.boundary();
  EXPECT_EQ(group.take_select_time(), 2 * milliseconds(3));
  EXPECT_EQ(group.take_encode_time(), 2 * milliseconds(2));
  EXPECT_EQ(group.take_select_time(), Duration::zero()) << "since the last call";
}

// The codec chooses elements by tables, or scales by the norm of the whole drift.
TEST(UpdatePipeline, WaitsForTheBoundaryWhereAllSlicesAreNeededAtOnce) {
  for (const UpdateOptions& options : {UpdateOptions{.kind = UpdateKind::kSketch, .density = 0.2},
                                       UpdateOptions{.kind = UpdateKind::kDgc, .density = 0.2, .clip = 1}}) {
    const auto codec = make_update_codec(options);
    Lockstep pipelined(true, {.slices = kSlices, .elements = kElements, .codec = codec.get()});
    pipelined.step();
    pipelined.backward();
    EXPECT_EQ(pipelined.accepted, 0u);
    EXPECT_TRUE(pipelined.sent.empty());
    pipelined.boundary();
    pipelined.end_round();
  }
}

}  // namespace
}  // namespace starling::exchange_test
