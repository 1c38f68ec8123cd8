#include "gossip/net/wire.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "gossip/limits.h"
#include "gossip/net/hash.h"
#include "gossip/net/wire_check.h"
#include "gossip/wire.capnp.h"
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

// ---- structs to capnp: put(builder, value) ----

void put(wire::Id::Builder b, const PeerId& id) {
  uint64_t words[4];
  std::memcpy(words, id.bytes.data(), sizeof words);
  b.setA(words[0]);
  b.setB(words[1]);
  b.setC(words[2]);
  b.setD(words[3]);
}

capnp::Text::Reader text(const std::string& s) { return capnp::Text::Reader(s.c_str(), s.size()); }

template <typename Bytes>
capnp::Data::Reader raw(const Bytes& bytes) {
  return capnp::Data::Reader(reinterpret_cast<const uint8_t*>(std::data(bytes)),
                             std::size(bytes) * sizeof(*std::data(bytes)));
}

float finite_or(float value, float otherwise) { return std::isfinite(value) ? value : otherwise; }

void put(wire::PeerRecord::Builder b, const PeerRecord& record) {
  put(b.initId(), record.id);
  b.setGeneration(record.version.generation);
  b.setIncarnation(record.version.incarnation);
  b.setHost(text(record.endpoint.host));
  b.setPort(record.endpoint.port);
  const MemberMeta& meta = record.meta;
  b.setRole(static_cast<uint8_t>(meta.role));
  b.setPhase(static_cast<uint8_t>(meta.phase));
  b.setRound(meta.round);
  b.setSteps(meta.steps);
  b.setSamples(meta.samples);
  b.setMass(meta.mass);
  // A model that went wrong must not cost its agent the membership: its numbers stay sendable.
  b.setStepsPerS(finite_or(meta.steps_per_s, 0));
  b.setLoss(finite_or(meta.loss, std::numeric_limits<float>::max()));
  b.setAccuracy(finite_or(meta.accuracy, -1));
  b.setDistance(finite_or(meta.distance, -1));
  b.setName(text(meta.name));
}

void put(wire::Suspicion::Builder b, const Suspicion& suspicion) {
  put(b.initSubject(), suspicion.subject);
  b.setGeneration(suspicion.version.generation);
  b.setIncarnation(suspicion.version.incarnation);
  put(b.initAccuser(), suspicion.accuser);
}

void put(wire::DigestEntry::Builder b, const DigestEntry& entry) {
  uint64_t words[4];
  std::memcpy(words, entry.id.bytes.data(), sizeof words);
  b.setIdA(words[0]);
  b.setIdB(words[1]);
  b.setIdC(words[2]);
  b.setIdD(words[3]);
  b.setGeneration(entry.version.generation);
  b.setIncarnation(entry.version.incarnation);
  b.setState(entry.state);
}

void put(wire::Digest::Builder b, const Digest16& digest) {
  uint64_t words[2];
  std::memcpy(words, digest.data(), sizeof words);
  b.setA(words[0]);
  b.setB(words[1]);
}

void put(wire::LogHead::Builder b, const LogHead& head) {
  b.setLength(head.length);
  b.setWeight(head.weight);
  put(b.initHash(), head.hash);
}

template <typename Builder>
void put_peer(Builder b, const PeerId& id) {
  uint64_t words[4];
  std::memcpy(words, id.bytes.data(), sizeof words);
  b.setPeerA(words[0]);
  b.setPeerB(words[1]);
  b.setPeerC(words[2]);
  b.setPeerD(words[3]);
}

void put(wire::CountedPayload::Builder b, const CountedPayload& counted) {
  put_peer(b, counted.peer);
  b.setGeneration(counted.generation);
  b.setSeq(counted.seq);
  b.setScale(counted.scale);
  b.setNorm(counted.norm);
}

void put(wire::CountedRow::Builder b, const CountedRow& row) {
  put_peer(b, row.peer);
  b.setGeneration(row.generation);
  b.setNewest(row.newest);
  b.setWindow(row.window);
  b.setLength(row.length);
}

void put(wire::RecentEntry::Builder b, const RecentEntry& entry) {
  put(b.initHash(), entry.hash);
  b.setNorm(entry.norm);
  b.setPayloadNorm(entry.payload_norm);
}

