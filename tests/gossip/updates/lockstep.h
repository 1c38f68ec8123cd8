// Members in lockstep, each of which takes one step a round whose backward ends with the last slice first.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "tests/gossip/updates/update_harness.h"

namespace starling::exchange_test {

inline constexpr size_t kAgents = 4, kSlices = 6, kElements = 50;

inline const UpdateCodec& sparse() {
  static const std::unique_ptr<UpdateCodec> codec = make_update_codec({.kind = UpdateKind::kTopk, .density = 0.2});
  return *codec;
}

inline UpdateAgentOptions sparse_slices() {
  return {.slices = kSlices, .elements = kElements, .codec = &sparse(), .last_first = true};
}

// One contribution as it left its sender.
struct Sent {
  uint32_t slice = 0;
  uint64_t round = 0, seq = 0, bytes_hash = 0;
  TimePoint at;
  auto key() const { return std::tuple(round, slice, seq, bytes_hash); }
};

// Members in lockstep: each round they take one step, whose backward ends with the last slice first, a millisecond a
// slice. What is final is handed in at once if `pipeline`, and what is left at the boundary.
class Lockstep {
 public:
  explicit Lockstep(bool pipeline, const UpdateAgentOptions& options = sparse_slices(), uint64_t rng_seed = 1)
      : swarm(kAgents, options, rng_seed), pipeline_(pipeline) {
    swarm.network.watch = [this](const Flight& flight) {
      frames += message_is<Contribution, LogEntry, UpdateBundle>(flight.message);
      const auto note = [&](const Contribution& message, const SharedBytes& payload) {
        sent[flight.from].push_back(
            {message.slice, message.round, message.seq, xxh3_64(payload.span()), swarm.clock.now()});
      };
      if (const auto* message = message_as<Contribution>(flight.message)) note(*message, flight.payload);
      const auto* bundle = message_as<UpdateBundle>(flight.message);
      if (bundle == nullptr) return;
      const std::vector<SharedBytes> payloads = payloads_of(*bundle, flight.payload);
      for (size_t i = 0; i < bundle->contributions.size(); ++i) note(bundle->contributions[i], payloads[i]);
    };
  }

  // What each member's step changes.
  void step() {
    for (auto& [id, agent] : swarm.agents) {
      agent->x = agent->params;
      for (float& value : agent->x) value += static_cast<float>(rng_.below(2001)) / 1000 - 1;
    }
  }
  // Backward, from the last slice to slice `until`.
  void backward(size_t until = 0) {
    for (size_t slice = swarm.options().slices; slice-- > until;) {
      pass(slice_time);
      for (auto& [id, agent] : swarm.agents) {
        if (pipeline_ && !stopped.contains(id)) submit(*agent, static_cast<uint32_t>(slice));
      }
    }
  }
  // `slice` was the last of its bucket to be final, or the bucket is left for later.
  void submit(UpdateAgent& agent, uint32_t slice) {
    const std::vector<uint32_t> buckets = agent.exchange().buckets();
    if (slice > 0 && buckets[slice - 1] == buckets[slice]) return;
    bool told = false;
    std::vector<uint32_t> slices{slice};
    while (slices.back() + 1 < buckets.size() && buckets[slices.back() + 1] == buckets[slice]) {
      slices.push_back(slices.back() + 1);
    }
    std::reverse(slices.begin(), slices.end());
    accepted += agent.exchange().submit(slices, agent.x, 1, 1, [&] { told = true; });
    agent.complete();
    told_all = told_all && told;
  }
  void boundary() {
    for (auto& [id, agent] : swarm.agents) {
      if (stopped.contains(id) || slow.contains(id)) continue;
      EXPECT_TRUE(agent->exchange().begin(agent->x, 1, 1, [] {}, false));
      agent->complete();
    }
  }
  // Until all rounds have ended; then all take what came.
  void end_round() {
    const TimePoint until = swarm.clock.now() + milliseconds(500);
    while (swarm.clock.now() < until && any_under_way()) pass(milliseconds(1));
    for (auto& [id, agent] : swarm.agents) {
      if (stopped.contains(id) || slow.contains(id)) continue;
      ASSERT_FALSE(agent->exchange().under_way());
      agent->exchange().catch_up(agent->x, [] {});
      agent->complete();
      EXPECT_EQ(agent->x, agent->params);
      swarm.observer.judge_bits(*agent, swarm.options().slices);
    }
  }
  void round() {
    step();
    backward();
    boundary();
    end_round();
  }
  void pass(Duration duration) {
    for (const TimePoint until = swarm.clock.now() + duration; swarm.clock.now() < until;) {
      swarm.clock.advance_to(swarm.clock.now() + std::chrono::microseconds(250));
      while (swarm.network.next_at() <= swarm.clock.now()) swarm.network.deliver_due();
      for (auto& [id, agent] : swarm.agents) {
        if (stopped.contains(id)) {
          agent->port.lose_arrived();
          continue;
        }
        agent->receive();
        agent->tick();
        if (!keeps_up) continue;
        agent->exchange().keep_up(agent->x);
        agent->complete();
      }
    }
  }
  bool any_under_way() const {
    for (const auto& [id, agent] : swarm.agents) {
      if (!stopped.contains(id) && !slow.contains(id) && agent->exchange().under_way()) return true;
    }
    return false;
  }
  std::vector<float> params(uint8_t tag) { return swarm.at(tag).params; }

  UpdateSwarm swarm;
  std::map<PeerId, std::vector<Sent>> sent;
  std::set<PeerId> stopped, slow;   // slow: still in backward
  size_t accepted = 0, frames = 0;  // frames: of contributions and entries
  bool told_all = true;
  bool keeps_up = false;                  // as a member whose training waits for the round
  Duration slice_time = milliseconds(1);  // of backward

 private:
  const bool pipeline_;
  Rng rng_{7};
};

}  // namespace starling::exchange_test
