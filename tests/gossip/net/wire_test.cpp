#include "gossip/net/wire.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "gossip/net/hash.h"
#include "gossip/net/revocations.h"
#include "gossip/net/wire_check.h"
#include "tests/gossip/net/wire_samples.h"

namespace starling {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kNanF = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinityF = std::numeric_limits<float>::infinity();

DecodeStatus decode(const FrameHeader& header, const Message& message, std::vector<std::byte> payload = {}) {
  const Channel channel = channel_of(message);
  if (channel == Channel::kBulk && payload.empty()) payload.resize(10);
  FrameHeader header_out;
  Message message_out;
  return decode_frame(channel, encode_frame_header(header, message, payload), payload, &header_out, &message_out);
}

template <typename T>
T sample() {
  for (const Sample& s : wire_samples()) {
    if (const T* message = message_as<T>(s.message)) return *message;
  }
  throw std::logic_error("no such sample");
}

// What comes of a sample after one change.
template <typename T>
DecodeStatus changed(const std::function<void(T&)>& change) {
  T message = sample<T>();
  change(message);
  return decode(sample_header(), message);
}

// Of a record, signed or not.
DecodeStatus changed_record(const std::function<void(PeerRecord&)>& change) {
  Join join = sample<Join>();
  join.record.sealed.clear();
  change(join.record);
  const DecodeStatus status = decode(sample_header(), join);
  join.record.sealed = std::string(kProofBytes, 's') + pack_record(join.record);
  EXPECT_EQ(decode(sample_header(), join), status) << "a signed one";
  return status;
}

constexpr size_t kMembershipKinds = std::variant_size_v<MembershipMessage>;
constexpr size_t kBootstrapKinds = std::variant_size_v<BootstrapMessage>;

// Counts the kinds of all families in the order of message.h.
size_t number_of_kind(const Message& message) {
  const size_t before[] = {0, kMembershipKinds, kMembershipKinds + kBootstrapKinds};
  return before[message.index()] + std::visit([](const auto& family) { return family.index(); }, message);
}

TEST(Wire, EveryKindComesBackWhole) {
  std::set<size_t> kinds;
  for (const Sample& sample : wire_samples()) {
    SCOPED_TRACE(sample.name);
    kinds.insert(number_of_kind(sample.message));
    FrameHeader header;
    Message message;
    const Channel channel = channel_of(sample.message);
    ASSERT_EQ(decode_frame(channel, encode(sample), sample.payload, &header, &message), DecodeStatus::kOk);
    EXPECT_TRUE(same(header, sample_header()));
    EXPECT_TRUE(same(message, sample.message));
  }
  EXPECT_EQ(kinds.size(), kMembershipKinds + kBootstrapKinds + std::variant_size_v<ExchangeMessage>);
}

TEST(Wire, EmptyMessagesComeBackToo) {
  for (const Message& message : {Message(Ping{}), Message(PingAck{}), Message(Gossip{}), Message(Sync{}),
                                 Message(JoinReply{}), Message(JoinRefused{}), Message(ModelOffer{})}) {
    EXPECT_EQ(decode(sample_header(), message), DecodeStatus::kOk) << message.index();
  }
}

TEST(Wire, TheLargestMessagesFit) {
  Sync sync;
  for (size_t i = 0; i < kMembersMax; ++i) sync.digest.push_back({sample_id(static_cast<uint8_t>(i)), {1, 1}, 0});
  EXPECT_EQ(decode(sample_header(), sync), DecodeStatus::kOk);
  JoinReply reply{std::string(kSettingsBytesMax, 's'), {}};
  for (size_t i = 0; i < kSyncRecordsMax; ++i) {
    reply.members.push_back(sample_record(static_cast<uint8_t>(i)));
    reply.members.back().endpoint.host = std::string(kHostBytesMax, 'h');
    reply.members.back().meta.name = std::string(kNameBytesMax, 'n');
  }
  EXPECT_EQ(decode(sample_header(), reply), DecodeStatus::kOk);
  EXPECT_EQ(changed<ModelOffer>([](ModelOffer& m) {
              m.total_bytes = (1ull << 40) - 1;
              m.hashes.resize(kTransferHashesPerFrame);
            }),
            DecodeStatus::kOk);
  EXPECT_EQ(changed<Commit>([](Commit& m) { m.blocks.resize(kBlocksMax / 8); }), DecodeStatus::kOk);
  EXPECT_EQ(decode(sample_header(), sample<BlockPayload>(), std::vector<std::byte>(kPayloadBytesMax)),
            DecodeStatus::kOk);
}

TEST(Wire, RefusesHeadersOutOfRange) {
  const auto decode_with = [](const std::function<void(FrameHeader&)>& change) {
    FrameHeader header = sample_header();
    change(header);
    return decode(header, PingNack{1});
  };
  EXPECT_EQ(decode_with([](FrameHeader& h) {
              h.swarm = 0;
              h.generation = 0;
            }),
            DecodeStatus::kOk);
  EXPECT_EQ(decode_with([](FrameHeader& h) { h.sender = {}; }), DecodeStatus::kOutOfRange);
  EXPECT_EQ(decode_with([](FrameHeader& h) { h.reply_to.port = 0; }), DecodeStatus::kOutOfRange);
  for (const std::string& host : {std::string(), std::string(256, 'a'), std::string("a/b"), std::string("a b"),
                                  std::string("a\0b", 3), std::string("tcp://x")}) {
    EXPECT_EQ(decode_with([&](FrameHeader& h) { h.reply_to.host = host; }), DecodeStatus::kOutOfRange) << host;
  }
}

TEST(Wire, RefusesRecordsOutOfRange) {
  const std::pair<const char*, std::function<void(PeerRecord&)>> changes[] = {
      {"another's id", [](PeerRecord& r) { r.id = sample_id(9); }},
      {"no id", [](PeerRecord& r) { r.id = {}; }},
      {"port", [](PeerRecord& r) { r.endpoint.port = 0; }},
      {"host", [](PeerRecord& r) { r.endpoint.host = "bad host"; }},
      {"role", [](PeerRecord& r) { r.meta.role = static_cast<Role>(2); }},
      {"phase", [](PeerRecord& r) { r.meta.phase = static_cast<Phase>(5); }},
      {"mass 0", [](PeerRecord& r) { r.meta.mass = 0; }},
      {"mass negative", [](PeerRecord& r) { r.meta.mass = -1; }},
      {"mass nan", [](PeerRecord& r) { r.meta.mass = kNan; }},
      {"mass infinite", [](PeerRecord& r) { r.meta.mass = kInfinity; }},
      {"mass tiny", [](PeerRecord& r) { r.meta.mass = kMassMin / 2; }},
      {"mass huge", [](PeerRecord& r) { r.meta.mass = kMassMax * 2; }},
      {"rate", [](PeerRecord& r) { r.meta.steps_per_s = -1; }},
      {"accuracy", [](PeerRecord& r) { r.meta.accuracy = 1.5f; }},
      {"projection short", [](PeerRecord& r) { r.meta.projection.resize(kProjectionBuckets - 1); }},
      {"projection long", [](PeerRecord& r) { r.meta.projection.resize(kProjectionBuckets + 1); }},
      {"long name", [](PeerRecord& r) { r.meta.name = std::string(kNameBytesMax + 1, 'n'); }},
      {"name with escape", [](PeerRecord& r) { r.meta.name = "\x1b[2J"; }},
      {"name with line feed", [](PeerRecord& r) { r.meta.name = "a\nb"; }},
      {"name with broken UTF-8", [](PeerRecord& r) { r.meta.name = "\xc3("; }},
  };
  EXPECT_EQ(changed_record([](PeerRecord&) {}), DecodeStatus::kOk);
  for (const auto& [name, change] : changes) EXPECT_EQ(changed_record(change), DecodeStatus::kOutOfRange) << name;
}

TEST(Wire, NumbersOfABrokenModelStaySendable) {
  Join join = sample<Join>();
  join.record.sealed.clear();
  join.record.meta.loss = kNanF;
  join.record.meta.steps_per_s = kInfinityF;
  join.record.meta.accuracy = kNanF;
  join.record.meta.distance = -kInfinityF;
  join.record.meta.projection.assign(kProjectionBuckets, kNanF);
  FrameHeader header;
  Message message;
  ASSERT_EQ(decode_frame(Channel::kControl, encode_frame_header(sample_header(), join, {}), {}, &header, &message),
            DecodeStatus::kOk);
  const MemberMeta& meta = message_as<Join>(message)->record.meta;
  EXPECT_EQ(meta.loss, std::numeric_limits<float>::max());
  EXPECT_EQ(meta.steps_per_s, 0);
  EXPECT_EQ(meta.accuracy, -1);
  EXPECT_EQ(meta.distance, -1);
  EXPECT_TRUE(meta.projection.empty());
}

TEST(Wire, ARecordTellsThatNothingIsSaved) {
  for (const bool unsaved : {false, true}) {
    Join join = sample<Join>();
    join.record.sealed.clear();
    join.record.meta.unsaved = unsaved;
    FrameHeader header;
    Message message;
    ASSERT_EQ(decode_frame(Channel::kControl, encode_frame_header(sample_header(), join, {}), {}, &header, &message),
              DecodeStatus::kOk);
    EXPECT_EQ(message_as<Join>(message)->record.meta.unsaved, unsaved);
  }
}

TEST(Wire, RefusesTooManyAndTooLong) {
  const DecodeStatus refused = DecodeStatus::kOutOfRange;
  EXPECT_EQ(changed<Gossip>([](Gossip& m) {
              m.updates = {};
              m.updates.alive.resize(kGossipUpdatesPerFrameMax, sample_record(3));
            }),
            DecodeStatus::kOk);
  EXPECT_EQ(changed<Gossip>([](Gossip& m) {
              m.updates.alive.resize(kGossipUpdatesPerFrameMax, sample_record(3));  // and the others
            }),
            refused);
  EXPECT_EQ(changed<Gossip>([](Gossip& m) { m.updates.suspect.resize(500, m.updates.suspect[0]); }), refused);
  EXPECT_EQ(changed<Sync>([](Sync& m) { m.digest.resize(kMembersMax + 1, m.digest[0]); }), refused);
  EXPECT_EQ(changed<Sync>([](Sync& m) { m.records.resize(kSyncRecordsMax + 1, m.records[0]); }), refused);
  EXPECT_EQ(changed<JoinReply>([](JoinReply& m) { m.members.resize(kSyncRecordsMax + 1, m.members[0]); }), refused);
  EXPECT_EQ(changed<Sync>([](Sync& m) { m.records.assign(kSyncRecordsMax + 1, sealed_record(3)); }), refused);
  EXPECT_EQ(changed<JoinReply>([](JoinReply& m) { m.members.assign(kSyncRecordsMax + 1, sealed_record(3)); }), refused);
  EXPECT_EQ(changed<Gossip>([](Gossip& m) { m.updates = {.left = std::vector(21, sealed_record(3, true))}; }), refused);
  EXPECT_EQ(changed<Join>([](Join& m) { m.settings = std::string(kSettingsBytesMax + 1, 's'); }), refused);
  EXPECT_EQ(changed<JoinRefused>([](JoinRefused& m) { m.reason = std::string(kReasonBytesMax + 1, 'r'); }), refused);
  EXPECT_EQ(changed<ModelOffer>([](ModelOffer& m) {
              m.total_bytes = 1ull << 40;
              m.hashes.resize(kTransferHashesPerFrame + 1);
            }),
            refused);
  EXPECT_EQ(changed<Have>([](Have& m) { m.blocks.resize(kBlocksMax / 8 + 1); }), refused);
  EXPECT_EQ(changed<Missing>([](Missing& m) { m.blocks.resize(kBlocksMax / 8 + 1); }), refused);
  EXPECT_EQ(changed<Commit>([](Commit& m) { m.blocks.resize(kBlocksMax / 8 + 1); }), refused);
  EXPECT_EQ(changed<JoinReply>([](JoinReply& m) { m.settings = std::string(kControlFrameBytesMax, 's'); }),
            DecodeStatus::kTooLong);
}

TEST(Wire, RefusesMembershipOutOfRange) {
  const DecodeStatus refused = DecodeStatus::kOutOfRange;
  EXPECT_EQ(changed<Ping>([](Ping& m) { m.target = {}; }), DecodeStatus::kOk);
  EXPECT_EQ(changed<PingRequest>([](PingRequest& m) { m.target = {}; }), refused);
  EXPECT_EQ(changed<PingAck>([](PingAck& m) { m.updates.suspect[0].subject = {}; }), refused);
  EXPECT_EQ(changed<PingAck>([](PingAck& m) { m.updates.suspect[0].accuser = {}; }), refused);
  EXPECT_EQ(changed<PingAck>([](PingAck& m) { m.proof.resize(kProofBytes + 1); }), refused);
  EXPECT_EQ(changed<PingAck>([](PingAck& m) { m.proof.resize(1 << 15); }), refused);
  EXPECT_EQ(changed<PingAck>([](PingAck& m) { m.proof.clear(); }), DecodeStatus::kOk);
  EXPECT_EQ(changed<Ping>([](Ping& m) { m.updates.left[0].meta.mass = kNan; }), refused);
  EXPECT_EQ(changed<Sync>([](Sync& m) { m.digest[2].state = 4; }), refused);
  EXPECT_EQ(changed<Sync>([](Sync& m) { m.page = m.pages; }), refused);
  EXPECT_EQ(changed<Sync>([](Sync& m) { m.pages = kViewPagesMax + 1; }), refused);
  EXPECT_EQ(changed<Sync>([](Sync& m) { m.nonce = 0; }), refused) << "members send no pages";
  EXPECT_EQ(changed<Join>([](Join& m) { m.nonce = 0; }), refused) << "its answers could not be told apart";
  EXPECT_EQ(changed<Sync>([](Sync& m) { m.digest[2].id = {}; }), refused);
  EXPECT_EQ(changed<Sync>([](Sync& m) { m.records[1].endpoint.port = 0; }), refused);
}

TEST(Wire, RefusesJoiningOutOfRange) {
  const DecodeStatus refused = DecodeStatus::kOutOfRange;
  EXPECT_EQ(changed<JoinReply>([](JoinReply& m) { m.settings = "a\x1b"; }), refused);
  EXPECT_EQ(changed<JoinReply>([](JoinReply& m) { m.members[1].id = {}; }), refused);
  EXPECT_EQ(changed<JoinReply>([](JoinReply& m) { m.note = "\x1b[2J"; }), refused);
  EXPECT_EQ(changed<JoinReply>([](JoinReply& m) { m.note = std::string(kReasonBytesMax + 1, 'n'); }), refused);
  EXPECT_EQ(changed<JoinRefused>([](JoinRefused& m) { m.reason = "\xff"; }), refused);
  EXPECT_EQ(changed<JoinRefused>([](JoinRefused& m) {
              m.held->sealed.clear();
              m.held->endpoint.port = 0;
            }),
            refused);
  EXPECT_EQ(changed<JoinReply>([](JoinReply& m) { m.signature.pop_back(); }), refused);
  EXPECT_EQ(changed<JoinReply>([](JoinReply& m) { m.signature.resize(1 << 15); }), refused);
  EXPECT_EQ(changed<Join>([](Join& m) { m.signature += 'x'; }), refused);
  EXPECT_EQ(changed<JoinRefused>([](JoinRefused& m) { m.held.reset(); }), DecodeStatus::kOk);
  EXPECT_EQ(changed<ModelRequest>([](ModelRequest& m) { m.first_hash = kTransferBlocksMax; }), refused);
  EXPECT_EQ(changed<ModelBlockRequest>([](ModelBlockRequest& m) { m.index = kTransferBlocksMax; }), refused);
  EXPECT_EQ(changed<ModelBlock>([](ModelBlock& m) { m.index = kTransferBlocksMax; }), refused);
  EXPECT_EQ(changed<ModelOffer>([](ModelOffer& m) { m.block_bytes = 0; }), refused);
  EXPECT_EQ(changed<ModelOffer>([](ModelOffer& m) { m.block_bytes = kPayloadBytesMax + 1; }), refused);
  EXPECT_EQ(changed<ModelOffer>([](ModelOffer& m) { m.total_bytes = 0; }), refused);  // with hashes
  EXPECT_EQ(changed<ModelOffer>([](ModelOffer& m) { m.total_bytes = ~0ull; }), refused);
  EXPECT_EQ(changed<ModelOffer>([](ModelOffer& m) { m.total_bytes = 1; }), refused);
  EXPECT_EQ(changed<ModelOffer>([](ModelOffer& m) { m.first_hash = 3; }), refused);  // 3 + 3 hashes, 5 blocks
  EXPECT_EQ(changed<ModelOffer>([](ModelOffer& m) { m.first_hash = ~0u; }), refused);
}

// What was signed is all that counts, as it came.
TEST(Wire, SignedRecordsPassAsTheyAre) {
  PeerRecord record = sealed_record(7), other = record;
  other.meta.loss = 99;
  other.sealed = record.sealed;
  FrameHeader header;
  Message message;
  const std::vector<std::byte> frame = encode_frame_header(sample_header(), Gossip{Updates{.alive = {other}}}, {});
  ASSERT_EQ(decode_frame(Channel::kControl, frame, {}, &header, &message), DecodeStatus::kOk);
  const Updates& updates = message_as<Gossip>(message)->updates;
  ASSERT_EQ(updates.alive.size(), 1u);
  EXPECT_TRUE(fields(updates.alive[0]) == fields(record));
}

TEST(Wire, RefusesSignedRecordsThatAreNone) {
  const auto sent = [](const std::string& sealed) {
    PeerRecord record = sample_record(7);
    record.sealed = sealed;
    return decode(sample_header(), Sync{.records = {record}});
  };
  const std::string sound = sealed_record(7).sealed, signature(kProofBytes, 's');
  EXPECT_EQ(sent(sound), DecodeStatus::kOk);
  for (size_t size = 1; size < sound.size(); ++size) EXPECT_NE(sent(sound.substr(0, size)), DecodeStatus::kOk) << size;
  EXPECT_EQ(sent(signature), DecodeStatus::kOutOfRange) << "of nothing";
  EXPECT_EQ(sent(sound + std::string(kSealedBytesMax - sound.size(), '\0')), DecodeStatus::kOk);
  EXPECT_EQ(sent(sound + std::string(kSealedBytesMax + 1 - sound.size(), '\0')), DecodeStatus::kOutOfRange);
  // Packed: one segment of 128 words, all zero, which is the largest; of 129; and of as many as 32 bits can say.
  const auto zeros = [&](uint32_t words) {
    std::string packed(signature);
    packed += '\x70';  // of the segment table's word the bytes 4 to 6
    for (int shift = 0; shift < 24; shift += 8) packed += static_cast<char>(words >> shift);
    for (uint32_t left = words; left > 0 && packed.size() < 1000; left -= std::min(left, 256u)) {
      packed += '\0';
      packed += static_cast<char>(std::min(left, 256u) - 1);
    }
    return packed;
  };
  EXPECT_EQ(sent(zeros(128)), DecodeStatus::kOutOfRange) << "a record of no id";
  EXPECT_EQ(sent(zeros(129)), DecodeStatus::kMalformed);
  EXPECT_EQ(sent(zeros(0xffffff)), DecodeStatus::kMalformed);
}

TEST(Wire, RefusesRevocationsOutOfRange) {
  const auto of = [](size_t bytes) { return changed<Revoked>([bytes](Revoked& m) { m.entries.assign(bytes, '\7'); }); };
  EXPECT_EQ(of(kRevocationBytes), DecodeStatus::kOk);
  EXPECT_EQ(of(kRevocationsMax * kRevocationBytes), DecodeStatus::kOk) << "all of them in one frame";
  for (const size_t bytes :
       {size_t{0}, kRevocationBytes - 1, kRevocationBytes + 1, (kRevocationsMax + 1) * kRevocationBytes}) {
    EXPECT_EQ(of(bytes), DecodeStatus::kOutOfRange) << bytes;
  }
}

TEST(Wire, RefusesExchangesOutOfRange) {
  const DecodeStatus refused = DecodeStatus::kOutOfRange;
  for (const double offer : {0.0, 0.3, 0.75, 2.0, -1.0, kNan, kInfinity}) {
    EXPECT_EQ(changed<Propose>([&](Propose& m) { m.offer = offer; }), refused) << offer;
    EXPECT_EQ(changed<Accept>([&](Accept& m) { m.offer = offer; }), refused) << offer;
  }
  for (const double mass : {0.0, -1.0, kNan, kInfinity, -kInfinity}) {
    EXPECT_EQ(changed<Propose>([&](Propose& m) { m.mass = mass; }), refused) << mass;
    EXPECT_EQ(changed<Accept>([&](Accept& m) { m.mass = mass; }), refused) << mass;
  }
  for (const double scale : {-0.001, 1.001, kNan, kInfinity}) {
    EXPECT_EQ(changed<Have>([&](Have& m) { m.scale = scale; }), refused) << scale;
    EXPECT_EQ(changed<Commit>([&](Commit& m) { m.scale = scale; }), refused) << scale;
  }
  EXPECT_EQ(changed<Propose>([](Propose& m) { m.deadline_ms = 0; }), refused);
  EXPECT_EQ(changed<Propose>([](Propose& m) { m.deadline_ms = kExchangeDeadlineMsMax + 1; }), refused);
  EXPECT_EQ(changed<Propose>([](Propose& m) { m.credit = kBlocksMax + 1; }), refused);
  EXPECT_EQ(changed<Propose>([](Propose& m) { m.fragment = kBlocksMax; }), refused);
  EXPECT_EQ(changed<Accept>([](Accept& m) { m.credit = kBlocksMax + 1; }), refused);
  EXPECT_EQ(changed<Credit>([](Credit& m) { m.credit = kBlocksMax + 1; }), refused);
  EXPECT_EQ(changed<BlockPayload>([](BlockPayload& m) { m.index = kBlocksMax; }), refused);
  EXPECT_EQ(changed<BlockPayload>([](BlockPayload& m) { m.stage = kStageMax + 1; }), refused);
  EXPECT_EQ(changed<Propose>([](Propose& m) { m.xid.proposer = sample_id(2); }), refused) << "not the sender's";
  EXPECT_EQ(changed<Commit>([](Commit& m) { m.xid.proposer = sample_id(2); }), refused) << "not the sender's";
  EXPECT_EQ(changed<Accept>([](Accept& m) { m.xid.proposer = {}; }), refused);
  EXPECT_EQ(changed<Busy>([](Busy& m) { m.xid.proposer = {}; }), refused);
  EXPECT_EQ(changed<BlockPayload>([](BlockPayload& m) { m.xid.proposer = {}; }), refused);
  EXPECT_EQ(changed<Credit>([](Credit& m) { m.xid.proposer = {}; }), refused);
  EXPECT_EQ(changed<Have>([](Have& m) { m.xid.proposer = {}; }), refused);
  EXPECT_EQ(changed<Abort>([](Abort& m) { m.xid.proposer = {}; }), refused);
  EXPECT_EQ(changed<CommitAck>([](CommitAck& m) { m.xid.proposer = {}; }), refused);
  EXPECT_EQ(changed<Query>([](Query& m) { m.xid.proposer = {}; }), refused);
  EXPECT_EQ(changed<Missing>([](Missing& m) { m.xid.proposer = {}; }), refused);
  EXPECT_EQ(changed<RoundBlock>([](RoundBlock& m) { m.phase = 2; }), refused);
  EXPECT_EQ(changed<RoundBlock>([](RoundBlock& m) { m.phase = 0; }), refused) << "nothing to count in one's own";
  EXPECT_EQ(changed<RoundBlock>([](RoundBlock& m) { m.counted = 0; }), refused) << "an average of nobody";
  EXPECT_EQ(changed<RoundBlock>([](RoundBlock& m) { m.group = 0; }), refused) << "an average outside a group";
  EXPECT_EQ(changed<RoundBlock>([](RoundBlock& m) { m.index = kBlocksMax; }), refused);
  EXPECT_EQ(changed<RoundBlock>([](RoundBlock& m) { m.mass = kNan; }), refused);
  EXPECT_EQ(changed<RoundCredit>([](RoundCredit& m) { m.phase = 1; }), refused) << "an average outside a group";
  EXPECT_EQ(changed<RoundCredit>([](RoundCredit& m) { m.credit = kBlocksMax + 1; }), refused);
}

TEST(Wire, RefusesContributionsAndEntriesOutOfRange) {
  const DecodeStatus refused = DecodeStatus::kOutOfRange;
  EXPECT_EQ(changed<Contribution>([](Contribution& m) { m.group = 0; }), refused);
  EXPECT_EQ(changed<Contribution>([](Contribution& m) { m.slice = kUpdateSlicesMax; }), refused);
  EXPECT_EQ(changed<Contribution>([](Contribution& m) { m.seq = 0; }), refused);
  EXPECT_EQ(changed<Contribution>([](Contribution& m) { m.length = 1ull << 48; }), refused);
  EXPECT_EQ(changed<Contribution>([](Contribution& m) { m.mass = kNan; }), refused);
  for (const uint8_t codec : {0, 10, 12, 13, 14, 17, 255}) {  // 10 and 12 to 14 are retired
    EXPECT_EQ(changed<Contribution>([&](Contribution& m) { m.codec = codec; }), refused);
    EXPECT_EQ(changed<LogEntry>([&](LogEntry& m) { m.codec = codec; }), refused);
  }
  EXPECT_EQ(changed<Contribution>([](Contribution& m) { m.part = m.parts; }), refused);
  EXPECT_EQ(changed<Contribution>([](Contribution& m) { m.parts = kUpdatePartsMax + 1; }), refused);
  EXPECT_EQ(changed<Contribution>([](Contribution& m) { m.head.weight = m.head.length - 1; }), refused);
  EXPECT_EQ(changed<Contribution>([](Contribution& m) { m.head.weight = 32 * m.head.length + 1; }), refused);
  EXPECT_EQ(changed<Contribution>([](Contribution& m) { m.head.hash = {}; }), refused) << "no log, yet entries";
  EXPECT_EQ(changed<Contribution>([](Contribution& m) {
              m.length = 0;
              m.head = {};
            }),
            DecodeStatus::kOk);
  EXPECT_EQ(changed<Contribution>([](Contribution& m) {
              m.length = 0;
              m.head = {0, 0, m.head.hash};
            }),
            refused);

  EXPECT_EQ(changed<LogEntry>([](LogEntry& m) {
              m.head = {};
              m.previous = {};
            }),
            refused)
      << "an empty log";
  EXPECT_EQ(changed<LogEntry>([](LogEntry& m) { m.previous = {}; }), refused) << "the first entry, of many";
  EXPECT_EQ(changed<LogEntry>([](LogEntry& m) {
              m.head.length = 1;
              m.head.weight = 2;
            }),
            refused);
  EXPECT_EQ(changed<LogEntry>([](LogEntry& m) { m.divisor = 0; }), refused);
  EXPECT_EQ(changed<LogEntry>([](LogEntry& m) { m.counted.clear(); }), refused);
  EXPECT_EQ(changed<LogEntry>([](LogEntry& m) { m.counted[1] = m.counted[0]; }), refused) << "counted twice";
  EXPECT_EQ(changed<LogEntry>([](LogEntry& m) { std::swap(m.counted[0], m.counted[1]); }), refused);
  EXPECT_EQ(changed<LogEntry>([](LogEntry& m) { m.counted[0].peer = {}; }), refused);
  EXPECT_EQ(changed<LogEntry>([](LogEntry& m) { m.counted[0].seq = 0; }), refused);
  EXPECT_EQ(changed<LogEntry>([](LogEntry& m) { m.counted[0].scale = 0; }), refused);
  EXPECT_EQ(changed<LogEntry>([](LogEntry& m) { m.counted[0].scale = 1.5f; }), refused);
  EXPECT_EQ(changed<LogEntry>([](LogEntry& m) { m.counted[0].norm = INFINITY; }), refused);
  EXPECT_EQ(changed<LogEntry>([](LogEntry& m) {
              m.counted.clear();
              for (size_t i = 0; i <= kUpdateMembersMax; ++i) {
                m.counted.push_back({sample_id(0), 1, 1, 1, 1});
                m.counted.back().peer.bytes[0] = static_cast<uint8_t>(i);
              }
            }),
            refused);
  EXPECT_EQ(changed<LogEntry>([](LogEntry& m) { m.plan.resize(kUpdatePlanBytesMax); }), DecodeStatus::kOk);
  EXPECT_EQ(changed<LogEntry>([](LogEntry& m) { m.plan.resize(kUpdatePlanBytesMax + 1); }), refused);
  EXPECT_EQ(changed<LogEntry>([](LogEntry& m) { m.slice = 1; }), refused) << "a plan beside slice 0";
}

TEST(Wire, RefusesBundlesThatAreNoBundles) {
  const DecodeStatus refused = DecodeStatus::kOutOfRange;
  const auto of = [](const std::function<void(UpdateBundle&)>& change) {
    UpdateBundle message = sample<UpdateBundle>();
    change(message);
    return decode(sample_header(), message, std::vector<std::byte>(100));
  };
  EXPECT_EQ(of([](UpdateBundle&) {}), DecodeStatus::kOk);
  EXPECT_EQ(of([](UpdateBundle& m) { m.contributions[1].seq = 0; }), refused);
  EXPECT_EQ(of([](UpdateBundle& m) { m.entries[0].divisor = kNan; }), refused);
  EXPECT_EQ(of([](UpdateBundle& m) { m.contributions[0].parts = 2; }), refused) << "a part alone";
  EXPECT_EQ(of([](UpdateBundle& m) { m.sizes.pop_back(); }), refused);
  EXPECT_EQ(of([](UpdateBundle& m) { m.sizes.push_back(0); }), refused);
  EXPECT_EQ(of([](UpdateBundle& m) { m.sizes[0] = kUpdatePartBytes + 1; }), refused);
  EXPECT_EQ(of([](UpdateBundle& m) { ++m.sizes[0]; }), DecodeStatus::kPayloadMismatch);
  EXPECT_EQ(of([](UpdateBundle& m) { --m.sizes[2]; }), DecodeStatus::kPayloadMismatch);
  EXPECT_EQ(of([](UpdateBundle& m) { m = {{m.contributions[0]}, {}, {100}}; }), refused) << "one";
  EXPECT_EQ(of([](UpdateBundle& m) {
              m.entries.clear();
              m.contributions.resize(kUpdateSlicesMax + 1, m.contributions[0]);
              m.sizes.assign(m.contributions.size(), 0);
              m.sizes[0] = 100;
            }),
            refused);
}

TEST(Wire, RefusesTablesAndRequestsOutOfRange) {
  const DecodeStatus refused = DecodeStatus::kOutOfRange;
  EXPECT_EQ(changed<SketchTable>([](SketchTable& m) { m.group = 0; }), refused);
  EXPECT_EQ(changed<SketchTable>([](SketchTable& m) { m.slice = kUpdateSlicesMax; }), refused);
  EXPECT_EQ(changed<SketchTable>([](SketchTable& m) { m.mass = kNan; }), refused);
  EXPECT_EQ(changed<SketchTable>([](SketchTable& m) { m.part = m.parts; }), refused);
  EXPECT_EQ(changed<SketchTable>([](SketchTable& m) { m.parts = kUpdatePartsMax + 1; }), refused);
  EXPECT_EQ(changed<SketchRequest>([](SketchRequest& m) { m.group = 0; }), refused);
  EXPECT_EQ(changed<SketchRequest>([](SketchRequest& m) { m.slice = kUpdateSlicesMax; }), refused);
  EXPECT_EQ(changed<SketchRequest>([](SketchRequest& m) { m.part = m.parts; }), refused);
}

TEST(Wire, RefusesPullsAndStatesOutOfRange) {
  const DecodeStatus refused = DecodeStatus::kOutOfRange;
  EXPECT_EQ(changed<LogPull>([](LogPull& m) { m.slice = kUpdateSlicesMax; }), refused);
  EXPECT_EQ(changed<LogPull>([](LogPull& m) { m.root = {}; }), refused) << "blocks of no state";
  EXPECT_EQ(changed<LogPull>([](LogPull& m) { m.missing.clear(); }), refused);
  EXPECT_EQ(changed<LogPull>([](LogPull& m) {
              m.root = {};
              m.missing.clear();
            }),
            DecodeStatus::kOk);
  EXPECT_EQ(changed<LogPull>([](LogPull& m) { m.missing.resize(kUpdatePartsMax / 8 + 1); }), refused);

  EXPECT_EQ(changed<SliceState>([](SliceState& m) { m.slice = kUpdateSlicesMax; }), refused);
  EXPECT_EQ(changed<SliceState>([](SliceState& m) { m.head = {}; }), refused);
  EXPECT_EQ(changed<SliceState>([](SliceState& m) { m.table.clear(); }), refused);
  EXPECT_EQ(changed<SliceState>([](SliceState& m) { std::swap(m.table[0], m.table[1]); }), refused);
  EXPECT_EQ(changed<SliceState>([](SliceState& m) { m.table[0].newest = 0; }), refused);
  EXPECT_EQ(changed<SliceState>([](SliceState& m) { m.table[0] = {m.table[0].peer, 1, 12, 1 << 10, 1}; }),
            DecodeStatus::kOk);
  EXPECT_EQ(changed<SliceState>([](SliceState& m) { m.table[0].window = 1 << 11; }), refused) << "counts seq 0";
  // A row counts `newest` and the 64 before it: one of 65 bits cannot be written, since the field has 64.
  static_assert(std::is_same_v<decltype(CountedRow::window), uint64_t>);
  EXPECT_EQ(changed<SliceState>([](SliceState& m) { m.table[0].newest = 64, m.table[0].window = ~0ull; }), refused);
  EXPECT_EQ(changed<SliceState>([](SliceState& m) { m.table[0].newest = 65, m.table[0].window = ~0ull; }),
            DecodeStatus::kOk);
  EXPECT_EQ(changed<SliceState>([](SliceState& m) { m.table[0].length = m.head.length + 1; }), refused);
  EXPECT_EQ(changed<SliceState>([](SliceState& m) { m.table[1].far = m.table[1].newest + 1; }), refused);
  EXPECT_EQ(changed<SliceState>([](SliceState& m) { m.table[1].before_far = m.table[1].far; }), refused);
  EXPECT_EQ(changed<SliceState>([](SliceState& m) { m.table[1].far = 0; }), refused) << "before nothing";
  EXPECT_EQ(changed<SliceState>([](SliceState& m) { m.table[1].before_window = ~0ull; }), refused) << "counts seq 0";
  EXPECT_EQ(changed<SliceState>([](SliceState& m) { m.table[1].before_far = 0; }), refused) << "counts below nothing";
  EXPECT_EQ(changed<SliceState>([](SliceState& m) { m.recent.clear(); }), refused);
  EXPECT_EQ(changed<SliceState>([](SliceState& m) { m.recent.resize(9, m.recent[1]); }), refused);
  EXPECT_EQ(changed<SliceState>([](SliceState& m) { m.recent[0].norm = kNan; }), refused);
  EXPECT_EQ(changed<SliceState>([](SliceState& m) { m.recent[1].hash = m.recent[0].hash; }), refused);
  EXPECT_EQ(changed<SliceState>([](SliceState& m) { m.block = 3; }), refused);
  EXPECT_EQ(changed<SliceState>([](SliceState& m) { m.hashes.clear(); }), refused);
  EXPECT_EQ(changed<SliceState>([](SliceState& m) { m.hashes.resize(kUpdatePartsMax + 1); }), refused);
  EXPECT_EQ(changed<SliceState>([](SliceState& m) {
              for (size_t i = 0; i < kCountedRowsMax; ++i) m.table.push_back(m.table[1]);
              for (size_t i = 2; i < m.table.size(); ++i) m.table[i].peer.bytes[0] = static_cast<uint8_t>(100 + i);
            }),
            refused);
}

TEST(Wire, EveryKindHasItsPort) {
  for (const Sample& s : wire_samples()) {
    FrameHeader header;
    Message message = Busy{};
    const bool bulk = s.name == "model_block" || s.name == "block_payload" || s.name == "round_block" ||
                      s.name == "contribution" || s.name == "log_entry" || s.name == "slice_state" ||
                      s.name == "sketch_table" || s.name == "sketch_request" || s.name == "update_bundle";
    EXPECT_EQ(channel_of(s.message) == Channel::kBulk, bulk) << s.name;
    const Channel other = bulk ? Channel::kControl : Channel::kBulk;
    EXPECT_EQ(decode_frame(other, encode(s), s.payload, &header, &message), DecodeStatus::kWrongChannel) << s.name;
    EXPECT_TRUE(message_is<Busy>(message) && header.sender.is_zero()) << "touched: " << s.name;
  }
}

TEST(Wire, PayloadsBelongToTheirKinds) {
  for (const Sample& s : wire_samples()) {
    SCOPED_TRACE(s.name);
    FrameHeader header;
    Message message;
    const Channel channel = channel_of(s.message);
    const std::vector<std::byte> encoded = encode(s);
    const DecodeStatus mismatch = DecodeStatus::kPayloadMismatch;
    std::vector<std::byte> payload = s.payload;
    if (payload.empty()) {
      EXPECT_EQ(decode_frame(channel, encoded, std::vector<std::byte>(8), &header, &message), mismatch);
      continue;
    }
    EXPECT_EQ(decode_frame(channel, encoded, {}, &header, &message), mismatch);
    payload.push_back({});
    EXPECT_EQ(decode_frame(channel, encoded, payload, &header, &message), mismatch);
    payload.pop_back();
    payload.pop_back();
    EXPECT_EQ(decode_frame(channel, encoded, payload, &header, &message), mismatch);
    const std::vector<std::byte> huge(kPayloadBytesMax + 1);
    EXPECT_EQ(decode_frame(channel, encoded, huge, &header, &message), DecodeStatus::kTooLong);
  }
}

TEST(Wire, UnalignedHeadersDecode) {
  for (const Sample& s : wire_samples()) {
    const std::vector<std::byte> encoded = encode(s);
    std::vector<std::byte> shifted(encoded.size() + 8);
    for (size_t shift = 0; shift < 8; ++shift) {
      std::copy(encoded.begin(), encoded.end(), shifted.begin() + static_cast<ptrdiff_t>(shift));
      FrameHeader header;
      Message message;
      const auto part = std::span(shifted).subspan(shift, encoded.size());
      EXPECT_EQ(decode_frame(channel_of(s.message), part, s.payload, &header, &message), DecodeStatus::kOk);
      EXPECT_TRUE(same(message, s.message)) << s.name << " at " << shift;
    }
  }
}

TEST(Wire, AMessageWithoutItsPayloadIsABug) {
  EXPECT_DEATH((void)encode_frame_header(sample_header(), sample<BlockPayload>(), {}), "check failed");
  EXPECT_DEATH((void)encode_frame_header(sample_header(), PingNack{}, std::vector<std::byte>(1)), "check failed");
}

TEST(Wire, EveryCauseHasWords) {
  for (int i = 0; i <= static_cast<int>(DecodeStatus::kPayloadMismatch); ++i) {
    EXPECT_GT(std::strlen(describe(static_cast<DecodeStatus>(i))), 1u);
  }
}

}  // namespace
}  // namespace starling
