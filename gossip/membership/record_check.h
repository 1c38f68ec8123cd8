// Checks a member's record before it is believed. Records are not signed, so they do not prove who made them. The
// bounds only keep one forged record from shutting its subject out for good.
#pragma once

#include "gossip/peer.h"

namespace starling {

inline constexpr uint32_t kIncarnationMax = 1u << 31;         // the owner needs room above it to refute
inline constexpr uint32_t kIncarnationJumpMax = 1u << 20;     // as much as six days of status changes
inline constexpr uint64_t kGenerationJumpMax = 1ull << 42;    // ms: no honest clock is off by 139 years

// `held`: the version that the table holds of this member; null: none. `own`: this agent's.
bool acceptable(const PeerRecord& record, const Version* held, const Version& own);

}  // namespace starling
