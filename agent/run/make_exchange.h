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
  const Encoder& encoder;        // the exchange uses its codec and layout. This and all below must outlive it
  MemorySpace space;             // where the trainer's params are
  Worker& worker;
  const Clock& clock;
  Outbox& outbox;
  PeerSampler& sampler;
};

// The exchange uses the codec, so it is destroyed first.
struct ExchangeParts {
  std::unique_ptr<Codec> host_codec;   // group: averages payloads, wherever the params are
  std::unique_ptr<Exchange> exchange;  // null: the agent trains alone
};

// Throws std::runtime_error when the settings and the place of the params do not go together.
ExchangeParts make_exchange(const ExchangeContext& context);

}  // namespace starling
