#include "gossip/net/wire.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "gossip/limits.h"
#include "gossip/net/hash.h"
#include "gossip/net/other_version.h"
#include "gossip/net/wire_check.h"
#include "gossip/net/wire_convert.h"
#include "kernels/check.h"

namespace starling {
namespace {

static_assert(std::endian::native == std::endian::little, "ids and the prefix are copied as little-endian words");

struct Prefix {
  uint32_t magic;
  uint16_t version;
  uint16_t flags;
  uint64_t checksum;
};
static_assert(sizeof(Prefix) == 16);

constexpr uint32_t kMagic = 0x4c525453;  // "STRL"
constexpr size_t kWordBytes = sizeof(capnp::word);
constexpr size_t kSegmentTableBytes = 8;
constexpr size_t kHeaderBytesMin = sizeof(Prefix) + kSegmentTableBytes + kWordBytes;
constexpr size_t kFirstSegmentWords = 256;  // most messages fit; the others are copied once
constexpr int kNestingMax = 16;

std::string describe_versions(const std::string& ours, const std::string& theirs, const std::string& older) {
  return "this program speaks version " + ours + " of the protocol and yours version " + theirs + ": update the " +
         older + " program";
}

struct PayloadSeal {
  uint32_t bytes = 0;
  uint64_t checksum = 0;
};

// May throw: capnp finds damage only when a field is read.
DecodeStatus get_frame(std::span<const std::byte> flat, FrameHeader* header, PayloadSeal* seal, Message* message) {
  const size_t word_count = flat.size() / kWordBytes;
  std::vector<uint64_t> aligned;
  const std::byte* begin = flat.data();
  if (reinterpret_cast<uintptr_t>(begin) % alignof(capnp::word) != 0) {
    aligned.resize(word_count);
    std::memcpy(aligned.data(), begin, word_count * kWordBytes);
    begin = reinterpret_cast<const std::byte*>(aligned.data());
  }
  capnp::ReaderOptions options;
  options.traversalLimitInWords = 8 * word_count + 1024;
  options.nestingLimit = kNestingMax;
  capnp::FlatArrayMessageReader reader(kj::arrayPtr(reinterpret_cast<const capnp::word*>(begin), word_count), options);
  const wire::Frame::Reader frame = reader.getRoot<wire::Frame>();
  *header = {frame.getSwarm(),
             get_id(frame.getSender()),
             frame.getGeneration(),
             {get_text(frame.getReplyHost(), kHostBytesMax), frame.getReplyPort()}};
  *seal = {frame.getPayloadBytes(), frame.getPayloadChecksum()};
  return get_message(frame.getMessage(), message);
}

// The envelope: everything that can be judged without capnp.
DecodeStatus check_prefix(std::span<const std::byte> header, uint16_t version) {
  if (header.size() < kHeaderBytesMin) return DecodeStatus::kTooShort;
  if (header.size() > kControlFrameBytesMax) return DecodeStatus::kTooLong;
  Prefix prefix;
  std::memcpy(&prefix, header.data(), sizeof prefix);
  if (prefix.magic != kMagic) return DecodeStatus::kBadMagic;
  if (prefix.version != version) return DecodeStatus::kWrongVersion;
  if (prefix.flags != 0) return DecodeStatus::kMalformed;
  const std::span<const std::byte> flat = header.subspan(sizeof prefix);
  if (xxh3_64(flat) != prefix.checksum) return DecodeStatus::kBadChecksum;
  uint32_t table[2];
  std::memcpy(table, flat.data(), sizeof table);
  const bool one_segment = table[0] == 0 && flat.size() == kSegmentTableBytes + size_t{table[1]} * kWordBytes;
  return one_segment ? DecodeStatus::kOk : DecodeStatus::kMalformed;
}

// Whether the parts of a bundle are the payload.
bool divides(const UpdateBundle& bundle, size_t payload_bytes) {
  uint64_t sum = 0;
  for (const uint32_t size : bundle.sizes) sum += size;
  return sum == payload_bytes;
}

bool carries_payload(const Message& message) { return channel_of(message) == Channel::kBulk; }

std::vector<std::byte> seal_flat(kj::ArrayPtr<const capnp::word> segment, uint16_t version) {
  const uint32_t table[2] = {0, static_cast<uint32_t>(segment.size())};
  const auto append = [](std::vector<std::byte>& bytes, const auto& part) {
    const auto raw = std::as_bytes(std::span(part));
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  };
  std::vector<std::byte> bytes;
  bytes.reserve(sizeof(Prefix) + sizeof table + segment.size() * kWordBytes);
  bytes.resize(sizeof(Prefix));
  append(bytes, table);
  append(bytes, segment);
  const Prefix prefix{kMagic, version, 0, xxh3_64(std::span(bytes).subspan(sizeof prefix))};
  std::memcpy(bytes.data(), &prefix, sizeof prefix);
  return bytes;
}

std::vector<std::byte> encode_version(uint16_t version, const FrameHeader& header, const Message& message,
                                      std::span<const std::byte> payload, std::optional<uint64_t> payload_checksum) {
  STARLING_CHECK(carries_payload(message) == !payload.empty());
  STARLING_CHECK(payload.size() <= kPayloadBytesMax);
  capnp::word scratch[kFirstSegmentWords] = {};
  capnp::MallocMessageBuilder builder(kj::arrayPtr(scratch, kFirstSegmentWords));
  wire::Frame::Builder frame = builder.initRoot<wire::Frame>();
  frame.setSwarm(header.swarm);
  put_id(frame.initSender(), header.sender);
  frame.setGeneration(header.generation);
  frame.setReplyHost(text_of(header.reply_to.host));
  frame.setReplyPort(header.reply_to.port);
  frame.setPayloadBytes(static_cast<uint32_t>(payload.size()));
  frame.setPayloadChecksum(payload.empty() ? 0 : payload_checksum ? *payload_checksum : xxh3_64(payload));
  put_message(frame.getMessage(), message);
  if (builder.getSegmentsForOutput().size() == 1) return seal_flat(builder.getSegmentsForOutput()[0], version);
  const size_t words = frame.asReader().totalSize().wordCount + 1;  // and the pointer to the root
  capnp::MallocMessageBuilder whole(static_cast<unsigned>(words));
  whole.setRoot(frame.asReader());
  STARLING_CHECK(whole.getSegmentsForOutput().size() == 1);
  return seal_flat(whole.getSegmentsForOutput()[0], version);
}

}  // namespace

const char* describe(DecodeStatus status) {
  switch (status) {
    case DecodeStatus::kOk: return "ok";
    case DecodeStatus::kTooShort: return "too short for a header";
    case DecodeStatus::kTooLong: return "too long";
    case DecodeStatus::kBadMagic: return "not this protocol";
    case DecodeStatus::kWrongVersion: return "another version of the protocol";
    case DecodeStatus::kBadChecksum: return "header damaged on the way";
    case DecodeStatus::kMalformed: return "malformed";
    case DecodeStatus::kUnknownMessage: return "an unknown kind of message";
    case DecodeStatus::kOutOfRange: return "a field out of its range";
    case DecodeStatus::kWrongChannel: return "a message on the wrong port";
    case DecodeStatus::kPayloadMismatch: return "payload missing, unexpected or damaged";
  }
  return "?";
}

Channel channel_of(const Message& message) {
  const bool bulk = message_is<ModelBlock, BlockPayload, RoundBlock, Contribution, LogEntry, SliceState, SketchTable,
                               SketchRequest, UpdateBundle>(message);
  return bulk ? Channel::kBulk : Channel::kControl;
}

std::vector<std::byte> encode_frame_header(const FrameHeader& header, const Message& message,
                                           std::span<const std::byte> payload,
                                           std::optional<uint64_t> payload_checksum) {
  return encode_version(kProtocolVersion, header, message, payload, payload_checksum);
}

DecodeStatus decode_frame(Channel channel, std::span<const std::byte> header, std::span<const std::byte> payload,
                          FrameHeader* header_out, Message* message_out) {
  if (payload.size() > kPayloadBytesMax) return DecodeStatus::kTooLong;
  FrameHeader decoded;
  PayloadSeal seal;
  Message message;
  try {
    DecodeStatus status = check_prefix(header, kProtocolVersion);
    if (status != DecodeStatus::kOk) return status;
    status = get_frame(header.subspan(sizeof(Prefix)), &decoded, &seal, &message);
    if (status != DecodeStatus::kOk) return status;
    if (!in_range(decoded) || !in_range(decoded.sender, message)) return DecodeStatus::kOutOfRange;
  } catch (...) {  // kj::Exception, or no memory: nothing in these bytes may end the agent
    return DecodeStatus::kMalformed;
  }
  if (channel_of(message) != channel) return DecodeStatus::kWrongChannel;
  if (carries_payload(message) == payload.empty() || seal.bytes != payload.size()) {
    return DecodeStatus::kPayloadMismatch;
  }
  const auto* bundle = message_as<UpdateBundle>(message);
  if (bundle != nullptr && !divides(*bundle, payload.size())) return DecodeStatus::kPayloadMismatch;
  const uint64_t checksum = payload.empty() ? 0 : xxh3_64(payload);
  if (checksum != seal.checksum) return DecodeStatus::kPayloadMismatch;
  *header_out = std::move(decoded);
  *message_out = std::move(message);
  return DecodeStatus::kOk;
}

std::optional<OtherVersionJoin> decode_other_version(std::span<const std::byte> header) {
  if (header.size() < kHeaderBytesMin) return std::nullopt;
  Prefix prefix;
  std::memcpy(&prefix, header.data(), sizeof prefix);
  if (prefix.version == kProtocolVersion || check_prefix(header, prefix.version) != DecodeStatus::kOk) {
    return std::nullopt;
  }
  try {
    FrameHeader decoded;
    PayloadSeal seal;
    Message message;
    if (get_frame(header.subspan(sizeof prefix), &decoded, &seal, &message) != DecodeStatus::kOk) return std::nullopt;
    const Join* join = message_as<Join>(message);
    if (join == nullptr || !in_range(decoded) || !in_range(decoded.sender, message)) return std::nullopt;
    return OtherVersionJoin{prefix.version, decoded.sender, decoded.reply_to, join->nonce};
  } catch (...) {
    return std::nullopt;
  }
}

std::vector<std::byte> encode_version_refusal(const FrameHeader& header, const OtherVersionJoin& join) {
  const std::string reason = describe_versions(std::to_string(kProtocolVersion), std::to_string(join.version),
                                               join.version < kProtocolVersion ? "newcomer's" : "swarm's");
  return encode_version(join.version, header, JoinRefused{reason, "", join.nonce}, {}, std::nullopt);
}

std::string version_name(uint32_t revision) {
  return std::to_string(kProtocolVersion) + "." + std::to_string(revision);
}

std::string describe_older(const Join& join) {
  return describe_versions(version_name(kProtocolRevision), version_name(join.revision), "newcomer's");
}

}  // namespace starling
