// Agents that do nothing but exchange, over a virtual network that may lose, double and reorder. Every message that one
// agent sends another is encoded and decoded.
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
#include "gossip/exchange/pair_turns.h"
#include "gossip/exchange/pairwise.h"
#include "gossip/net/hash.h"
#include "gossip/net/wire.h"
#include "gossip/rng.h"
#include "gossip/sim/virtual_network.h"
#include "kernels/check.h"

namespace starling::exchange_test {

using std::chrono::milliseconds;

inline PeerId test_peer(uint8_t tag) {
  PeerId id;
  id.bytes.fill(tag);
  return id;
}

// Where the peer of that first byte is.
inline Endpoint test_address(const PeerId& id) { return {"10.0.0." + std::to_string(id.bytes[0]), 7400}; }

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
  TestNetwork(VirtualClock& clock, uint64_t rng_seed) : rng_(rng_seed), network_(clock, rng_seed, {}) {
    network_.set_filter([this](PassingFrame& frame) { pass(frame); });
  }

  NetworkOptions options;
  std::function<bool(const Flight&)> drop;        // true: lost
  std::function<void(const Flight&)> watch;       // sees all that is sent
  std::function<void(Flight&)> damage;            // of the message and the payload; the checksums fit again
  std::function<Duration(const Flight&)> more_delay;
  bool frames_may_be_bad = false;                  // from a liar: they are dropped on arrival

  std::unique_ptr<Transport> open(const PeerId& id) { return network_.open(test_address(id)); }
  // From somebody who is no agent here.
  void send(const Flight& flight) {
    const std::unique_ptr<Transport> stranger = open(flight.from);
    EXPECT_EQ(stranger->send(test_address(flight.to), channel_of(flight.message), encode(flight)),
              SendStatus::kQueued);
  }
  static Frame encode(const Flight& flight) {
    const FrameHeader header{1, flight.from, flight.generation, test_address(flight.from)};
    const SharedBytes& payload = flight.payload;
    return {encode_frame_header(header, flight.message, payload.span(), payload.checksum), payload};
  }
  // Whether a frame of it would get past the receiver's decoder.
  static bool decodes(const Flight& flight) {
    const Frame frame = encode(flight);
    FrameHeader header;
    Message message;
    return decode_frame(channel_of(flight.message), frame.header, frame.payload.span(), &header, &message) ==
           DecodeStatus::kOk;
  }

  TimePoint next_at() const { return network_.next_event_time(); }
  void deliver_due() { network_.deliver_due(); }
  void set_node_rate(double bytes_per_s) { network_.set_node_rate(bytes_per_s); }
  bool empty() const { return next_at() == TimePoint::max(); }
  void clear() { network_.lose_all(); }

  // Received payloads that somebody still holds.
  size_t payloads_held() {
    std::erase_if(received_, [](const Received& one) { return one.owner.expired(); });
    return received_.size();
  }
  size_t bytes_held_by(const PeerId& receiver) {
    size_t bytes = 0;
    for (const Received& one : received_) bytes += one.receiver == receiver && !one.owner.expired() ? one.bytes : 0;
    return bytes;
  }
  // What the receiver works with: bytes of its own, and we see when it lets go of them.
  SharedBytes received(const SharedBytes& payload, const PeerId& receiver) {
    if (payload.empty()) return payload;
    SharedBytes own = shared_copy(payload.span());
    received_.push_back({own.owner, receiver, own.size});
    return own;
  }
  size_t payload_bytes_in_flight() const { return network_.payload_bytes_in_flight(); }

  size_t in_flight_bytes_max = 0;   // of payloads, while measures_in_flight: it takes long in a large swarm
  bool measures_in_flight = true;

