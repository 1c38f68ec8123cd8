// Agents that do nothing but exchange, over a small network in virtual time that may lose, double and
// reorder.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "compression/encoder.h"
#include "gossip/exchange/bitmap.h"
#include "gossip/exchange/pairwise.h"
#include "gossip/rng.h"

namespace starling::exchange_test {

using std::chrono::milliseconds;

class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void set(TimePoint now) { now_ = now; }

 private:
  TimePoint now_{std::chrono::seconds(1000)};
};

inline PeerId test_peer(uint8_t tag) {
  PeerId id;
  id.bytes.fill(tag);
  return id;
}

inline SharedBytes shared_copy(Bytes bytes) {
  auto owner = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  return {owner, owner->data(), owner->size()};
}

// Completions that come when their exchange, or the whole object, is gone.
class LateWorker final : public Worker {
 public:
  void submit(std::function<void()> job, std::function<void()> done) override {
    jobs_.push_back({std::move(job), std::move(done)});
  }
  void run_completions() override {
    for (auto& [job, done] : std::exchange(jobs_, {})) {
      job();
      done();
    }
  }
  size_t waiting() const { return jobs_.size(); }

 private:
  std::vector<std::pair<std::function<void()>, std::function<void()>>> jobs_;
};

struct Flight {
  PeerId from, to;
  uint64_t generation = 0;
  Message message;
  SharedBytes payload;
};

struct NetworkOptions {
  double loss = 0, doubled = 0;
  Duration control_min = milliseconds(10), control_max = milliseconds(10);
  Duration bulk_min = milliseconds(10), bulk_max = milliseconds(10);
};

class TestNetwork {
 public:
  TestNetwork(const Clock& clock, uint64_t rng_seed) : clock_(clock), rng_(rng_seed) {}

  NetworkOptions options;
  std::function<bool(const Flight&)> drop;        // true: lost
  std::function<void(const Flight&)> watch;       // sees all that is sent
  std::function<void(Flight&)> damage;
  std::function<Duration(const Flight&)> more_delay;

  void send(Flight flight) {
    if (watch) watch(flight);
    if (damage) damage(flight);
    if ((drop && drop(flight)) || rng_.chance(options.loss)) return;
    if (rng_.chance(options.doubled)) put(flight);
    put(std::move(flight));
  }
  TimePoint next_at() const { return queue_.empty() ? TimePoint::max() : queue_.begin()->first; }
  Flight pop() {
    Flight flight = std::move(queue_.begin()->second);
    queue_.erase(queue_.begin());
    in_flight_bytes -= flight.payload.size;
    if (!flight.payload.empty()) {   // the receiver gets bytes of its own, and we see when it lets go of them
      flight.payload = shared_copy(flight.payload.span());
      received_.push_back(flight.payload.owner);
    }
    return flight;
  }
  bool empty() const { return queue_.empty(); }
  void clear() { queue_.clear(); }

  // Received payloads that somebody still holds.
  size_t payloads_held() {
    std::erase_if(received_, [](const auto& owner) { return owner.expired(); });
    return received_.size();
  }

  size_t in_flight_bytes = 0, in_flight_bytes_max = 0;

 private:
  void put(Flight flight) {
    const bool bulk = message_is<BlockPayload>(flight.message);
    const Duration low = bulk ? options.bulk_min : options.control_min;
    const Duration high = bulk ? options.bulk_max : options.control_max;
    Duration delay = low + Duration(static_cast<int64_t>(rng_.uniform() * (high - low).count()));
    if (more_delay) delay += more_delay(flight);
    in_flight_bytes += flight.payload.size;
    in_flight_bytes_max = std::max(in_flight_bytes_max, in_flight_bytes);
    queue_.emplace(clock_.now() + delay, std::move(flight));
  }

  const Clock& clock_;
  Rng rng_;
  std::multimap<TimePoint, Flight> queue_;   // equal times keep the order of sending
  std::vector<std::weak_ptr<const void>> received_;
};

struct AgentOptions {
  CodecKind codec = CodecKind::kFp32;
  std::function<std::unique_ptr<Codec>()> make_codec{};   // instead of `codec`
  size_t params = 64;
  size_t block_elements = 16;
  double clip = 0;
  Duration deadline_max = milliseconds(500);
};

class TestAgent final : public Outbox {
 public:
  TestAgent(uint8_t tag, uint64_t generation, const AgentOptions& options, const Clock& clock,
            TestNetwork& network)
      : id(test_peer(tag)), generation(generation), params(options.params),
        encoder(options.make_codec ? options.make_codec() : starling::make_codec(options.codec, MemorySpace::kHost),
                Layout::cut({{"params", options.params}}, options.block_elements)),
        network_(network) {
    const PairwiseOptions pairwise_options{.self = id, .generation = generation,
                                           .deadline_max = options.deadline_max, .clip = options.clip,
                                           .param_blocks = layout.blocks.size()};
    pairwise = std::make_unique<Pairwise>(pairwise_options, layout, *codec, worker, clock, *this);
  }

