// Converts plain structs to frame headers and back. wire.capnp specifies the bytes. No other code sees Cap'n Proto.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gossip/net/message.h"
#include "gossip/net/transport.h"

namespace starling {

enum class [[nodiscard]] DecodeStatus {
  kOk,
  kTooShort,         // no room for a header
  kTooLong,          // a header above kControlFrameBytesMax or a payload above kPayloadBytesMax
  kBadMagic,         // another protocol
  kWrongVersion,     // another version of this one
  kBadChecksum,      // the header was damaged on the way
  kMalformed,        // no well-formed message
  kUnknownMessage,   // a kind that this version does not know
  kOutOfRange,       // a field outside its range in wire.capnp
  kWrongChannel,     // a kind that does not belong on this port
  kPayloadMismatch,  // missing, unexpected, of another size, or damaged
};
inline constexpr size_t kDecodeStatusCount = static_cast<size_t>(DecodeStatus::kPayloadMismatch) + 1;
const char* describe(DecodeStatus status);

// The port on which this kind of message travels.
Channel channel_of(const Message& message);

// The first part of a frame with `payload` as its second part (empty: one part). `payload` must be given to exactly the
// kinds that carry one. The result can exceed kControlFrameBytesMax for a Sync of long host names: the transport then
// drops it and counts it. `payload_checksum`: xxh3_64(payload) where it is known already.
std::vector<std::byte> encode_frame_header(const FrameHeader& header, const Message& message,
                                           std::span<const std::byte> payload,
                                           std::optional<uint64_t> payload_checksum = std::nullopt);

// A record as its owner signs it, without the signature: at most kRecordBytesMax before it is packed.
std::string pack_record(const PeerRecord& record);

// Decodes foreign bytes; no other function does. On kOk both outputs are written and lie within their ranges; otherwise
// neither is touched. Never throws. `header` need not be aligned.
DecodeStatus decode_frame(Channel channel, std::span<const std::byte> header, std::span<const std::byte> payload,
                          FrameHeader* header_out, Message* message_out);

}  // namespace starling