template <typename ListBuilder, typename T>
void put_list(ListBuilder list, const std::vector<T>& items) {
  for (unsigned i = 0; i < items.size(); ++i) put(list[i], items[i]);
}

unsigned count(size_t n) { return static_cast<unsigned>(n); }

void put(wire::Updates::Builder b, const Updates& updates) {
  if (!updates.alive.empty()) put_list(b.initAlive(count(updates.alive.size())), updates.alive);
  if (!updates.suspect.empty()) put_list(b.initSuspect(count(updates.suspect.size())), updates.suspect);
  if (!updates.left.empty()) put_list(b.initLeft(count(updates.left.size())), updates.left);
}

void put(wire::ExchangeId::Builder b, const ExchangeId& xid) {
  put(b.initProposer(), xid.proposer);
  b.setGeneration(xid.generation);
  b.setCounter(xid.counter);
}

struct Put {
  wire::Frame::Message::Builder message;

  void operator()(const Ping& m) {
    auto b = message.initPing();
    b.setSequence(m.sequence);
    put(b.initTarget(), m.target);
    put(b.initUpdates(), m.updates);
  }
  void operator()(const PingAck& m) {
    auto b = message.initPingAck();
    b.setSequence(m.sequence);
    put(b.initUpdates(), m.updates);
  }
  void operator()(const PingRequest& m) {
    auto b = message.initPingRequest();
    b.setSequence(m.sequence);
    put(b.initTarget(), m.target);
    put(b.initUpdates(), m.updates);
  }
  void operator()(const PingNack& m) { message.initPingNack().setSequence(m.sequence); }
  void operator()(const Gossip& m) { put(message.initGossip().initUpdates(), m.updates); }
  void operator()(const Sync& m) {
    auto b = message.initSync();
    put_list(b.initDigest(count(m.digest.size())), m.digest);
    put_list(b.initRecords(count(m.records.size())), m.records);
    b.setReplyWanted(m.reply_wanted);
  }
  void operator()(const Join& m) {
    auto b = message.initJoin();
    put(b.initRecord(), m.record);
    b.setSettings(text(m.settings));
  }
  void operator()(const JoinReply& m) {
    auto b = message.initJoinReply();
    b.setSettings(text(m.settings));
    put_list(b.initMembers(count(m.members.size())), m.members);
  }
  void operator()(const JoinRefused& m) {
    auto b = message.initJoinRefused();
    b.setReason(text(m.reason));
    b.setSettings(text(m.settings));
  }
  void operator()(const ModelRequest& m) { message.initModelRequest().setFirstHash(m.first_hash); }
  void operator()(const ModelOffer& m) {
    auto b = message.initModelOffer();
    b.setSnapshot(m.snapshot);
    b.setRound(m.round);
    b.setSteps(m.steps);
    b.setTotalBytes(m.total_bytes);
    b.setBlockBytes(m.block_bytes);
    b.setRoot(raw(m.root));
    b.setFirstHash(m.first_hash);
    b.setHashes(raw(m.hashes));
  }
  void operator()(const ModelBlockRequest& m) {
    auto b = message.initModelBlockRequest();
    b.setSnapshot(m.snapshot);
    b.setIndex(m.index);
  }
  void operator()(const ModelBlock& m) {
    auto b = message.initModelBlock();
    b.setSnapshot(m.snapshot);
    b.setIndex(m.index);
  }
  void operator()(const ModelGone& m) { message.initModelGone().setSnapshot(m.snapshot); }
  void operator()(const Propose& m) {
    auto b = message.initPropose();
    put(b.initXid(), m.xid);
    b.setOffer(m.offer);
    b.setMass(m.mass);
    b.setRound(m.round);
    b.setDeadlineMs(m.deadline_ms);
    b.setCredit(m.credit);
  }
  void operator()(const Accept& m) {
    auto b = message.initAccept();
    put(b.initXid(), m.xid);
    b.setOffer(m.offer);
    b.setMass(m.mass);
    b.setRound(m.round);
    b.setCredit(m.credit);
  }
  void operator()(const Busy& m) {
    auto b = message.initBusy();
    put(b.initXid(), m.xid);
    b.setFreeInMs(m.free_in_ms);
  }
  void operator()(const BlockPayload& m) {
    auto b = message.initBlockPayload();
    put(b.initXid(), m.xid);
    b.setIndex(m.index);
    b.setStage(m.stage);
  }
  void operator()(const Credit& m) {
    auto b = message.initCredit();
    put(b.initXid(), m.xid);
    b.setCredit(m.credit);
  }
  void operator()(const Have& m) {
    auto b = message.initHave();
    put(b.initXid(), m.xid);
    b.setBlocks(raw(m.blocks));
    b.setScale(m.scale);
  }
  void operator()(const Commit& m) {
    auto b = message.initCommit();
    put(b.initXid(), m.xid);
    b.setBlocks(raw(m.blocks));
    b.setScale(m.scale);
  }
  void operator()(const Abort& m) { put(message.initAbort().initXid(), m.xid); }
  void operator()(const CommitAck& m) { put(message.initCommitAck().initXid(), m.xid); }
  void operator()(const Query& m) { put(message.initQuery().initXid(), m.xid); }
  void operator()(const RoundBlock& m) {
    auto b = message.initRoundBlock();
    b.setGroup(m.group);
    b.setRound(m.round);
    b.setPhase(m.phase);
    b.setIndex(m.index);
    b.setMass(m.mass);
    b.setCounted(m.counted);
  }
  void operator()(const RoundCredit& m) {
    auto b = message.initRoundCredit();
    b.setGroup(m.group);
    b.setRound(m.round);
    b.setPhase(m.phase);
    b.setCredit(m.credit);
  }
  void operator()(const Contribution& m) {
    auto b = message.initContribution();
    b.setGroup(m.group);
    b.setRound(m.round);
    b.setSlice(m.slice);
    b.setSeq(m.seq);
    b.setLength(m.length);
    put(b.initHead(), m.head);
    b.setMass(m.mass);
    b.setCodec(m.codec);
    b.setPart(m.part);
    b.setParts(m.parts);
    put(b.initAudit(), m.audit);
  }
  void operator()(const LogEntry& m) {
    auto b = message.initLogEntry();
    b.setGroup(m.group);
    b.setRound(m.round);
    b.setSlice(m.slice);
    put(b.initHead(), m.head);
    put(b.initPrevious(), m.previous);
    b.setDivisor(m.divisor);
    put_list(b.initCounted(count(m.counted.size())), m.counted);
    b.setCodec(m.codec);
    b.setPart(m.part);
    b.setParts(m.parts);
  }
  void operator()(const LogPull& m) {
    auto b = message.initLogPull();
    b.setSlice(m.slice);
    put(b.initHead(), m.head);
    put(b.initRoot(), m.root);
    b.setMissing(raw(m.missing));
  }
  void operator()(const SliceState& m) {
    auto b = message.initSliceState();
    b.setSlice(m.slice);
    put(b.initHead(), m.head);
    put_list(b.initTable(count(m.table.size())), m.table);
    put_list(b.initRecent(count(m.recent.size())), m.recent);
    b.setHashes(raw(m.hashes));
    b.setBlock(m.block);
  }
};

