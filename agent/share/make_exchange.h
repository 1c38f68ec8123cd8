// From the swarm's settings to the exchange that runs them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "agent/config/config.h"
#include "agent/share/update_model.h"
#include "compression/encoder.h"
#include "gossip/clock.h"
#include "gossip/exchange/counters.h"
#include "gossip/exchange/exchange.h"
#include "gossip/net/outbox.h"
#include "gossip/pairs/status.h"
#include "gossip/updates/update_exchange.h"
#include "gossip/worker.h"

namespace starling {

struct ExchangeContext {
  const SwarmConfig& swarm;
  PeerId self;
  uint64_t generation = 0;
  const Encoder& encoder;  // the exchange uses its codec and layout. This and all below must outlive it
  MemorySpace space;       // where the trainer's params are
  Worker& worker;
  const Clock& clock;
  Outbox& outbox;
  PeerSampler& sampler;
};

// The exchange uses the codec, so it is destroyed first.
struct ExchangeParts {
  std::unique_ptr<Codec> host_codec;   // group: averages payloads, wherever the params are
  std::unique_ptr<Exchange> exchange;  // null: the agent trains alone
  // The figures of the rooms that the exchange is made of; null: of another one.
  std::function<PairsStatus()> pairs_status;
  std::function<GroupCounters()> group_status;
};

// Throws std::runtime_error when the settings and the place of the params do not go together.
ExchangeParts make_exchange(const ExchangeContext& context);

// Each fragment holds blocks of the params. Throws std::runtime_error where there are fewer `blocks` of `elements`.
void require_blocks(const ExchangeConfig& exchange, size_t elements, size_t blocks);

// Groups and neighborhoods of params (gossip/exchange/pairwise_finalizer.h).
bool settles_in_pairs(const SwarmConfig& swarm);

// How many times the usual distance a model is away that does not count while settling in pairs; 0: all do.
double settling_far_for(const SwarmConfig& swarm);

// Whether a guard of that exchange asks how far members' steps move the params.
bool guards_by_drift(const SwarmConfig& swarm);

struct UpdateContext {
  const SwarmConfig& swarm;
  PeerId self;
  uint64_t generation = 0;
  UpdateModel& model;  // with the replica that the agent begins with. This and all below must outlive the
  Worker& worker;      //   exchange
  const Clock& clock;
  Outbox& outbox;
  PeerSampler& sampler;
};

// Of a swarm that shares updates. The model's save() asks it where the logs stand.
std::unique_ptr<UpdateExchange> make_update_exchange(const UpdateContext& context);

}  // namespace starling
