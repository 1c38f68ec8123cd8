// Puts together what an agent says of itself: to its people (AgentStatus), and in its record to the other members.
#pragma once

#include <optional>
#include <string>

#include "agent/observe/events.h"
#include "agent/run/rounds.h"
#include "bootstrap/router.h"
#include "gossip/exchange/exchange.h"
#include "gossip/net/transport.h"

namespace starling {

// The part of a status that every member of a swarm has, registries too. The phase and all of training are left out.
AgentStatus member_status(const Router& router, const TransportCounters& traffic);

// `rounds` is null before training begins, `exchange` also when the agent trains alone.
AgentStatus agent_status(Phase phase, const Rounds* rounds, const Exchange* exchange, const Router& router,
                         const TransportCounters& traffic);
MemberMeta agent_meta(const std::string& name, Phase phase, const Rounds* rounds);

// Nullopt: nobody needs to be told (the tombstone of a member that is gone has expired).
std::optional<MemberChanged> member_changed(const Membership& membership, const MemberEvent& event);

}  // namespace starling
