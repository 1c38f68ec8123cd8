// What every member of a swarm can say of itself and of the others, registries too.
#pragma once

#include <optional>

#include "agent/observe/events.h"
#include "bootstrap/router.h"
#include "gossip/net/transport.h"

namespace starling {

// The living members that train, without this one: a registry is no peer to exchange with.
uint64_t peer_count(const Membership& membership);

const char* phase_name(Phase phase);
inline constexpr const char* kPausedPhase = "paused";  // of a member that trains, while it pauses

// Frames, bytes, joins and proposals refused. All else is left out.
AgentStatus traffic_status(const RouterCounters& counters, const TransportCounters& traffic);

// The phase and all of training are left out.
AgentStatus member_status(const Router& router, const TransportCounters& traffic);

// Nullopt: nobody needs to be told (the tombstone of a member that is gone has expired).
std::optional<MemberChanged> member_changed(const Membership& membership, const MemberEvent& event);

}  // namespace starling
