// Agents that do nothing but exchange, in rounds of whatever kind, over the network of harness.h.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "compression/encoder.h"
#include "gossip/exchange/bitmap.h"
#include "gossip/exchange/exchange.h"
#include "gossip/exchange/options.h"
#include "gossip/exchange/topology.h"
#include "gossip/net/hash.h"
#include "tests/compression/encode_block.h"
#include "tests/gossip/exchange/harness.h"

namespace starling::exchange_test {

struct RoundAgentOptions {
  CodecKind codec = CodecKind::kFp32;
  size_t params = 64;
  size_t block_elements = 4;
  Duration deadline_min = milliseconds(20);
  Duration deadline_max = milliseconds(200);
  double inject_loss = 0;
  double far = 0;                                      // the guard's multiple of the usual distance; 0: off
  TopologySpec topology{.kind = TopologyKind::kRing};  // neighborhood
  Duration compute = milliseconds(30);  // free running: between the end of an exchange and the next boundary
};

// What an exchange is made of.
struct ExchangeParts {
  PeerId self;
  const RoundAgentOptions& options;
  const Layout& layout;
  const Codec& codec;
  Worker& worker;
  const Clock& clock;
  Outbox& outbox;
  PeerSampler& sampler;

  ExchangeOptions common() const { return {self, options.deadline_min, options.deadline_max, layout.blocks.size()}; }
};

// One function an exchange; the rest of this file knows no kind.
template <class E>
std::unique_ptr<E> make_test_exchange(const ExchangeParts& parts);

// What the harness must know of a kind. A room may specialise it.
template <class E>
struct RoundKind {
  static constexpr double kFar = 1;         // of a guard that is on
  static constexpr bool kReplaces = false;  // a delta has a coefficient of 1
  // Of one round: peers that a guard held back.
  static size_t far(const ExchangeReport& report) { return report.scale < 1; }
};

template <class E>
class RoundAgent final : public PeerSampler {
 public:
  RoundAgent(uint8_t tag, const RoundAgentOptions& options, const Clock& clock, TestNetwork& network)
      : id(test_peer(tag)),
        params(options.params),
        encoder(make_codec(options.codec, MemorySpace::kHost),
                Layout::cut({{"params", options.params}}, options.block_elements)),
        port(network, id, 1),
        exchange(make_test_exchange<E>({id, options, layout, *codec, worker, clock, port, *this})),
        compute(options.compute),
        topology_(options.topology),
        rng_(tag) {
    port.checksums_wanted = true;
  }

  void receive() {
    if (paused) return port.lose_arrived();
    port.receive(
        [this](const PeerId& from, uint64_t generation, const ExchangeMessage& message, const SharedBytes& payload) {
          EXPECT_EQ(generation, 1u);
          exchange->handle(from, generation, message, payload);
          worker.run_completions();
        });
  }
  std::optional<PeerId> choose(const std::vector<PeerId>& except) override {
    std::vector<PeerId> others = list;
    std::erase_if(others,
                  [&](const PeerId& one) { return std::find(except.begin(), except.end(), one) != except.end(); });
    std::erase(others, id);
    if (others.empty()) return std::nullopt;
    return others[rng_.below(static_cast<uint32_t>(others.size()))];
  }
  void met(const PeerId& peer) override { last_met_[peer] = ++meetings_; }
  std::vector<PeerId> candidates() override {
    std::vector<PeerId> others = list;
    std::erase(others, id);
    return others;
  }
  uint64_t last_met(const PeerId& peer) override {
    const auto known = last_met_.find(peer);
    return known == last_met_.end() ? 0 : known->second;
  }
  std::vector<Participant> neighbors(uint64_t round) override {
    std::sort(list.begin(), list.end());
    const auto own = static_cast<size_t>(std::find(list.begin(), list.end(), id) - list.begin());
    if (own == list.size()) return {};
    const Graph graph = make_graph(topology_, list.size(), round);
    std::vector<Participant> row;
    for (uint32_t j : graph.neighbors[own]) {
      row.push_back({list[j], edge_weight(graph.degree(own), 1, graph.degree(j), 1), mass_of ? mass_of(list[j]) : 1});
    }
    return row;
  }
  std::vector<Participant> group() override {
    std::sort(list.begin(), list.end());
    std::vector<Participant> sorted;
    for (const PeerId& peer : list) sorted.push_back({peer, 1});
    return sorted;
  }

