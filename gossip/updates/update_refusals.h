// What others sent for the log of updates and this agent refused, before it touched anything: how much of each kind,
// and the sender of the last of it. An UpdateGroup has one, in which all its parts count.
#pragma once

#include <cstdint>
#include <optional>

#include "gossip/net/message.h"

namespace starling {

struct UpdateRefusals {
  uint64_t payloads = 0;       // handed in: of a slice, codec, round or size that is none, or they do not decode;
                               // tables and requests of the codec sketch likewise
  uint64_t entries = 0;        // likewise, or not what their hash says, of a minority, or of a round that never comes
  uint64_t blocks = 0;         // of states: not what their hash says, not finite, or of another model
  uint64_t heads = 0;          // that claim more entries than there were rounds for
  std::optional<PeerId> last;  // the sender of the last of all; nullopt: nobody, or several sent its parts

  void note(uint64_t UpdateRefusals::* kind, const std::optional<PeerId>& from) {
    ++(this->*kind);
    last = from;
  }
};

}  // namespace starling