  void send(const PeerId& to, const Message& message, SharedBytes payload) override {
    network_.send({id, to, generation, message, std::move(payload)});
  }
  void send(const Endpoint&, const Message&, SharedBytes) override { std::abort(); }

  // Applies and learns from what was decided, encodes, publishes. Returns how many deltas were applied.
  size_t boundary() {
    const size_t applied = apply();
    auto snapshot = std::make_shared<Snapshot>();
    snapshot->number = ++snapshots_;
    snapshot->round = snapshots_;
    snapshot->mass = mass;
    encoder.begin_snapshot({{params.data(), params.size(), MemorySpace::kHost}});
    for (size_t i = 0; i < layout.blocks.size(); ++i) {
      const Block& block = layout.blocks[i];
      std::vector<std::byte> out(encoder.payload_bytes_max(i));
      const auto size = encoder.encode(i, {params.data() + block.offset, block.element_count, MemorySpace::kHost}, out);
      if (!size) std::abort();
      snapshot->blocks.push_back(shared_copy(Bytes(out).first(*size)));
    }
    pairwise->publish(std::move(snapshot));
    return applied;
  }

  size_t apply() {
    const Decided decided = pairwise->take_decided();
    for (const BlockLesson& lesson : decided.lessons) encoder.learn(lesson.block, lesson.verdict());
    for (const PairDelta& delta : decided.deltas) {
      for (size_t i = 0; i < layout.blocks.size(); ++i) {
        if (!test_bit(delta.blocks, i)) continue;
        const Block& block = layout.blocks[i];
        codec->apply(delta.coefficient, delta.own[i].span(), delta.peer[i].span(),
                     {params.data() + block.offset, block.element_count, MemorySpace::kHost});
      }
    }
    return decided.deltas.size();
  }

  PeerId id;
  uint64_t generation;
  double mass = 1;
  std::vector<float> params;
  Encoder encoder;
  const Layout& layout = encoder.layout();
  const Codec* codec = &encoder.codec();
  InlineWorker worker;
  std::unique_ptr<Pairwise> pairwise;

 private:
  TestNetwork& network_;
  uint64_t snapshots_ = 0;
};

class TestSwarm {
 public:
  explicit TestSwarm(const AgentOptions& options, uint64_t rng_seed = 1)
      : network(clock, rng_seed), options_(options) {}

  TestAgent& add(uint8_t tag, uint64_t generation = 1) {
    auto agent = std::make_unique<TestAgent>(tag, generation, options_, clock, network);
    TestAgent& added = *agent;
    agents[added.id] = std::move(agent);   // a restart replaces the life before
    return added;
  }

  // All that happens until `until`, in order of time.
  void run_for(Duration duration) {
    const TimePoint until = clock.now() + duration;
    for (;;) {
      TimePoint next = network.next_at();
      for (auto& [id, agent] : agents) next = std::min(next, agent->pairwise->next_deadline());
      if (next > until) break;
      clock.set(std::max(clock.now(), next));
      while (network.next_at() <= clock.now()) deliver(network.pop());
      for (auto& [id, agent] : agents) {
        agent->pairwise->tick();
        agent->worker.run_completions();
      }
    }
    clock.set(until);
  }

  void deliver(const Flight& flight) {
    const auto it = agents.find(flight.to);
    if (it == agents.end()) return;
    const auto& message = std::get<ExchangeMessage>(flight.message);
    it->second->pairwise->handle(flight.from, flight.generation, message, flight.payload);
    it->second->worker.run_completions();
  }

  bool all_idle() const {
    return std::all_of(agents.begin(), agents.end(),
                       [](const auto& entry) { return entry.second->pairwise->idle(); });
  }

  // sum(mass * params), element by element, in double.
  std::vector<double> weighted_sum() const {
    std::vector<double> sum(options_.params);
    for (const auto& [id, agent] : agents) {
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += agent->mass * static_cast<double>(agent->params[i]);
    }
    return sum;
  }

  ManualClock clock;
  TestNetwork network;
  std::map<PeerId, std::unique_ptr<TestAgent>> agents;

 private:
  AgentOptions options_;
};

template <typename T>
bool is(const Flight& flight) {
  return message_is<T>(flight.message);
}

inline ExchangeReport only_report(TestAgent& agent) {
  const std::vector<ExchangeReport> reports = agent.pairwise->take_reports();
  EXPECT_EQ(reports.size(), 1u);
  return reports.empty() ? ExchangeReport{} : reports[0];
}

inline void expect_all(const TestAgent& agent, float value) {
  for (float x : agent.params) ASSERT_EQ(x, value);
}

// Two agents, all ones and all threes.
struct Pair {
  explicit Pair(const AgentOptions& options = {}, uint64_t rng_seed = 1)
      : swarm(options, rng_seed), a(swarm.add(1)), b(swarm.add(2)) {
    std::fill(a.params.begin(), a.params.end(), 1.0f);
    std::fill(b.params.begin(), b.params.end(), 3.0f);
  }
  void publish() {
    a.boundary();
    b.boundary();
  }
  TestSwarm swarm;
  TestAgent& a;
  TestAgent& b;
};

}  // namespace starling::exchange_test