  std::shared_ptr<Snapshot> encode() {
    auto snapshot = std::make_shared<Snapshot>();
    snapshot->number = ++snapshots_;
    snapshot->boundary = snapshots_;  // one each
    snapshot->mass = mass;
    snapshot->drift = drift;
    encoder.begin_snapshot({{params.data(), params.size(), MemorySpace::kHost}});
    for (size_t i = 0; i < layout.blocks.size(); ++i) {
      const Block& block = layout.blocks[i];
      std::vector<std::byte> out(encoder.payload_bytes_max(i));
      const auto size =
          encode_block(encoder, i, {params.data() + block.offset, block.element_count, MemorySpace::kHost}, out);
      if (size != out.size()) std::abort();
      snapshot->blocks.push_back(shared_copy(out));
      snapshot->blocks.back().checksum = xxh3_64(out);
    }
    return snapshot;
  }
  void apply() {
    const Decided decided = exchange->take_decided();
    for (const BlockLesson& lesson : decided.lessons) encoder.learn(lesson.block, lesson.verdict());
    for (const Delta& delta : decided.deltas) {
      if constexpr (RoundKind<E>::kReplaces) {
        EXPECT_EQ(delta.coefficient, 1);
      }
      const std::vector<float> before = on_applied ? params : std::vector<float>();
      for (size_t i = 0; i < layout.blocks.size(); ++i) {
        EXPECT_EQ(delta.peer[i].empty(), !test_bit(delta.blocks, i));
        if (!test_bit(delta.blocks, i)) continue;
        const Block& block = layout.blocks[i];
        codec->apply(delta.coefficient, delta.own[i].span(), delta.peer[i].span(),
                     {params.data() + block.offset, block.element_count, MemorySpace::kHost});
      }
      if (on_applied) on_applied(delta, before);
    }
    for (const ExchangeReport& report : exchange->take_reports()) reports.push_back(report);
  }
  bool boundary() {
    apply();
    if (local_step) {
      const std::vector<float> before = params;
      local_step(*this);
      double squares = 0;
      for (size_t i = 0; i < params.size(); ++i) squares += std::pow(double{params[i]} - double{before[i]}, 2);
      drift = std::sqrt(squares / static_cast<double>(params.size()));
    }
    exchange->retract();
    exchange->publish(encode());
    return exchange->begin();
  }

  PeerId id;
  double mass = 1, drift = 0;
  std::function<double(const PeerId&)> mass_of;  // by its record; null: 1
  std::vector<float> params;
  Encoder encoder;
  const Layout& layout = encoder.layout();
  const Codec* codec = &encoder.codec();
  InlineWorker worker;
  TestPort port;
  std::vector<PeerId> list;
  std::vector<ExchangeReport> reports;
  std::unique_ptr<E> exchange;
  Duration compute;
  std::function<void(RoundAgent&)> local_step;  // at each boundary
  std::function<void(const Delta&, const std::vector<float>& before)> on_applied;
  bool paused = false;
  std::optional<TimePoint> next_boundary;

 private:
  std::map<PeerId, uint64_t> last_met_;
  uint64_t meetings_ = 0;
  TopologySpec topology_;
  Rng rng_;
  uint64_t snapshots_ = 0;
};

template <class E>
class RoundSwarm {
 public:
  using Agent = RoundAgent<E>;
  RoundSwarm(size_t count, const RoundAgentOptions& options, uint64_t rng_seed = 1)
      : network(clock, rng_seed), options_(options) {
    for (size_t i = 1; i <= count; ++i) add(static_cast<uint8_t>(i));
    set_lists();
  }
  Agent& add(uint8_t tag) {
    auto agent = std::make_unique<Agent>(tag, options_, clock, network);
    Agent& added = *agent;
    added.mass_of = [this](const PeerId& peer) { return agents.at(peer)->mass; };
    agents[added.id] = std::move(agent);
    return added;
  }
  Agent& at(uint8_t tag) { return *agents.at(test_peer(tag)); }
  void set_lists() {  // everybody knows everybody
    std::vector<PeerId> all;
    for (const auto& [id, agent] : agents) all.push_back(id);
    for (auto& [id, agent] : agents) agent->list = all;
  }
  // At once, and past the decoder, which would refuse some of it.
  void deliver(const Flight& flight) {
    const auto it = agents.find(flight.to);
    if (it == agents.end() || it->second->paused) return;
    const auto& message = std::get<ExchangeMessage>(flight.message);
    it->second->exchange->handle(flight.from, flight.generation, message, network.received(flight.payload, flight.to));
    it->second->worker.run_completions();
  }

