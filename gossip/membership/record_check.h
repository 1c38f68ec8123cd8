// The one place where a member's record is judged before it is believed: here its signature will be checked. Until then
// a record proves nothing about who made it; the bounds only keep a single one from shutting its subject out for ever.
#pragma once

#include "gossip/peer.h"

namespace starling {

inline constexpr uint32_t kIncarnationMax = 1u << 31;         // beyond it an owner has no room to refute
inline constexpr uint32_t kIncarnationJumpMax = 1u << 20;     // six days of status changes, all of them missed
inline constexpr uint64_t kGenerationJumpMax = 1ull << 42;    // ms: no honest clock is off by 139 years

// `held`: the version that the table holds of this member; null: none. `own`: this agent's.
bool acceptable(const PeerRecord& record, const Version* held, const Version& own);

}  // namespace starling