// ---- capnp to structs: get(reader) ----
// Lists and texts are cut off one beyond their limit: enough for the range check to refuse them.

PeerId get_words(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  const uint64_t words[4] = {a, b, c, d};
  PeerId id;
  std::memcpy(id.bytes.data(), words, sizeof words);
  return id;
}

PeerId get(wire::Id::Reader r) { return get_words(r.getA(), r.getB(), r.getC(), r.getD()); }

std::string get(capnp::Text::Reader r, size_t bytes_max) {
  return std::string(r.begin(), std::min(r.size(), bytes_max + 1));
}

PeerRecord get(wire::PeerRecord::Reader r) {
  PeerRecord record;
  record.id = get(r.getId());
  record.version = {r.getGeneration(), r.getIncarnation()};
  record.endpoint = {get(r.getHost(), kHostBytesMax), r.getPort()};
  record.meta.role = static_cast<Role>(r.getRole());
  record.meta.phase = static_cast<Phase>(r.getPhase());
  record.meta.round = r.getRound();
  record.meta.steps = r.getSteps();
  record.meta.samples = r.getSamples();
  record.meta.mass = r.getMass();
  record.meta.steps_per_s = r.getStepsPerS();
  record.meta.loss = r.getLoss();
  record.meta.accuracy = r.getAccuracy();
  record.meta.distance = r.getDistance();
  record.meta.name = get(r.getName(), kNameBytesMax);
  return record;
}

