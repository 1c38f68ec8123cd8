// Shared by the membership tests: names, records, and an outbox that keeps what was sent.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gossip/membership/membership.h"
#include "gossip/net/message.h"
#include "gossip/net/outbox.h"
#include "tests/support/fake_clock.h"

namespace starling {

inline PeerId peer_of(uint32_t number) {
  PeerId id;
  id.bytes[0] = static_cast<uint8_t>(number >> 8);
  id.bytes[1] = static_cast<uint8_t>(number);
  id.bytes[31] = 1;
  return id;
}

inline Endpoint endpoint_of(uint32_t number) {
  return {"10.0." + std::to_string(number >> 8) + "." + std::to_string(number & 255), 7400};
}

inline PeerRecord record_of(uint32_t number, uint64_t generation = 1, uint32_t incarnation = 0) {
  PeerRecord record;
  record.id = peer_of(number);
  record.version = {generation, incarnation};
  record.endpoint = endpoint_of(number);
  record.meta.phase = Phase::kTraining;
  record.meta.name = "a" + std::to_string(number);
  return record;
}

inline Suspicion suspicion_of(uint32_t subject, Version version, uint32_t accuser) {
  return {peer_of(subject), version, peer_of(accuser)};
}

struct Sent {
  PeerId to;
  Endpoint address;  // used when `to` is zero
  Message message;
  SharedBytes payload;
};

class RecordingOutbox final : public Outbox {
 public:
  void send(const PeerId& to, const Message& message, SharedBytes payload) override {
    sent.push_back({to, {}, message, std::move(payload)});
  }
  void send(const PeerAddress& to, const Message& message, SharedBytes payload) override {
    sent.push_back({{}, to.endpoint, message, std::move(payload)});
  }
  std::vector<Sent> take() { return std::exchange(sent, {}); }

  template <typename T>
  std::vector<std::pair<PeerId, T>> take_all() {  // messages of one kind; the others are dropped
    std::vector<std::pair<PeerId, T>> found;
    for (const Sent& one : take()) {
      if (const T* message = message_as<T>(one.message)) found.emplace_back(one.to, *message);
    }
    return found;
  }

  std::vector<Sent> sent;
};

}  // namespace starling
