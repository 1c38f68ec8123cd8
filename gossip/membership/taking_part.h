// Which members exchange.
#pragma once

#include "gossip/peer.h"

namespace starling {

inline bool takes_part(const MemberMeta& meta) {   // an agent that trains or settles
  return meta.role == Role::kAgent && (meta.phase == Phase::kTraining || meta.phase == Phase::kSettling);
}

}  // namespace starling