Suspicion get(wire::Suspicion::Reader r) {
  return {get(r.getSubject()), {r.getGeneration(), r.getIncarnation()}, get(r.getAccuser())};
}

DigestEntry get(wire::DigestEntry::Reader r) {
  return {get_words(r.getIdA(), r.getIdB(), r.getIdC(), r.getIdD()), {r.getGeneration(), r.getIncarnation()},
          r.getState()};
}

Digest16 get(wire::Digest::Reader r) {
  const uint64_t words[2] = {r.getA(), r.getB()};
  Digest16 digest;
  std::memcpy(digest.data(), words, sizeof words);
  return digest;
}

LogHead get(wire::LogHead::Reader r) { return {r.getLength(), r.getWeight(), get(r.getHash())}; }

template <typename Reader>
PeerId get_peer(Reader r) {
  return get_words(r.getPeerA(), r.getPeerB(), r.getPeerC(), r.getPeerD());
}

CountedPayload get(wire::CountedPayload::Reader r) {
  return {get_peer(r), r.getGeneration(), r.getSeq(), r.getScale(), r.getNorm()};
}

CountedRow get(wire::CountedRow::Reader r) {
  return {get_peer(r), r.getGeneration(), r.getNewest(), r.getWindow(), r.getLength()};
}

RecentEntry get(wire::RecentEntry::Reader r) { return {get(r.getHash()), r.getNorm(), r.getPayloadNorm()}; }

template <typename ListReader>
auto get_list(ListReader list, size_t count_max) {
  std::vector<decltype(get(list[0]))> items;
  const unsigned count = static_cast<unsigned>(std::min<size_t>(list.size(), count_max + 1));
  items.reserve(count);
  for (unsigned i = 0; i < count; ++i) items.push_back(get(list[i]));
  return items;
}

Updates get(wire::Updates::Reader r) {
  return {get_list(r.getAlive(), kGossipUpdatesPerFrameMax), get_list(r.getSuspect(), kGossipUpdatesPerFrameMax),
          get_list(r.getLeft(), kGossipUpdatesPerFrameMax)};
}

ExchangeId get(wire::ExchangeId::Reader r) { return {get(r.getProposer()), r.getGeneration(), r.getCounter()}; }

Bitmap get_bitmap(capnp::Data::Reader r) {
  return Bitmap(r.begin(), r.begin() + std::min(r.size(), kBlocksMax / 8 + 1));
}

// False: a size that no list of hashes can have.
bool get(wire::SliceState::Reader r, SliceState* state) {
  const capnp::Data::Reader hashes = r.getHashes();
  if (hashes.size() % sizeof(Digest16) != 0) return false;
  *state = {r.getSlice(), get(r.getHead()), get_list(r.getTable(), kCountedRowsMax),
            get_list(r.getRecent(), kRecentEntries), {}, r.getBlock()};
  state->hashes.resize(std::min(hashes.size() / sizeof(Digest16), kUpdatePartsMax + 1));
  if (!state->hashes.empty()) {
    std::memcpy(state->hashes.data(), hashes.begin(), state->hashes.size() * sizeof(Digest16));
  }
  return true;
}

// False: sizes that no offer can have.
bool get(wire::ModelOffer::Reader r, ModelOffer* offer) {
  const capnp::Data::Reader root = r.getRoot(), hashes = r.getHashes();
  if (root.size() != offer->root.size() || hashes.size() % 16 != 0) return false;
  offer->snapshot = r.getSnapshot();
  offer->round = r.getRound();
  offer->steps = r.getSteps();
  offer->total_bytes = r.getTotalBytes();
  offer->block_bytes = r.getBlockBytes();
  std::copy(root.begin(), root.end(), offer->root.begin());
  offer->first_hash = r.getFirstHash();
  offer->hashes.resize(std::min(hashes.size() / 16, kTransferHashesPerFrame + 1));
  if (!offer->hashes.empty()) std::memcpy(offer->hashes.data(), hashes.begin(), offer->hashes.size() * 16);
  return true;
}