 private:
  void pass(PassingFrame& frame) {
    PeerId to;
    to.bytes.fill(static_cast<uint8_t>(std::stoi(frame.to.host.substr(frame.to.host.rfind('.') + 1))));
    Flight flight{frame.header.sender, to, frame.header.generation, frame.message, frame.payload};
    frame.copies.clear();
    if (watch) watch(flight);
    if (damage) {
      damage(flight);
      frame.message = flight.message;
      frame.payload = flight.payload;
    }
    if ((drop && drop(flight)) || rng_.chance(options.loss)) return;
    if (rng_.chance(options.doubled)) frame.copies.push_back(delay(flight));
    frame.copies.push_back(delay(flight));
    if (!measures_in_flight) return;
    const size_t in_flight = network_.payload_bytes_in_flight() + frame.copies.size() * flight.payload.size;
    in_flight_bytes_max = std::max(in_flight_bytes_max, in_flight);
  }
  Duration delay(const Flight& flight) {
    const bool bulk = message_is<BlockPayload>(flight.message);
    const Duration low = bulk ? options.bulk_min : options.control_min;
    const Duration high = bulk ? options.bulk_max : options.control_max;
    const Duration chosen = low + Duration(static_cast<int64_t>(rng_.uniform() * (high - low).count()));
    return more_delay ? chosen + more_delay(flight) : chosen;
  }

  Rng rng_;
  VirtualNetwork network_;
  struct Received {
    std::weak_ptr<const void> owner;
    PeerId receiver;
    size_t bytes = 0;
  };
  std::vector<Received> received_;
};

// How one agent sends and receives.
class TestPort final : public Outbox {
 public:
  TestPort(TestNetwork& network, const PeerId& id, uint64_t generation)
      : network_(network), id_(id), generation_(generation), transport_(network.open(id)) {}

  void send(const PeerId& to, const Message& message, SharedBytes payload) override {
    EXPECT_TRUE(payload.empty() || payload.checksum || !checksums_wanted) << "made while the bytes were in the cache";
    EXPECT_TRUE(!payload.checksum || payload.checksum == xxh3_64(payload.span()));
    EXPECT_EQ(transport_->send(test_address(to), channel_of(message),
                               TestNetwork::encode({id_, to, generation_, message, std::move(payload)})),
              SendStatus::kQueued);
  }
  void send(const Endpoint&, const Message&, SharedBytes) override { std::abort(); }

  // Calls handle(from, generation, message, payload) for each frame that has arrived.
  template <typename Handle>
  void receive(const Handle& handle) {
    while (const std::optional<ReceivedFrame> frame = transport_->poll()) {
      FrameHeader header;
      Message message;
      const DecodeStatus status =
          decode_frame(frame->channel, frame->header.span(), frame->payload.span(), &header, &message);
      if (network_.frames_may_be_bad && status != DecodeStatus::kOk) continue;   // as the router does
      ASSERT_EQ(status, DecodeStatus::kOk) << describe(status);
      handle(header.sender, header.generation, std::get<ExchangeMessage>(message),
             network_.received(frame->payload, id_));
    }
  }
  void lose_arrived() {
    while (transport_->poll()) {}
  }

  bool checksums_wanted = false;   // whether snapshots bring the checksums of their blocks along

 private:
  TestNetwork& network_;
  PeerId id_;
  uint64_t generation_;
  std::unique_ptr<Transport> transport_;
};

struct PairAgentOptions {
  CodecKind codec = CodecKind::kFp32;
  std::function<std::unique_ptr<Codec>()> make_codec{};   // instead of `codec`
  size_t params = 64;
  size_t block_elements = 16;
  double clip = 0, drift = 1;                             // of the own steps, as the guard hears of them
  uint32_t fragments = 1;
  size_t rank = 0;                                        // of the matrices' exchange; 0: they are none
  std::vector<Matrix> matrices{};
  Duration deadline_min = kDeadlineMin, deadline_max = milliseconds(500);
  uint64_t turns = 1;
  PeerSampler* sampler = nullptr;                         // of all agents
};

