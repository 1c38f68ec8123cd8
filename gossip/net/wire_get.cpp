#include <capnp/serialize-packed.h>
#include <kj/io.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "gossip/limits.h"
#include "gossip/net/wire_convert.h"
#include "kernels/projection.h"

namespace starling {
namespace {

PeerId get_words(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  const uint64_t words[4] = {a, b, c, d};
  PeerId id;
  std::memcpy(id.bytes.data(), words, sizeof words);
  return id;
}

PeerId get(wire::Id::Reader r) { return get_words(r.getA(), r.getB(), r.getC(), r.getD()); }

std::string get(capnp::Text::Reader r, size_t bytes_max) { return get_text(r, bytes_max); }

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
  record.meta.program = r.getVersion();
  record.meta.done = r.getDone();
  record.meta.failed = r.getFailed();
  record.meta.stop_after = r.getStopAfter();
  record.meta.test_loss = r.getTestLoss();
  record.meta.held_out = r.getHeldOut();
  record.meta.classes_hash = r.getClassesHash();
  const uint8_t pause = r.getPause();
  record.meta.pause = pause > static_cast<uint8_t>(Pause::kHoldsFinal) ? Pause::kPaused : static_cast<Pause>(pause);
  record.meta.labels_hash = r.getLabelsHash();
  record.meta.unsaved = r.getUnsaved();
  const auto projection = r.getProjection();
  for (unsigned i = 0; i < projection.size() && i <= kProjectionBuckets; ++i) {
    record.meta.projection.push_back(projection[i]);
  }
  return record;
}

// The limit holds before anything is allocated. A record of no id, which is refused: bytes of a size that none has.
PeerRecord get_sealed(capnp::Data::Reader sealed) {
  if (sealed.size() <= kProofBytes || sealed.size() > kSealedBytesMax) return {};
  PeerRecord record;
  {
    kj::ArrayInputStream packed(sealed.slice(kProofBytes, sealed.size()));
    capnp::ReaderOptions options;
    options.traversalLimitInWords = kRecordBytesMax / sizeof(capnp::word);
    // Its destructor reads the rest, and throws where that is damaged; clang 14 leaks a value that is returned then.
    capnp::PackedMessageReader message(packed, options);
    const wire::PeerRecord::Reader root = message.getRoot<wire::PeerRecord>();
    record = get(root);
    record.farewell = root.getFarewell();
  }
  record.sealed.assign(sealed.begin(), sealed.end());
  return record;
}

// Behind those that are there.
void add_sealed(capnp::List<capnp::Data>::Reader list, size_t count_max, std::vector<PeerRecord>& records) {
  const unsigned count = static_cast<unsigned>(std::min<size_t>(list.size(), count_max + 1));
  for (unsigned i = 0; i < count; ++i) records.push_back(get_sealed(list[i]));
}

// Cut off one beyond the size that a signature has.
std::string get_signature(capnp::Data::Reader r) {
  return std::string(r.begin(), r.begin() + std::min(r.size(), kProofBytes + 1));
}

Suspicion get(wire::Suspicion::Reader r) {
  return {get(r.getSubject()), {r.getGeneration(), r.getIncarnation()}, get(r.getAccuser())};
}

DigestEntry get(wire::DigestEntry::Reader r) {
  return {
      get_words(r.getIdA(), r.getIdB(), r.getIdC(), r.getIdD()), {r.getGeneration(), r.getIncarnation()}, r.getState()};
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
  return {get_peer(r),   r.getGeneration(), r.getNewest(),    r.getWindow(),
          r.getLength(), r.getFar(),        r.getBeforeFar(), r.getBeforeWindow()};
}

Contribution get(wire::Contribution::Reader r) {
  return {r.getGroup(), r.getRound(), r.getSlice(), r.getSeq(),   r.getLength(),    get(r.getHead()),
          r.getMass(),  r.getCodec(), r.getPart(),  r.getParts(), get(r.getAudit())};
}

RecentEntry get(wire::RecentEntry::Reader r) { return {get(r.getHash()), r.getNorm(), r.getPayloadNorm()}; }

uint32_t get(uint32_t number) { return number; }
LogEntry get(wire::LogEntry::Reader r);

template <typename ListReader>
auto get_list(ListReader list, size_t count_max) {
  std::vector<decltype(get(list[0]))> items;
  const unsigned count = static_cast<unsigned>(std::min<size_t>(list.size(), count_max + 1));
  items.reserve(count);
  for (unsigned i = 0; i < count; ++i) items.push_back(get(list[i]));
  return items;
}

LogEntry get(wire::LogEntry::Reader r) {
  const capnp::Data::Reader plan = r.getPlan();
  return {r.getGroup(),
          r.getRound(),
          r.getSlice(),
          get(r.getHead()),
          get(r.getPrevious()),
          r.getDivisor(),
          get_list(r.getCounted(), kUpdateMembersMax),
          r.getCodec(),
          r.getPart(),
          r.getParts(),
          {plan.begin(), plan.begin() + std::min(plan.size(), kUpdatePlanBytesMax + 1)}};
}

UpdateBundle get(wire::UpdateBundle::Reader r) {
  return {get_list(r.getContributions(), kUpdateSlicesMax), get_list(r.getEntries(), kUpdateSlicesMax),
          get_list(r.getSizes(), kUpdateSlicesMax)};
}

Updates get(wire::Updates::Reader r) {
  Updates updates{get_list(r.getAlive(), kGossipUpdatesPerFrameMax),
                  get_list(r.getSuspect(), kGossipUpdatesPerFrameMax),
                  get_list(r.getLeft(), kGossipUpdatesPerFrameMax)};
  std::vector<PeerRecord> sealed;
  add_sealed(r.getSigned(), kGossipUpdatesPerFrameMax, sealed);
  for (PeerRecord& record : sealed) (record.farewell ? updates.left : updates.alive).push_back(std::move(record));
  return updates;
}

ExchangeId get(wire::ExchangeId::Reader r) { return {get(r.getProposer()), r.getGeneration(), r.getCounter()}; }

Bitmap get_bitmap(capnp::Data::Reader r) {
  return Bitmap(r.begin(), r.begin() + std::min(r.size(), kBlocksMax / 8 + 1));
}

// False: a size that no list of hashes can have.
bool get(wire::SliceState::Reader r, SliceState* state) {
  const capnp::Data::Reader hashes = r.getHashes();
  if (hashes.size() % sizeof(Digest16) != 0) return false;
  *state = {
      r.getSlice(), get(r.getHead()), get_list(r.getTable(), kCountedRowsMax), get_list(r.getRecent(), kRecentEntries),
      {},           r.getBlock()};
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
  offer->nonce = r.getNonce();
  return true;
}

PingAck get(wire::PingAck::Reader r, uint64_t unix_s) {
  const capnp::Data::Reader proof = r.getProof();
  const size_t kept = std::min(proof.size(), kProofBytes + 1);
  return {r.getSequence(), get(r.getUpdates()), std::vector<uint8_t>(proof.begin(), proof.begin() + kept), unix_s};
}

DecodeStatus get_membership(wire::Frame::Message::Reader r, Message* out) {
  switch (r.which()) {
    case wire::Frame::Message::PING: {
      const auto m = r.getPing();
      *out = Ping{m.getSequence(), get(m.getTarget()), get(m.getUpdates())};
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::PING_ACK: *out = get(r.getPingAck(), 0); return DecodeStatus::kOk;
    case wire::Frame::Message::TIMED_PING_ACK:
      *out = get(r.getTimedPingAck().getAck(), r.getTimedPingAck().getUnixS());
      return DecodeStatus::kOk;
    case wire::Frame::Message::PING_REQUEST: {
      const auto m = r.getPingRequest();
      *out = PingRequest{m.getSequence(), get(m.getTarget()), get(m.getUpdates())};
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::PING_NACK: *out = PingNack{r.getPingNack().getSequence()}; return DecodeStatus::kOk;
    case wire::Frame::Message::GOSSIP: *out = Gossip{get(r.getGossip().getUpdates())}; return DecodeStatus::kOk;
    case wire::Frame::Message::SYNC: {
      const auto m = r.getSync();
      Sync sync{get_list(m.getDigest(), kMembersMax),
                get_list(m.getRecords(), kSyncRecordsMax),
                m.getReplyWanted(),
                m.getNonce(),
                m.getPage(),
                m.getPages(),
                m.getRevoked()};
      add_sealed(m.getSigned(), kSyncRecordsMax, sync.records);
      *out = std::move(sync);
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::REVOKED: {
      const capnp::Data::Reader entries = r.getRevoked().getEntries();
      *out = Revoked{std::string(entries.begin(), entries.end())};
      return DecodeStatus::kOk;
    }
    default: return DecodeStatus::kUnknownMessage;
  }
}

DecodeStatus get_joining(wire::Frame::Message::Reader r, Message* out) {
  switch (r.which()) {
    case wire::Frame::Message::JOIN: {
      const auto m = r.getJoin();
      *out = Join{m.hasSigned() ? get_sealed(m.getSigned()) : get(m.getRecord()),
                  get(m.getSettings(), kSettingsBytesMax),
                  m.getNonce(),
                  m.getCookie(),
                  m.getRevision(),
                  m.getReads(),
                  get_signature(m.getSignature())};
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::JOIN_COOKIE:
      *out = JoinCookie{r.getJoinCookie().getCookie(), r.getJoinCookie().getNonce()};
      return DecodeStatus::kOk;
    case wire::Frame::Message::JOIN_REPLY: {
      const auto m = r.getJoinReply();
      JoinReply reply{get(m.getSettings(), kSettingsBytesMax), get_list(m.getMembers(), kSyncRecordsMax),
                      get(m.getNote(), kReasonBytesMax), m.getNonce(), get_signature(m.getSignature())};
      add_sealed(m.getSigned(), kSyncRecordsMax, reply.members);
      *out = std::move(reply);
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::JOIN_REFUSED: {
      const auto m = r.getJoinRefused();
      JoinRefused refused{get(m.getReason(), kReasonBytesMax), get(m.getSettings(), kSettingsBytesMax), m.getNonce()};
      if (m.hasHeld()) refused.held = get(m.getHeld());
      if (m.hasSigned()) refused.held = get_sealed(m.getSigned());
      *out = std::move(refused);
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::MODEL_REQUEST:
      *out = ModelRequest{r.getModelRequest().getFirstHash(), r.getModelRequest().getCookie(),
                          r.getModelRequest().getNonce()};
      return DecodeStatus::kOk;
    case wire::Frame::Message::MODEL_OFFER: {
      ModelOffer offer;
      if (!get(r.getModelOffer(), &offer)) return DecodeStatus::kOutOfRange;
      *out = std::move(offer);
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::MODEL_BLOCK_REQUEST:
      *out = ModelBlockRequest{r.getModelBlockRequest().getSnapshot(), r.getModelBlockRequest().getIndex(),
                               r.getModelBlockRequest().getCookie(), r.getModelBlockRequest().getNonce()};
      return DecodeStatus::kOk;
    case wire::Frame::Message::MODEL_BLOCK:
      *out = ModelBlock{r.getModelBlock().getSnapshot(), r.getModelBlock().getIndex(), r.getModelBlock().getNonce()};
      return DecodeStatus::kOk;
    case wire::Frame::Message::MODEL_GONE:
      *out = ModelGone{r.getModelGone().getSnapshot(), r.getModelGone().getNonce()};
      return DecodeStatus::kOk;
    default: return DecodeStatus::kUnknownMessage;
  }
}

DecodeStatus get_exchange(wire::Frame::Message::Reader r, Message* out) {
  switch (r.which()) {
    case wire::Frame::Message::PROPOSE: {
      const auto m = r.getPropose();
      *out = Propose{get(m.getXid()), m.getOffer(),    m.getMass(), m.getRound(),   m.getDeadlineMs(), m.getCredit(),
                     m.getPayload(),  m.getFragment(), m.getSlot(), m.getStepsUs(), m.getBlocksFirst()};
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::ACCEPT: {
      const auto m = r.getAccept();
      *out = Accept{get(m.getXid()), m.getOffer(),   m.getMass(), m.getRound(),
                    m.getCredit(),   m.getPayload(), m.getSlot(), m.getStepsUs()};
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
    case wire::Frame::Message::ABORT: *out = Abort{get(r.getAbort().getXid())}; return DecodeStatus::kOk;
    case wire::Frame::Message::COMMIT_ACK: *out = CommitAck{get(r.getCommitAck().getXid())}; return DecodeStatus::kOk;
    case wire::Frame::Message::QUERY: *out = Query{get(r.getQuery().getXid())}; return DecodeStatus::kOk;
    case wire::Frame::Message::MISSING:
      *out = Missing{get(r.getMissing().getXid()), get_bitmap(r.getMissing().getBlocks())};
      return DecodeStatus::kOk;
    default: return DecodeStatus::kUnknownMessage;
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
    default: return DecodeStatus::kUnknownMessage;
  }
}

DecodeStatus get_update(wire::Frame::Message::Reader r, Message* out) {
  switch (r.which()) {
    case wire::Frame::Message::CONTRIBUTION: *out = get(r.getContribution()); return DecodeStatus::kOk;
    case wire::Frame::Message::LOG_ENTRY: *out = get(r.getLogEntry()); return DecodeStatus::kOk;
    case wire::Frame::Message::UPDATE_BUNDLE: *out = get(r.getUpdateBundle()); return DecodeStatus::kOk;
    case wire::Frame::Message::LOG_PULL: {
      const auto m = r.getLogPull();
      *out = LogPull{m.getSlice(), get(m.getHead()), get(m.getRoot()), get_bitmap(m.getMissing()),
                     m.getGroup(), m.getRound()};
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::SLICE_STATE: {
      SliceState state;
      if (!get(r.getSliceState(), &state)) return DecodeStatus::kOutOfRange;
      *out = std::move(state);
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::SKETCH_TABLE: {
      const auto m = r.getSketchTable();
      *out = SketchTable{m.getGroup(), m.getRound(), m.getSlice(), m.getMass(), m.getPart(), m.getParts()};
      return DecodeStatus::kOk;
    }
    case wire::Frame::Message::SKETCH_REQUEST: {
      const auto m = r.getSketchRequest();
      *out = SketchRequest{m.getGroup(), m.getRound(), m.getSlice(), m.getPart(), m.getParts()};
      return DecodeStatus::kOk;
    }
    default: return DecodeStatus::kUnknownMessage;
  }
}

}  // namespace

PeerId get_id(wire::Id::Reader reader) { return get(reader); }

std::string get_text(capnp::Text::Reader reader, size_t bytes_max) {
  return std::string(reader.begin(), std::min(reader.size(), bytes_max + 1));
}

DecodeStatus get_message(wire::Frame::Message::Reader reader, Message* out) {
  for (const auto get_family : {get_membership, get_joining, get_exchange, get_round, get_update}) {
    const DecodeStatus status = get_family(reader, out);
    if (status != DecodeStatus::kUnknownMessage) return status;
  }
  return DecodeStatus::kUnknownMessage;
}

}  // namespace starling