DecodeStatus get_membership(wire::Frame::Message::Reader r, Message* out) {
  switch (r.which()) {
    case wire::Frame::Message::PING: {
      const auto m = r.getPing();
      *out = Ping{m.getSequence(), get(m.getTarget()), get(m.getUpdates())};
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::PING_ACK:
      *out = PingAck{r.getPingAck().getSequence(), get(r.getPingAck().getUpdates())};
      return DecodeStatus::kOk;
    case wire::Frame::Message::PING_REQUEST: {
      const auto m = r.getPingRequest();
      *out = PingRequest{m.getSequence(), get(m.getTarget()), get(m.getUpdates())};
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::PING_NACK:
      *out = PingNack{r.getPingNack().getSequence()};
      return DecodeStatus::kOk;
    case wire::Frame::Message::GOSSIP:
      *out = Gossip{get(r.getGossip().getUpdates())};
      return DecodeStatus::kOk;
    case wire::Frame::Message::SYNC: {
      const auto m = r.getSync();
      *out = Sync{get_list(m.getDigest(), kMembersMax), get_list(m.getRecords(), kSyncRecordsMax),
                  m.getReplyWanted()};
      return DecodeStatus::kOk;
    }
    default:
      return DecodeStatus::kUnknownMessage;
  }
}

DecodeStatus get_joining(wire::Frame::Message::Reader r, Message* out) {
  switch (r.which()) {
    case wire::Frame::Message::JOIN:
      *out = Join{get(r.getJoin().getRecord()), get(r.getJoin().getSettings(), kSettingsBytesMax)};
      return DecodeStatus::kOk;
    case wire::Frame::Message::JOIN_REPLY: {
      const auto m = r.getJoinReply();
      *out = JoinReply{get(m.getSettings(), kSettingsBytesMax), get_list(m.getMembers(), kSyncRecordsMax)};
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::JOIN_REFUSED: {
      const auto m = r.getJoinRefused();
      *out = JoinRefused{get(m.getReason(), kReasonBytesMax), get(m.getSettings(), kSettingsBytesMax)};
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::MODEL_REQUEST:
      *out = ModelRequest{r.getModelRequest().getFirstHash()};
      return DecodeStatus::kOk;
    case wire::Frame::Message::MODEL_OFFER: {
      ModelOffer offer;
      if (!get(r.getModelOffer(), &offer)) return DecodeStatus::kOutOfRange;
      *out = std::move(offer);
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::MODEL_BLOCK_REQUEST:
      *out = ModelBlockRequest{r.getModelBlockRequest().getSnapshot(), r.getModelBlockRequest().getIndex()};
      return DecodeStatus::kOk;
    case wire::Frame::Message::MODEL_BLOCK:
      *out = ModelBlock{r.getModelBlock().getSnapshot(), r.getModelBlock().getIndex()};
      return DecodeStatus::kOk;
    case wire::Frame::Message::MODEL_GONE:
      *out = ModelGone{r.getModelGone().getSnapshot()};
      return DecodeStatus::kOk;
    default:
      return DecodeStatus::kUnknownMessage;
  }
}

DecodeStatus get_exchange(wire::Frame::Message::Reader r, Message* out) {
  switch (r.which()) {
    case wire::Frame::Message::PROPOSE: {
      const auto m = r.getPropose();
      *out = Propose{get(m.getXid()), m.getOffer(),      m.getMass(),
                     m.getRound(),    m.getDeadlineMs(), m.getCredit()};
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::ACCEPT: {
      const auto m = r.getAccept();
      *out = Accept{get(m.getXid()), m.getOffer(), m.getMass(), m.getRound(), m.getCredit()};
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::BUSY:
      *out = Busy{get(r.getBusy().getXid()), r.getBusy().getFreeInMs()};
      return DecodeStatus::kOk;
    case wire::Frame::Message::BLOCK_PAYLOAD: {
      const auto m = r.getBlockPayload();
      *out = BlockPayload{get(m.getXid()), m.getIndex(), m.getStage()};
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::CREDIT:
      *out = Credit{get(r.getCredit().getXid()), r.getCredit().getCredit()};
      return DecodeStatus::kOk;
    case wire::Frame::Message::HAVE: {
      const auto m = r.getHave();
      *out = Have{get(m.getXid()), get_bitmap(m.getBlocks()), m.getScale()};
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::COMMIT: {
      const auto m = r.getCommit();
      *out = Commit{get(m.getXid()), get_bitmap(m.getBlocks()), m.getScale()};
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::ABORT:
      *out = Abort{get(r.getAbort().getXid())};
      return DecodeStatus::kOk;
    case wire::Frame::Message::COMMIT_ACK:
      *out = CommitAck{get(r.getCommitAck().getXid())};
      return DecodeStatus::kOk;
    case wire::Frame::Message::QUERY:
      *out = Query{get(r.getQuery().getXid())};
      return DecodeStatus::kOk;
    default:
      return DecodeStatus::kUnknownMessage;
  }
}

DecodeStatus get_round(wire::Frame::Message::Reader r, Message* out) {
  switch (r.which()) {
    case wire::Frame::Message::ROUND_BLOCK: {
      const auto m = r.getRoundBlock();
      *out = RoundBlock{m.getGroup(), m.getRound(), m.getPhase(), m.getIndex(), m.getMass(), m.getCounted()};
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::ROUND_CREDIT: {
      const auto m = r.getRoundCredit();
      *out = RoundCredit{m.getGroup(), m.getRound(), m.getPhase(), m.getCredit()};
      return DecodeStatus::kOk;
    }
    default:
      return DecodeStatus::kUnknownMessage;
  }
}

DecodeStatus get_update(wire::Frame::Message::Reader r, Message* out) {
  switch (r.which()) {
    case wire::Frame::Message::CONTRIBUTION: {
      const auto m = r.getContribution();
      *out = Contribution{m.getGroup(), m.getRound(), m.getSlice(), m.getSeq(),   m.getLength(),      get(m.getHead()),
                          m.getMass(),  m.getCodec(), m.getPart(),  m.getParts(), get(m.getAudit())};
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::LOG_ENTRY: {
      const auto m = r.getLogEntry();
      *out = LogEntry{m.getGroup(),    m.getRound(),         m.getSlice(),
                      get(m.getHead()), get(m.getPrevious()), m.getDivisor(),
                      get_list(m.getCounted(), kUpdateMembersMax), m.getCodec(), m.getPart(), m.getParts()};
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::LOG_PULL: {
      const auto m = r.getLogPull();
      *out = LogPull{m.getSlice(), get(m.getHead()), get(m.getRoot()), get_bitmap(m.getMissing())};
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::SLICE_STATE: {
      SliceState state;
      if (!get(r.getSliceState(), &state)) return DecodeStatus::kOutOfRange;
      *out = std::move(state);
      return DecodeStatus::kOk;
    }
    default:
      return DecodeStatus::kUnknownMessage;
  }
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
  capnp::FlatArrayMessageReader reader(
      kj::arrayPtr(reinterpret_cast<const capnp::word*>(begin), word_count), options);
  const wire::Frame::Reader frame = reader.getRoot<wire::Frame>();
  *header = {frame.getSwarm(), get(frame.getSender()), frame.getGeneration(),
             {get(frame.getReplyHost(), kHostBytesMax), frame.getReplyPort()}};
  *seal = {frame.getPayloadBytes(), frame.getPayloadChecksum()};
  DecodeStatus status = get_membership(frame.getMessage(), message);
  if (status == DecodeStatus::kUnknownMessage) status = get_joining(frame.getMessage(), message);
  if (status == DecodeStatus::kUnknownMessage) status = get_exchange(frame.getMessage(), message);
  if (status == DecodeStatus::kUnknownMessage) status = get_round(frame.getMessage(), message);
  if (status == DecodeStatus::kUnknownMessage) status = get_update(frame.getMessage(), message);
  return status;
}

// The envelope: everything that can be judged without capnp.
DecodeStatus check_prefix(std::span<const std::byte> header) {
  if (header.size() < kHeaderBytesMin) return DecodeStatus::kTooShort;
  if (header.size() > kControlFrameBytesMax) return DecodeStatus::kTooLong;
  Prefix prefix;
  std::memcpy(&prefix, header.data(), sizeof prefix);
  if (prefix.magic != kMagic) return DecodeStatus::kBadMagic;
  if (prefix.version != kProtocolVersion) return DecodeStatus::kWrongVersion;
  if (prefix.flags != 0) return DecodeStatus::kMalformed;
  const std::span<const std::byte> flat = header.subspan(sizeof prefix);
  if (xxh3_64(flat) != prefix.checksum) return DecodeStatus::kBadChecksum;
  uint32_t table[2];
  std::memcpy(table, flat.data(), sizeof table);
  const bool one_segment = table[0] == 0 && flat.size() == kSegmentTableBytes + size_t{table[1]} * kWordBytes;
  return one_segment ? DecodeStatus::kOk : DecodeStatus::kMalformed;
}

bool carries_payload(const Message& message) { return channel_of(message) == Channel::kBulk; }

std::vector<std::byte> seal_flat(kj::ArrayPtr<const capnp::word> segment) {
  const uint32_t table[2] = {0, static_cast<uint32_t>(segment.size())};
  std::vector<std::byte> bytes(sizeof(Prefix) + sizeof table + segment.asBytes().size());
  std::memcpy(bytes.data() + sizeof(Prefix), table, sizeof table);
  std::memcpy(bytes.data() + sizeof(Prefix) + sizeof table, segment.begin(), segment.asBytes().size());
  const Prefix prefix{kMagic, kProtocolVersion, 0, xxh3_64(std::span(bytes).subspan(sizeof prefix))};
  std::memcpy(bytes.data(), &prefix, sizeof prefix);
  return bytes;
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
  const bool bulk = message_is<ModelBlock, BlockPayload, RoundBlock, Contribution, LogEntry, SliceState>(message);
  return bulk ? Channel::kBulk : Channel::kControl;
}

std::vector<std::byte> encode_frame_header(const FrameHeader& header, const Message& message,
                                           std::span<const std::byte> payload,
                                           std::optional<uint64_t> payload_checksum) {
  STARLING_CHECK(carries_payload(message) == !payload.empty());
  STARLING_CHECK(payload.size() <= kPayloadBytesMax);
  capnp::word scratch[kFirstSegmentWords] = {};
  capnp::MallocMessageBuilder builder(kj::arrayPtr(scratch, kFirstSegmentWords));
  wire::Frame::Builder frame = builder.initRoot<wire::Frame>();
  frame.setSwarm(header.swarm);
  put(frame.initSender(), header.sender);
  frame.setGeneration(header.generation);
  frame.setReplyHost(text(header.reply_to.host));
  frame.setReplyPort(header.reply_to.port);
  frame.setPayloadBytes(static_cast<uint32_t>(payload.size()));
  frame.setPayloadChecksum(payload.empty() ? 0 : payload_checksum ? *payload_checksum : xxh3_64(payload));
  visit_kind(Put{frame.getMessage()}, message);
  if (builder.getSegmentsForOutput().size() == 1) return seal_flat(builder.getSegmentsForOutput()[0]);
  const size_t words = frame.asReader().totalSize().wordCount + 1;  // and the pointer to the root
  capnp::MallocMessageBuilder whole(static_cast<unsigned>(words));
  whole.setRoot(frame.asReader());
  STARLING_CHECK(whole.getSegmentsForOutput().size() == 1);
  return seal_flat(whole.getSegmentsForOutput()[0]);
}

DecodeStatus decode_frame(Channel channel, std::span<const std::byte> header, std::span<const std::byte> payload,
                          FrameHeader* header_out, Message* message_out) {
  if (payload.size() > kPayloadBytesMax) return DecodeStatus::kTooLong;
  FrameHeader decoded;
  PayloadSeal seal;
  Message message;
  try {
    DecodeStatus status = check_prefix(header);
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
  const uint64_t checksum = payload.empty() ? 0 : xxh3_64(payload);
  if (checksum != seal.checksum) return DecodeStatus::kPayloadMismatch;
  *header_out = std::move(decoded);
  *message_out = std::move(message);
  return DecodeStatus::kOk;
}

}  // namespace starling
