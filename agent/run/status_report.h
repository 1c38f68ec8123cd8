// Puts together what an agent says of itself: to its people (AgentStatus), and in its record to the other members.
#pragma once

#include <string>

#include "agent/observe/events.h"
#include "agent/run/rounds.h"
#include "bootstrap/router.h"
#include "gossip/exchange/counters.h"
#include "gossip/exchange/exchange.h"
#include "gossip/net/transport.h"
#include "gossip/pairs/status.h"
#include "gossip/updates/status.h"

namespace starling {

// The figures of the rooms that an agent's exchange is made of; zeros of the others.
struct RoomStatus {
  PairsStatus pairs;
  PairwiseCounters pairs_in_training;  // until the agent settled: those of settling have no steps between them
  GroupCounters group;
  UpdatesStatus updates;
};

// `swarm` and `rounds` are null before training begins, `exchange` also when the agent trains alone.
AgentStatus agent_status(Phase phase, const SwarmConfig* swarm, const Rounds* rounds, const ExchangeMachine* exchange,
                         const RoomStatus& rooms, const Router& router, const TransportCounters& traffic);
MemberMeta agent_meta(const std::string& name, Phase phase, const Rounds* rounds);

}  // namespace starling
