// Checks a member's record before it is believed. Records are not signed, so they do not prove who made them. The
// bounds only keep one forged record from shutting its subject out for good.
#pragma once

#include "gossip/peer.h"

namespace starling {

inline constexpr uint32_t kIncarnationMax = 1u << 31;         // the owner needs room above it to refute
inline constexpr uint32_t kIncarnationJumpMax = 1u << 20;     // as much as six days of status changes
inline constexpr uint64_t kGenerationAheadMax = 24ull * 3600 * 1000;   // ms: one day

// `held`: the version that the table holds of this member; null: none. `newest_generation`: the greatest that a process
// begun now should have, in ms; more than a day above it is refused.
bool acceptable(const PeerRecord& record, const Version* held, uint64_t newest_generation);

}  // namespace starling