// E: Pairwise or PairTurns.
template <class E>
class TestAgentOf {
 public:
  TestAgentOf(uint8_t tag, uint64_t generation, const PairAgentOptions& options, const Clock& clock,
            TestNetwork& network)
      : id(test_peer(tag)), generation(generation), params(options.params),
        encoder(options.make_codec ? options.make_codec() : starling::make_codec(options.codec, MemorySpace::kHost),
                Layout::cut({{"params", options.params, options.matrices}}, options.block_elements, options.rank)),
        port(network, id, generation), drift_(options.drift) {
    const ExchangeOptions common{.self = id, .deadline_min = options.deadline_min,
                                 .deadline_max = options.deadline_max, .param_blocks = layout.blocks.size()};
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
  size_t boundary(std::optional<TimePoint> next_at = std::nullopt) {
    const size_t applied = apply();
    auto snapshot = std::make_shared<Snapshot>();
    snapshot->number = ++snapshots_;
    snapshot->round = snapshot->boundary = snapshots_;
    snapshot->mass = mass;
    snapshot->drift = drift_;
    snapshot->settling = far.has_value();
    snapshot->far = far;
    snapshot->next_at = next_at;
    encoder.begin_snapshot({{params.data(), params.size(), MemorySpace::kHost}});
    for (size_t i = 0; i < layout.blocks.size(); ++i) {
      const Block& block = layout.blocks[i];
      std::vector<std::byte> out(encoder.payload_bytes_max(i));
      const auto size = encoder.encode(i, {params.data() + block.offset, block.element_count, MemorySpace::kHost}, out);
      if (!size) std::abort();
      snapshot->blocks.push_back(shared_copy(Bytes(out).first(*size)));
    }
    first_block = snapshot->blocks[0].owner;
    for (const SharedBytes& block : snapshot->blocks) published_.emplace_back(block.owner, block.size);
    pairwise->publish(std::move(snapshot));
    return applied;
  }

  void skip_boundary() { ++snapshots_; }   // steps without an exchange: nothing is published

  // By turns an idle agent publishes anew once its payload is spent, and serves who waits. Not while it steps.
  void pump() {
    if constexpr (std::is_same_v<E, PairTurns>) {
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
        encoder.apply(i, {&term, 1}, {params.data() + block.offset, block.element_count, MemorySpace::kHost});
      }
    }
    return decided.deltas.size();
  }

  PeerId id;
  uint64_t generation;
  double mass = 1;
  std::optional<Far> far;   // it settles
  std::vector<float> params;
  Encoder encoder;
  const Layout& layout = encoder.layout();
  const Codec* codec = &encoder.codec();
  InlineWorker worker;
  TestPort port;
  std::unique_ptr<E> pairwise;
  bool stepping = false;
  std::weak_ptr<const void> first_block;   // of the snapshot published last

 private:
  double drift_;
  uint64_t snapshots_ = 0;
  std::vector<std::pair<std::weak_ptr<const void>, size_t>> published_;
};

using TestAgent = TestAgentOf<Pairwise>;

template <class E>
class TestSwarmOf {
 public:
  using Agent = TestAgentOf<E>;
  explicit TestSwarmOf(const PairAgentOptions& options, uint64_t rng_seed = 1)
      : network(clock, rng_seed), options_(options) {}

  Agent& add(uint8_t tag, uint64_t generation = 1) {
    agents.erase(test_peer(tag));   // the life before: a restart
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
      STARLING_CHECK(laps_ < kLapsMax);   // a deadline has passed, and tick() does nothing about it
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

  VirtualClock clock;
  TestNetwork network;
  std::map<PeerId, std::unique_ptr<Agent>> agents;

 private:
  static constexpr size_t kLapsMax = 10'000;   // at one moment

  PairAgentOptions options_;
  size_t laps_ = 0;
};

using TestSwarm = TestSwarmOf<Pairwise>;

template <typename T>
bool is(const Flight& flight) {
  return message_is<T>(flight.message);
}

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
using Pair = PairOf<Pairwise>;

}  // namespace starling::exchange_test
