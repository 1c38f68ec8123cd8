// Agents that do nothing but exchange in pairs, over the network of harness.h.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "compression/encoder.h"
#include "gossip/exchange/bitmap.h"
#include "gossip/pairs/async_pairs.h"
#include "gossip/pairs/sync_pairs.h"
#include "kernels/check.h"
#include "tests/compression/encode_block.h"
#include "tests/gossip/exchange/harness.h"

namespace starling::exchange_test {

struct PairAgentOptions {
  CodecKind codec = CodecKind::kFp32;
  std::function<std::unique_ptr<Codec>()> make_codec{};  // instead of `codec`
  size_t params = 64;
  size_t block_elements = 16;
  double clip = 0, drift = 1;  // of the own steps, as the guard hears of them
  uint32_t fragments = 1;
  Duration deadline_min = kDeadlineMin, deadline_max = milliseconds(500);
  uint64_t turns = 1;
  PeerSampler* sampler = nullptr;  // of all agents
};

// E: AsyncPairs or SyncPairs.
template <class E>
class TestAgentOf {
 public:
  TestAgentOf(uint8_t tag, uint64_t generation, const PairAgentOptions& options, const Clock& clock,
              TestNetwork& network)
      : id(test_peer(tag)),
        generation(generation),
        params(options.params),
        encoder(options.make_codec ? options.make_codec() : starling::make_codec(options.codec, MemorySpace::kHost),
                Layout::cut({{"params", options.params}}, options.block_elements)),
        port(network, id, generation),
        drift_(options.drift) {
    const ExchangeOptions common{.self = id,
                                 .deadline_min = options.deadline_min,
                                 .deadline_max = options.deadline_max,
                                 .param_blocks = layout.blocks.size()};
    PairwiseOptions pairwise_options{common, generation, options.clip, options.fragments};
    pairwise_options.turns = options.turns;
    pairwise = std::make_unique<E>(pairwise_options, layout, *codec, worker, clock, port, options.sampler);
  }

  void receive() {
    port.receive([this](const PeerId& from, uint64_t their_generation, const ExchangeMessage& message,
                        const SharedBytes& payload) {
      pairwise->handle(from, their_generation, message, payload);
      worker.run_completions();
    });
  }

  // Applies and learns from what was decided, encodes, publishes. Returns how many deltas were applied.
  size_t boundary(std::optional<TimePoint> next_at = std::nullopt, Duration job = {}) {
    const size_t applied = apply();
    auto snapshot = std::make_shared<Snapshot>();
    snapshot->number = ++snapshots_;
    snapshot->round = snapshot->boundary = snapshots_;
    snapshot->mass = mass;
    snapshot->drift = drift_;
    snapshot->settling = far.has_value();
    snapshot->far = far;
    snapshot->next_at = next_at;
    snapshot->job = job;
    encoder.begin_snapshot({{params.data(), params.size(), MemorySpace::kHost}});
    for (size_t i = 0; i < layout.blocks.size(); ++i) {
      const Block& block = layout.blocks[i];
      std::vector<std::byte> out(encoder.payload_bytes_max(i));
      const auto size =
          encode_block(encoder, i, {params.data() + block.offset, block.element_count, MemorySpace::kHost}, out);
      if (!size) std::abort();
      snapshot->blocks.push_back(shared_copy(Bytes(out).first(*size)));
    }
    first_block = snapshot->blocks[0].owner;
    for (const SharedBytes& block : snapshot->blocks) published_.emplace_back(block.owner, block.size);
    pairwise->publish(std::move(snapshot));
    return applied;
  }

  void skip_boundary() { ++snapshots_; }  // steps without an exchange: nothing is published

  // By turns an idle agent publishes anew once its payload is spent, and serves who waits. Not while it steps.
  void pump() {
    if constexpr (std::is_same_v<E, SyncPairs>) {
      while (!stepping && snapshots_ > 0 && !pairwise->under_way()) {
        if (pairwise->fresh() && !pairwise->serve()) return;
        if (!pairwise->fresh()) boundary();
        worker.run_completions();
      }
    }
  }
  void begin_steps() {
    stepping = true;
    pairwise->retract();
  }
  void end_steps() {
    stepping = false;
    boundary();
  }

  // Of payloads that it published and does not let go of. Frames on their way hold some as well.
  size_t published_bytes_held() {
    std::erase_if(published_, [](const auto& block) { return block.first.expired(); });
    size_t bytes = 0;
    for (const auto& [owner, size] : published_) bytes += size;
    return bytes;
  }

