// A Join of another version of the protocol, and an answer that its sender can read: else a newcomer with an older or
// newer program would ask for ever and hear nothing. For this, every version keeps the prefix of a frame, the fields of
// Frame and those of Join and JoinRefused where they are in wire.capnp; it may add others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gossip/net/message.h"

namespace starling {

struct OtherVersionJoin {
  uint16_t version = 0;  // of the asker's protocol
  PeerId sender;
  Endpoint reply_to;
  uint64_t nonce = 0;
};

// Foreign bytes, on the control port. Nullopt: not a sound Join, or one of this version. Never throws.
std::optional<OtherVersionJoin> decode_other_version(std::span<const std::byte> header);

// Which versions both programs speak, and the remedy, in a frame of the asker's version.
std::vector<std::byte> encode_version_refusal(const FrameHeader& header, const OtherVersionJoin& join);

// For people: this version of the protocol with a revision (kProtocolRevision), "2.1".
std::string version_name(uint32_t revision);
// The same as encode_version_refusal(), for a newcomer of an older revision of this version.
std::string describe_older(const Join& join);

}  // namespace starling
