// A virtual network for agents that do nothing but exchange. It may lose, double and reorder. Every message that one
// agent sends another is encoded and decoded.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gossip/exchange/exchange.h"
#include "gossip/net/hash.h"
#include "gossip/net/outbox.h"
#include "gossip/net/wire.h"
#include "gossip/rng.h"
#include "gossip/sim/virtual_network.h"
#include "gossip/worker.h"

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
  std::function<bool(const Flight&)> drop;   // true: lost
  std::function<void(const Flight&)> watch;  // sees all that is sent
  std::function<void(Flight&)> damage;       // of the message and the payload; the checksums fit again
  std::function<Duration(const Flight&)> more_delay;
  bool frames_may_be_bad = false;  // from a liar: they are dropped on arrival

  std::unique_ptr<Transport> open(const PeerId& id) { return network_.open(test_address(id)); }
  // From somebody who is no agent here.
  void send(const Flight& flight) {
    const std::unique_ptr<Transport> stranger = open(flight.from);
    EXPECT_EQ(stranger->send(test_address(flight.to), channel_of(flight.message), encode(flight)), SendStatus::kQueued);
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

  size_t in_flight_bytes_max = 0;  // of payloads, while measures_in_flight: it takes long in a large swarm
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
  void send(const PeerAddress&, const Message&, SharedBytes) override { std::abort(); }

  // Calls handle(from, generation, message, payload) for each frame that has arrived.
  template <typename Handle>
  void receive(const Handle& handle) {
    while (const std::optional<ReceivedFrame> frame = transport_->poll()) {
      FrameHeader header;
      Message message;
      const DecodeStatus status =
          decode_frame(frame->channel, frame->header.span(), frame->payload.span(), &header, &message);
      if (network_.frames_may_be_bad && status != DecodeStatus::kOk) continue;  // as the router does
      ASSERT_EQ(status, DecodeStatus::kOk) << describe(status);
      handle(header.sender, header.generation, std::get<ExchangeMessage>(message),
             network_.received(frame->payload, id_));
    }
  }
  void lose_arrived() {
    while (transport_->poll()) {
    }
  }

  bool checksums_wanted = false;  // whether snapshots bring the checksums of their blocks along

 private:
  TestNetwork& network_;
  PeerId id_;
  uint64_t generation_;
  std::unique_ptr<Transport> transport_;
};

template <typename T>
bool is(const Flight& flight) {
  return message_is<T>(flight.message);
}

}  // namespace starling::exchange_test
