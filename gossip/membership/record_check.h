// Checks a member's record before it is believed. In a swarm with tickets its owner has signed it. In an open one it
// proves nothing, and the bounds only keep one forged record from shutting its subject out for good.
#pragma once

#include <chrono>

#include "gossip/clock.h"
#include "gossip/membership/context.h"
#include "gossip/peer.h"

namespace starling {

inline constexpr uint32_t kIncarnationMax = 1u << 31;      // the owner needs room above it to refute
inline constexpr uint32_t kIncarnationJumpMax = 1u << 20;  // as much as six days of status changes
// In each window a held incarnation may grow by kIncarnationJumpMax, and its owner follows forged ones by a quarter of
// that. So the owner comes within reach, and members that miss a few of its steps still take the next one.
inline constexpr Duration kGrowthWindow = std::chrono::seconds(20), kOvertakeWindow = std::chrono::seconds(10);
inline constexpr uint32_t kOvertakeMax = kIncarnationJumpMax / 4;
inline constexpr uint64_t kGenerationAheadMax = 24ull * 3600 * 1000;  // ms: one day
inline constexpr uint64_t kGenerationMax = 1ull << 62;                // far above any clock
// Of a later process of this agent: a greater one is forged, and would leave no number for the processes after it.
inline constexpr uint64_t kOwnGenerationMax = kGenerationMax / 2;

// Whether its owner made it, as a farewell or not. A signature is checked, so this is for news alone; after one that is
// forged all others of the same message are refused unseen, as honest members pass on none.
bool is_genuine(MembershipContext& context, const PeerRecord& record, bool farewell);

// `held`: the version that the table holds of this member; null: none.
bool acceptable(const PeerRecord& record, const Version* held);

// Whether a generation is more than a day above `newest`, the greatest that a process begun now should have, in ms.
bool is_far_ahead(const PeerRecord& record, uint64_t newest);

}  // namespace starling
