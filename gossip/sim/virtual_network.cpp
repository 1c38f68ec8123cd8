#include "gossip/sim/virtual_network.h"

#include <algorithm>
#include <deque>
#include <span>

#include "gossip/limits.h"
#include "gossip/net/hash.h"
#include "gossip/net/wire.h"
#include "kernels/check.h"

namespace starling {

class VirtualNetwork::Port final : public Transport {
 public:
  Port(VirtualNetwork& network, Endpoint endpoint, std::function<void()> on_arrival)
      : network_(network), endpoint_(std::move(endpoint)), on_arrival_(std::move(on_arrival)) {}
  ~Port() override {
    if (!dead_) network_.kill(endpoint_);
  }

  SendStatus send(const Endpoint& to, Channel channel, Frame frame) override {
    const size_t bytes = frame.header.size() + frame.payload.size;
    SendStatus status = SendStatus::kQueued;
    const bool good_port = to.port != 0 && (channel == Channel::kControl || to.port != 65535);
    if (frame.header.size() > kControlFrameBytesMax || frame.payload.size > kPayloadBytesMax) {
      status = SendStatus::kTooLarge;
    } else if (!good_port || !Endpoint::is_valid_host(to.host)) {
      status = SendStatus::kBadAddress;
    }
    if (status != SendStatus::kQueued || dead_) {
      ++counters_.frames_dropped;
      return status;
    }
    ++counters_.frames_sent;
    counters_.bytes_sent += bytes;
    network_.send(endpoint_, to, channel, std::move(frame));
    return status;
  }
  std::optional<ReceivedFrame> poll() override {
    if (arrived_.empty()) return std::nullopt;
    ReceivedFrame frame = std::move(arrived_.front());
    arrived_.pop_front();
    ++counters_.frames_received;
    counters_.bytes_received += frame.header.size + frame.payload.size;
    return frame;
  }
  void wait_until(TimePoint) override { STARLING_CHECK(!"virtual time is moved by the simulator alone"); }
  void wake() override {}
  void forget(const Endpoint&) override {}  // nothing is queued at the sender
  Endpoint local() const override { return endpoint_; }
  TransportCounters counters() const override { return counters_; }

  void arrive(ReceivedFrame frame) {
    arrived_.push_back(std::move(frame));
    if (on_arrival_) on_arrival_();
  }
  void die() {
    dead_ = true;
    arrived_.clear();
  }

