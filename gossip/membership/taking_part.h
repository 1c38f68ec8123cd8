// Which members exchange.
#pragma once

#include "gossip/peer.h"

namespace starling {

inline bool takes_part(const MemberMeta& meta) {  // an agent that trains or settles, and takes no pause
  const bool in = meta.phase == Phase::kTraining || meta.phase == Phase::kSettling;
  return meta.role == Role::kAgent && in && meta.pause == Pause::kNone;
}

}  // namespace starling
