// Agents that do nothing but average in a group, over the small virtual network of harness.h.
#pragma once

#include <cmath>
#include <numeric>
#include <optional>

#include "gossip/exchange/group.h"
#include "gossip/limits.h"
#include "gossip/net/hash.h"
#include "tests/gossip/exchange/harness.h"

namespace starling::exchange_test {

struct GroupAgentOptions {
  CodecKind codec = CodecKind::kFp32;
  size_t params = 64;
  size_t block_elements = 4;
  Duration deadline_min = milliseconds(20);
  Duration deadline_max = milliseconds(200);
  double inject_loss = 0;
  Duration compute = milliseconds(30);   // free running: between the end of an exchange and the next boundary
};

class GroupAgent final : public Outbox, public Company {
 public:
  GroupAgent(uint8_t tag, const GroupAgentOptions& options, const Clock& clock, TestNetwork& network)
      : id(test_peer(tag)), params(options.params),
        layout(Layout::cut({{"params", options.params}}, options.block_elements)),
        codec(make_codec(options.codec, MemorySpace::kHost)), compute(options.compute), network_(network) {
    const GroupOptions group_options{.self = id, .deadline_min = options.deadline_min,
                                     .deadline_max = options.deadline_max, .param_blocks = layout.blocks.size(),
                                     .inject_loss = options.inject_loss, .rng_seed = 7};
    exchange = std::make_unique<Group>(group_options, layout, *codec, worker, clock, *this, *this);
  }

  void send(const PeerId& to, const Message& message, SharedBytes payload) override {
    EXPECT_TRUE(payload.empty() || payload.checksum == xxh3_64(payload.span()));
    network_.send({id, to, 1, message, std::move(payload)});
  }
  void send(const Endpoint&, const Message&, SharedBytes) override { std::abort(); }
  std::optional<PeerId> choose() override { return std::nullopt; }
  std::vector<Participant> neighbors(uint64_t) override { return {}; }
  std::vector<Participant> group() override {
    std::sort(list.begin(), list.end());
    std::vector<Participant> sorted;
    for (const PeerId& peer : list) sorted.push_back({peer, 1});
    return sorted;
  }

  std::shared_ptr<Snapshot> encode() {
    auto snapshot = std::make_shared<Snapshot>();
    snapshot->number = ++snapshots_;
    snapshot->mass = mass;
    for (const Block& block : layout.blocks) {
      std::vector<std::byte> out(codec->payload_bytes(block.element_count));
      const ConstView x{params.data() + block.offset, block.element_count, MemorySpace::kHost};
      if (!codec->encode(x, {}, out)) std::abort();
      snapshot->blocks.push_back(shared_copy(out));
      snapshot->blocks.back().checksum = xxh3_64(out);
    }
    return snapshot;
  }
  void apply() {
    for (const PairDelta& delta : exchange->take_decided()) {
      EXPECT_EQ(delta.coefficient, 1);
      for (size_t i = 0; i < layout.blocks.size(); ++i) {
        EXPECT_EQ(delta.peer[i].empty(), !test_bit(delta.blocks, i));
        if (!test_bit(delta.blocks, i)) continue;
        const Block& block = layout.blocks[i];
        codec->apply(1, delta.own[i].span(), delta.peer[i].span(),
                     {params.data() + block.offset, block.element_count, MemorySpace::kHost});
      }
    }
    for (const ExchangeReport& report : exchange->take_reports()) reports.push_back(report);
  }
  bool boundary() {
    apply();
    exchange->publish(encode());
    return exchange->begin();
  }

  PeerId id;
  double mass = 1;
  std::vector<float> params;
  Layout layout;
  std::unique_ptr<Codec> codec;
  InlineWorker worker;
  std::vector<PeerId> list;
  std::vector<ExchangeReport> reports;
  std::unique_ptr<Group> exchange;
  Duration compute;
  bool paused = false;
  std::optional<TimePoint> next_boundary;

 private:
  TestNetwork& network_;
  uint64_t snapshots_ = 0;
};

class GroupSwarm {
 public:
  GroupSwarm(size_t count, const GroupAgentOptions& options, uint64_t rng_seed = 1)
      : network(clock, rng_seed), options_(options) {
    for (size_t i = 1; i <= count; ++i) add(static_cast<uint8_t>(i));
    set_lists();
  }
  GroupAgent& add(uint8_t tag) {
    auto agent = std::make_unique<GroupAgent>(tag, options_, clock, network);
    GroupAgent& added = *agent;
    agents[added.id] = std::move(agent);
    return added;
  }
  GroupAgent& at(uint8_t tag) { return *agents.at(test_peer(tag)); }
  void set_lists() {   // everybody knows everybody
    std::vector<PeerId> all;
    for (const auto& [id, agent] : agents) all.push_back(id);
    for (auto& [id, agent] : agents) agent->list = all;
  }
  void deliver(const Flight& flight) {
    const auto it = agents.find(flight.to);
    if (it == agents.end() || it->second->paused) return;
    it->second->exchange->handle(flight.from, flight.generation, flight.message, flight.payload);
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
      const GroupCounters& counters = agent->exchange->counters();
      const auto* more = reinterpret_cast<const std::byte*>(&counters);
      bytes.insert(bytes.end(), more, more + sizeof counters);
    }
    return xxh3_64(bytes);
  }

  ManualClock clock;
  TestNetwork network;
  std::map<PeerId, std::unique_ptr<GroupAgent>> agents;
  Duration longest{};   // exchange, of all reported

 private:
  template <typename Stop>
  void run(TimePoint until, const Stop& stop) {
    while (!stop()) {
      TimePoint next = network.next_at();
      for (auto& [id, agent] : agents) {
        if (agent->paused) continue;
        next = std::min(next, agent->exchange->next_deadline());
        if (free_ && agent->next_boundary) next = std::min(next, *agent->next_boundary);
      }
      if (next > until) break;
      clock.set(std::max(clock.now(), next));
      while (network.next_at() <= clock.now()) deliver(network.pop());
      for (auto& [id, agent] : agents) {
        if (!agent->paused) step(*agent);
      }
    }
    if (!stop()) clock.set(until);
  }
  void step(GroupAgent& agent) {
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
    for (const ExchangeReport& report : agent.reports) longest = std::max(longest, report.duration);
  }

  GroupAgentOptions options_;
  bool free_ = false;
};

inline void expect_adds_up(const GroupCounters& c) {
  EXPECT_EQ(c.blocks_due, c.blocks_counted + c.lost_late + c.lost_missing + c.lost_dead + c.lost_refused +
                              c.lost_injected);
}

inline const RoundBlock* round_block(const Flight& flight) { return std::get_if<RoundBlock>(&flight.message); }

}  // namespace starling::exchange_test
