// A transport that passes everything on to a shared one, and reads only the frames that it is handed.
#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "gossip/net/transport.h"

namespace starling {

class Inbox : public Transport {
 public:
  explicit Inbox(Transport& shared) : shared_(shared) {}  // which outlives it

  void take(ReceivedFrame frame) { frames_.push_back(std::move(frame)); }

  SendStatus send(const Endpoint& to, Channel channel, Frame frame) override {
    return shared_.send(to, channel, std::move(frame));
  }
  std::optional<ReceivedFrame> poll() override {
    if (frames_.empty()) return std::nullopt;
    ReceivedFrame frame = std::move(frames_.front());
    frames_.pop_front();
    return frame;
  }
  void wait_until(TimePoint deadline) override { shared_.wait_until(deadline); }
  void wake() override { shared_.wake(); }
  void forget(const Endpoint& peer) override { shared_.forget(peer); }
  void refuse(const ReceivedFrame& frame) override { shared_.refuse(frame); }
  void cut(const ReceivedFrame& frame) override { shared_.cut(frame); }
  Endpoint local() const override { return shared_.local(); }
  TransportCounters counters() const override { return shared_.counters(); }

 private:
  Transport& shared_;
  std::deque<ReceivedFrame> frames_;
};

}  // namespace starling