  // Everybody begins now; until all have ended, and no longer than `limit`.
  void round(Duration limit = std::chrono::seconds(5)) {
    for (auto& [id, agent] : agents) EXPECT_TRUE(agent->boundary());
    for (auto& [id, agent] : agents) agent->worker.run_completions();
    run(clock.now() + limit, [&] { return none_under_way(); });
    EXPECT_TRUE(none_under_way());
    for (auto& [id, agent] : agents) agent->apply();
  }
  void run_for(Duration duration) {
    run(clock.now() + duration, [] { return false; });
  }
  // Everybody at its own pace: a boundary `compute` after each end.
  void run_freely(Duration duration) {
    for (auto& [id, agent] : agents) {
      if (!agent->next_boundary && !agent->exchange->under_way()) agent->next_boundary = clock.now();
    }
    free_ = true;
    run_for(duration);
    free_ = false;
  }
  bool none_under_way() const {
    return std::none_of(agents.begin(), agents.end(), [](const auto& e) { return e.second->exchange->under_way(); });
  }

  // rms distance from the mean, over all params.
  double spread() const {
    double sum = 0;
    for (size_t i = 0; i < options_.params; ++i) {
      double mean = 0;
      for (const auto& [id, agent] : agents) mean += static_cast<double>(agent->params[i]);
      mean /= static_cast<double>(agents.size());
      for (const auto& [id, agent] : agents) sum += std::pow(static_cast<double>(agent->params[i]) - mean, 2);
    }
    return std::sqrt(sum / static_cast<double>(options_.params * agents.size()));
  }
  void randomize(uint64_t rng_seed) {
    Rng rng(rng_seed);
    for (auto& [id, agent] : agents) {
      for (float& x : agent->params) x = static_cast<float>(rng.uniform() * 8 - 4);
    }
  }
  uint64_t digest() const {
    std::vector<std::byte> bytes;
    for (const auto& [id, agent] : agents) {
      const auto* data = reinterpret_cast<const std::byte*>(agent->params.data());
      bytes.insert(bytes.end(), data, data + agent->params.size() * sizeof(float));
      const BlockTally tally = agent->exchange->block_tally();
      const auto* more = reinterpret_cast<const std::byte*>(&tally);
      bytes.insert(bytes.end(), more, more + sizeof tally);
      for (const ExchangeReport& report : agent->reports) bytes.push_back(static_cast<std::byte>(report.outcome));
    }
    return xxh3_64(bytes);
  }

  VirtualClock clock;
  TestNetwork network;
  std::map<PeerId, std::unique_ptr<Agent>> agents;
  Duration longest{};  // of all exchanges that their agent waited for

 private:
  template <typename Stop>
  void run(TimePoint until, const Stop& stop) {
    while (!stop()) {
      TimePoint next = network.next_at();
      for (auto& [id, agent] : agents) {
        if (agent->paused) continue;
        next = std::min(next, agent->exchange->next_deadline());
        const bool waits = !agent->next_boundary || agent->exchange->under_way();
        if (free_ && !waits) next = std::min(next, *agent->next_boundary);
      }
      if (next > until) break;
      clock.advance_to(std::max(clock.now(), next));
      while (network.next_at() <= clock.now()) {
        network.deliver_due();
        for (auto& [id, agent] : agents) agent->receive();
      }
      for (auto& [id, agent] : agents) {
        if (!agent->paused) step(*agent);
      }
    }
    if (!stop()) clock.advance_to(until);
  }
  void step(Agent& agent) {
    agent.exchange->tick();
    agent.worker.run_completions();
    if (!free_ || agent.exchange->under_way()) return;
    if (!agent.next_boundary) agent.next_boundary = clock.now() + agent.compute;
    if (*agent.next_boundary > clock.now()) return;
    if (agent.boundary()) {
      agent.next_boundary.reset();
    } else {
      agent.next_boundary = clock.now() + agent.compute;
    }
    agent.worker.run_completions();
    for (const ExchangeReport& report : agent.reports) {
      if (report.initiated) longest = std::max(longest, report.duration);
    }
  }

  RoundAgentOptions options_;
  bool free_ = false;
};

inline void expect_adds_up(const BlockTally& t) {
  EXPECT_EQ(t.due, t.counted + t.old + t.late + t.missing + t.dead + t.refused + t.injected);
  EXPECT_LE(t.averages_counted, t.averages_due);
  EXPECT_LE(t.averages_due, t.due);
}

inline const RoundBlock* round_block(const Flight& flight) { return message_as<RoundBlock>(flight.message); }

}  // namespace starling::exchange_test
