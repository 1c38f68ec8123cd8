#include "gossip/net/zmq_transport.h"
#include "gossip/sim/virtual_network.h"
#include "tests/conformance/transport_suite.h"

namespace starling {
namespace {

class Worlds {
 public:
  void close(Transport& transport) {
    std::erase_if(transports_, [&](const auto& t) { return t.get() == &transport; });
  }

 protected:
  Transport& keep(std::unique_ptr<Transport> transport) {
    transports_.push_back(std::move(transport));
    return *transports_.back();
  }
  std::vector<std::unique_ptr<Transport>> transports_;
};

class VirtualWorld : public Worlds {
 public:
  VirtualWorld() { network_.set_node_rate(1e9); }
  ~VirtualWorld() { transports_.clear(); }
  Transport& open() { return keep(network_.open({"10.0.0.1", next_port_ += 2})); }
  bool run_until(const std::function<bool()>& condition) {
    while (!condition()) {
      if (network_.next_event_time() == TimePoint::max()) return condition();
      clock_.advance_to(network_.next_event_time());
      network_.deliver_due();
    }
    return true;
  }

 private:
  VirtualClock clock_;
  VirtualNetwork network_{clock_, 1, {0, 0, std::chrono::milliseconds(1), std::chrono::milliseconds(9)}};
  uint16_t next_port_ = 1000;
};

class ZmqWorld : public Worlds {
 public:
  ~ZmqWorld() { transports_.clear(); }
  Transport& open() { return keep(std::make_unique<ZmqTransport>(Endpoint{"127.0.0.1", 0}, context_)); }
  bool run_until(const std::function<bool()>& condition) {
    const SteadyClock clock;
    const TimePoint deadline = clock.now() + std::chrono::seconds(20);
    while (!condition()) {
      if (clock.now() > deadline) return false;
      for (const auto& transport : transports_) transport->wait_until(clock.now() + std::chrono::milliseconds(1));
    }
    return true;
  }

 private:
  ZmqContext context_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Virtual, TransportSuite, VirtualWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(Zmq, TransportSuite, ZmqWorld);

}  // namespace
}  // namespace starling