  size_t apply() {
    const Decided decided = pairwise->take_decided();
    for (const BlockLesson& lesson : decided.lessons) encoder.learn(lesson.block, lesson.verdict());
    for (const Delta& delta : decided.deltas) {
      for (size_t i = 0; i < layout.blocks.size(); ++i) {
        if (!test_bit(delta.blocks, i)) continue;
        const Block& block = layout.blocks[i];
        const CodecTerm term{delta.coefficient, delta.own[i].span(), delta.peer[i].span()};
        encoder.codec().apply_all({&term, 1}, {params.data() + block.offset, block.element_count, MemorySpace::kHost});
      }
    }
    return decided.deltas.size();
  }

  PeerId id;
  uint64_t generation;
  double mass = 1;
  std::optional<Far> far;  // it settles
  std::vector<float> params;
  Encoder encoder;
  const Layout& layout = encoder.layout();
  const Codec* codec = &encoder.codec();
  InlineWorker worker;
  TestPort port;
  std::unique_ptr<E> pairwise;
  bool stepping = false;
  std::weak_ptr<const void> first_block;  // of the snapshot published last

 private:
  double drift_;
  uint64_t snapshots_ = 0;
  std::vector<std::pair<std::weak_ptr<const void>, size_t>> published_;
};

using TestAgent = TestAgentOf<AsyncPairs>;

template <class E>
class TestSwarmOf {
 public:
  using Agent = TestAgentOf<E>;
  explicit TestSwarmOf(const PairAgentOptions& options, uint64_t rng_seed = 1)
      : network(clock, rng_seed), options_(options) {}

  Agent& add(uint8_t tag, uint64_t generation = 1) {
    agents.erase(test_peer(tag));  // the life before: a restart
    auto agent = std::make_unique<Agent>(tag, generation, options_, clock, network);
    Agent& added = *agent;
    agents[added.id] = std::move(agent);
    return added;
  }

  // All that happens until `until`, in order of time.
  void run_for(Duration duration) {
    const TimePoint until = clock.now() + duration;
    for (;;) {
      TimePoint next = network.next_at();
      for (auto& [id, agent] : agents) next = std::min(next, agent->pairwise->next_deadline());
      if (next > until) break;
      laps_ = next > clock.now() ? 0 : laps_ + 1;
      STARLING_CHECK(laps_ < kLapsMax);  // a deadline has passed, and tick() does nothing about it
      clock.advance_to(std::max(clock.now(), next));
      while (network.next_at() <= clock.now()) {
        network.deliver_due();
        for (auto& [id, agent] : agents) agent->receive();
      }
      for (auto& [id, agent] : agents) {
        agent->pairwise->tick();
        agent->worker.run_completions();
        agent->pump();
      }
    }
    clock.advance_to(until);
  }

  // At once, and past the decoder, which would refuse some of it.
  void deliver(const Flight& flight) {
    const auto it = agents.find(flight.to);
    if (it == agents.end()) return;
    const auto& message = std::get<ExchangeMessage>(flight.message);
    it->second->pairwise->handle(flight.from, flight.generation, message, network.received(flight.payload, flight.to));
    it->second->worker.run_completions();
  }

  bool all_idle() const {
    return std::all_of(agents.begin(), agents.end(), [](const auto& entry) { return entry.second->pairwise->idle(); });
  }

  // sum(mass * params), element by element, in double.
  std::vector<double> weighted_sum() const {
    std::vector<double> sum(options_.params);
    for (const auto& [id, agent] : agents) {
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += agent->mass * static_cast<double>(agent->params[i]);
    }
    return sum;
  }

  VirtualClock clock;
  TestNetwork network;
  std::map<PeerId, std::unique_ptr<Agent>> agents;

 private:
  static constexpr size_t kLapsMax = 10'000;  // at one moment

  PairAgentOptions options_;
  size_t laps_ = 0;
};

using TestSwarm = TestSwarmOf<AsyncPairs>;

inline ExchangeReport only_report(auto& agent) {
  const std::vector<ExchangeReport> reports = agent.pairwise->take_reports();
  EXPECT_EQ(reports.size(), 1u);
  return reports.empty() ? ExchangeReport{} : reports[0];
}

inline void expect_all(const auto& agent, float value) {
  for (float x : agent.params) ASSERT_EQ(x, value);
}

// Two agents, all ones and all threes.
template <class E>
struct PairOf {
  explicit PairOf(const PairAgentOptions& options = {}, uint64_t rng_seed = 1)
      : swarm(options, rng_seed), a(swarm.add(1)), b(swarm.add(2)) {
    std::fill(a.params.begin(), a.params.end(), 1.0f);
    std::fill(b.params.begin(), b.params.end(), 3.0f);
  }
  void publish() {
    a.boundary();
    b.boundary();
  }
  TestSwarmOf<E> swarm;
  TestAgentOf<E>& a;
  TestAgentOf<E>& b;
};
using Pair = PairOf<AsyncPairs>;

}  // namespace starling::exchange_test
