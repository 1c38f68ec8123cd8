// The ranges of wire.capnp, on plain structs.
#pragma once

#include "gossip/net/message.h"

namespace starling {

inline constexpr double kMassMin = 1e-18;  // keeps every sum and product of masses finite
inline constexpr double kMassMax = 1e18;
inline constexpr uint32_t kExchangeDeadlineMsMax = 3'600'000;
inline constexpr uint32_t kTransferBlocksMax = 1 << 20;
inline constexpr uint8_t kStageMax = 2;
inline constexpr uint64_t kLogLengthEnd = 1ull << 48;

bool in_range(const FrameHeader& header);
// `sender` is the frame's.
bool in_range(const PeerId& sender, const Message& message);

}  // namespace starling
