// From the swarm's settings to the exchange that runs them.
#pragma once

#include <cstdint>
#include <memory>

#include "agent/config/config.h"
#include "compression/encoder.h"
#include "gossip/clock.h"
#include "gossip/exchange/exchange.h"
#include "gossip/net/outbox.h"
#include "gossip/worker.h"

namespace starling {

struct ExchangeContext {
  const SwarmConfig& swarm;
  PeerId self;
  uint64_t generation = 0;
  const Encoder& encoder;        // outlives the exchange, as do all below; of it the exchange uses codec and layout
  MemorySpace space;             // where the trainer's params are
  Worker& worker;
  const Clock& clock;
  Outbox& outbox;
  Company& company;
};

// The exchange uses the codec: it is the first to go.
struct ExchangeParts {
  std::unique_ptr<Codec> host_codec;   // group: averages payloads, wherever the params are
  std::unique_ptr<Exchange> exchange;  // null: the agent trains alone
};

// Throws std::runtime_error when the settings and the place of the params do not go together.
ExchangeParts make_exchange(const ExchangeContext& context);

}  // namespace starling