 private:
  VirtualNetwork& network_;
  Endpoint endpoint_;
  std::function<void()> on_arrival_;
  bool dead_ = false;  // killed: hears and says nothing more, whoever takes its address
  std::deque<ReceivedFrame> arrived_;
  TransportCounters counters_;
};

namespace {

Duration length_of(const ReceivedFrame& frame, double bytes_per_s) {
  return from_seconds(static_cast<double>(frame.header.size + frame.payload.size) / bytes_per_s);
}

}  // namespace

VirtualNetwork::VirtualNetwork(VirtualClock& clock, uint64_t rng_seed, const LinkOptions& links)
    : clock_(clock), rng_(rng_seed), links_(links) {}

VirtualNetwork::~VirtualNetwork() = default;

std::unique_ptr<Transport> VirtualNetwork::open(const Endpoint& endpoint, std::function<void()> on_arrival) {
  STARLING_CHECK(!ports_.contains(endpoint));
  auto port = std::make_unique<Port>(*this, endpoint, std::move(on_arrival));
  ports_[endpoint] = port.get();
  return port;
}

void VirtualNetwork::kill(const Endpoint& endpoint) {
  const auto port = ports_.find(endpoint);
  if (port != ports_.end()) {
    port->second->die();
    ports_.erase(port);
  }
  std::erase_if(in_flight_, [&](const auto& flight) { return flight.second.to == endpoint; });
}

void VirtualNetwork::send(const Endpoint& from, const Endpoint& to, Channel channel, Frame frame) {
  const LinkOptions& options = links_.at(from, to);
  // Chance is asked the same number of times whatever happens, so that a run can be compared with its variants.
  const bool lost = rng_.chance(options.loss), doubled = rng_.chance(options.duplicate);
  const double shares[2] = {rng_.uniform(), rng_.uniform()};
  ReceivedFrame sent{channel, SharedBytes::take(std::move(frame.header)), std::move(frame.payload)};
  sent.source = from.host;
  const std::vector<Duration> copies = filter(from, to, &sent);
  if (links_.is_cut(from, to) || !ports_.contains(to)) return;
  for (const Duration more : copies) {
    for (const double share : std::span(shares).first(doubled ? 2 : 1)) {
      const TimePoint left = leave(from, sent);
      if (lost) continue;
      const Duration delay = options.delay_min + from_seconds(share * seconds(options.delay_max - options.delay_min));
      in_flight_.emplace(Order{left + delay + more, sequence_++}, Flight{from, to, sent});
    }
  }
}

std::vector<Duration> VirtualNetwork::filter(const Endpoint& from, const Endpoint& to, ReceivedFrame* frame) {
  PassingFrame passing{.from = from, .to = to};
  if (!filter_ || decode_frame(frame->channel, frame->header.span(), frame->payload.span(), &passing.header,
                               &passing.message) != DecodeStatus::kOk) {
    return {Duration::zero()};
  }
  passing.payload = frame->payload;
  passing.payload.checksum.reset();  // of other bytes, if the filter replaces them
  filter_(passing);
  frame->channel = channel_of(passing.message);
  frame->header = SharedBytes::take(encode_frame_header(passing.header, passing.message, passing.payload.span()));
  frame->payload = std::move(passing.payload);
  return std::move(passing.copies);
}

double VirtualNetwork::uplink_rate(const Endpoint& node) const {
  const auto own = uplink_bytes_per_s_.find(node);
  return own != uplink_bytes_per_s_.end() ? own->second : node_bytes_per_s_;
}

TimePoint VirtualNetwork::leave(const Endpoint& from, const ReceivedFrame& frame) {
  const double rate = uplink_rate(from);
  if (rate <= 0) return clock_.now();
  const Duration length = length_of(frame, rate);
  const Duration down = node_bytes_per_s_ > 0 ? length_of(frame, node_bytes_per_s_) : Duration::zero();
  return uplinks_[from].occupy(frame.channel, length, clock_.now()) + std::max(length - down, Duration::zero());
}

TimePoint VirtualNetwork::next_event_time() const {
  return in_flight_.empty() ? TimePoint::max() : in_flight_.begin()->first.first;
}

size_t VirtualNetwork::payload_bytes_in_flight() const {
  size_t bytes = 0;
  for (const auto& [order, flight] : in_flight_) bytes += flight.frame.payload.size;
  return bytes;
}

void VirtualNetwork::deliver_due() {
  while (!in_flight_.empty() && in_flight_.begin()->first.first <= clock_.now()) {
    const TimePoint when = in_flight_.begin()->first.first;
    Flight flight = std::move(in_flight_.begin()->second);
    in_flight_.erase(in_flight_.begin());
    const auto port = ports_.find(flight.to);
    if (port == ports_.end() || links_.is_cut(flight.from, flight.to)) continue;
    if (node_bytes_per_s_ > 0 && !flight.reached_downlink) {
      const Duration length = length_of(flight.frame, node_bytes_per_s_);
      const TimePoint end = downlinks_[flight.to].occupy(flight.frame.channel, length, when) + length;
      flight.reached_downlink = true;
      in_flight_.emplace(Order{end, sequence_++}, std::move(flight));
      continue;
    }
    digest_ = (digest_ ^ xxh3_64(flight.frame.header.span())) * 0x9e3779b97f4a7c15ull;
    digest_ = (digest_ ^ xxh3_64(flight.frame.payload.span())) * 0x9e3779b97f4a7c15ull;
    ++delivered_;
    port->second->arrive(std::move(flight.frame));
  }
}

}  // namespace starling
