#include <capnp/serialize-packed.h>
#include <kj/io.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gossip/net/wire_convert.h"
#include "kernels/check.h"

namespace starling {
namespace {

void put(wire::Id::Builder b, const PeerId& id) { put_id(b, id); }

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
  b.setHost(text_of(record.endpoint.host));
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
  b.setName(text_of(meta.name));
  b.setVersion(meta.program);
  b.setDone(meta.done);
  b.setFailed(meta.failed);
  b.setStopAfter(meta.stop_after);
  b.setTestLoss(finite_or(meta.test_loss, -1));
  b.setHeldOut(meta.held_out);
  b.setClassesHash(meta.classes_hash);
  b.setPause(static_cast<uint8_t>(meta.pause));
  b.setLabelsHash(meta.labels_hash);
  b.setUnsaved(meta.unsaved);
  const bool finite =
      std::all_of(meta.projection.begin(), meta.projection.end(), [](float value) { return std::isfinite(value); });
  if (!finite || meta.projection.empty()) return;
  auto projection = b.initProjection(static_cast<unsigned>(meta.projection.size()));
  for (unsigned i = 0; i < projection.size(); ++i) projection.set(i, meta.projection[i]);
}

// A record that its owner signed goes as it is, in a list of its own.
bool is_sealed(const PeerRecord& record) { return !record.sealed.empty(); }

unsigned count_sealed(const std::vector<PeerRecord>& records) {
  return static_cast<unsigned>(std::count_if(records.begin(), records.end(), is_sealed));
}

unsigned count_plain(const std::vector<PeerRecord>& records) {
  return static_cast<unsigned>(records.size()) - count_sealed(records);
}

void put_plain(capnp::List<wire::PeerRecord>::Builder list, const std::vector<PeerRecord>& records) {
  unsigned at = 0;
  for (const PeerRecord& record : records) {
    if (!is_sealed(record)) put(list[at++], record);
  }
}

// From place `at` on; the value is the place behind.
unsigned put_sealed(capnp::List<capnp::Data>::Builder list, const std::vector<PeerRecord>& records, unsigned at = 0) {
  for (const PeerRecord& record : records) {
    if (is_sealed(record)) list.set(at++, raw(record.sealed));
  }
  return at;
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
  b.setFar(row.far);
  b.setBeforeFar(row.before_far);
  b.setBeforeWindow(row.before_window);
}

void put(wire::RecentEntry::Builder b, const RecentEntry& entry) {
  put(b.initHash(), entry.hash);
  b.setNorm(entry.norm);
  b.setPayloadNorm(entry.payload_norm);
}

void put(wire::Contribution::Builder b, const Contribution& m);
void put(wire::LogEntry::Builder b, const LogEntry& m);

template <typename ListBuilder, typename T>
void put_list(ListBuilder list, const std::vector<T>& items) {
  for (unsigned i = 0; i < items.size(); ++i) put(list[i], items[i]);
}

unsigned count(size_t n) { return static_cast<unsigned>(n); }

void put(wire::Contribution::Builder b, const Contribution& m) {
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

void put(wire::LogEntry::Builder b, const LogEntry& m) {
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
  if (!m.plan.empty()) b.setPlan(raw(m.plan));
}

void put(wire::Updates::Builder b, const Updates& updates) {
  const unsigned alive = count_plain(updates.alive), left = count_plain(updates.left);
  if (alive > 0) put_plain(b.initAlive(alive), updates.alive);
  if (!updates.suspect.empty()) put_list(b.initSuspect(count(updates.suspect.size())), updates.suspect);
  if (left > 0) put_plain(b.initLeft(left), updates.left);
  const unsigned sealed = count_sealed(updates.alive) + count_sealed(updates.left);
  if (sealed == 0) return;
  auto list = b.initSigned(sealed);
  put_sealed(list, updates.left, put_sealed(list, updates.alive));
}

void put(wire::ExchangeId::Builder b, const ExchangeId& xid) {
  put(b.initProposer(), xid.proposer);
  b.setGeneration(xid.generation);
  b.setCounter(xid.counter);
}

void put(wire::PingAck::Builder b, const PingAck& ack) {
  b.setSequence(ack.sequence);
  put(b.initUpdates(), ack.updates);
  if (!ack.proof.empty()) b.setProof(raw(ack.proof));
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
    if (m.unix_s == 0) return put(message.initPingAck(), m);
    auto b = message.initTimedPingAck();
    put(b.initAck(), m);
    b.setUnixS(m.unix_s);
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
    put_plain(b.initRecords(count_plain(m.records)), m.records);
    if (const unsigned sealed = count_sealed(m.records)) put_sealed(b.initSigned(sealed), m.records);
    b.setReplyWanted(m.reply_wanted);
    b.setNonce(m.nonce);
    b.setPage(m.page);
    b.setPages(m.pages);
    b.setRevoked(m.revoked);
  }
  void operator()(const Revoked& m) { message.initRevoked().setEntries(raw(m.entries)); }
  void operator()(const Join& m) {
    auto b = message.initJoin();
    put(b.initRecord(), m.record);
    b.setSettings(text_of(m.settings));
    b.setNonce(m.nonce);
    b.setCookie(m.cookie);
    b.setRevision(m.revision);
    b.setReads(m.reads);
    if (is_sealed(m.record)) b.setSigned(raw(m.record.sealed));
    if (!m.signature.empty()) b.setSignature(raw(m.signature));
  }
  void operator()(const JoinCookie& m) {
    auto b = message.initJoinCookie();
    b.setCookie(m.cookie);
    b.setNonce(m.nonce);
  }
  void operator()(const JoinReply& m) {
    auto b = message.initJoinReply();
    b.setSettings(text_of(m.settings));
    put_plain(b.initMembers(count_plain(m.members)), m.members);
    if (const unsigned sealed = count_sealed(m.members)) put_sealed(b.initSigned(sealed), m.members);
    b.setNote(text_of(m.note));
    b.setNonce(m.nonce);
    if (!m.signature.empty()) b.setSignature(raw(m.signature));
  }
  void operator()(const JoinRefused& m) {
    auto b = message.initJoinRefused();
    b.setReason(text_of(m.reason));
    b.setSettings(text_of(m.settings));
    b.setNonce(m.nonce);
    if (!m.held) return;
    put(b.initHeld(), *m.held);
    if (is_sealed(*m.held)) b.setSigned(raw(m.held->sealed));
  }
  void operator()(const ModelRequest& m) {
    auto b = message.initModelRequest();
    b.setFirstHash(m.first_hash);
    b.setCookie(m.cookie);
    b.setNonce(m.nonce);
  }
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
    b.setNonce(m.nonce);
  }
  void operator()(const ModelBlockRequest& m) {
    auto b = message.initModelBlockRequest();
    b.setSnapshot(m.snapshot);
    b.setIndex(m.index);
    b.setCookie(m.cookie);
    b.setNonce(m.nonce);
  }
  void operator()(const ModelBlock& m) {
    auto b = message.initModelBlock();
    b.setSnapshot(m.snapshot);
    b.setIndex(m.index);
    b.setNonce(m.nonce);
  }
  void operator()(const ModelGone& m) {
    auto b = message.initModelGone();
    b.setSnapshot(m.snapshot);
    b.setNonce(m.nonce);
  }
  void operator()(const Propose& m) {
    auto b = message.initPropose();
    put(b.initXid(), m.xid);
    b.setOffer(m.offer);
    b.setMass(m.mass);
    b.setRound(m.round);
    b.setDeadlineMs(m.deadline_ms);
    b.setCredit(m.credit);
    b.setPayload(m.payload);
    b.setFragment(m.fragment);
    b.setSlot(m.slot);
    b.setStepsUs(m.steps_us);
    b.setBlocksFirst(m.blocks_first);
  }
  void operator()(const Accept& m) {
    auto b = message.initAccept();
    put(b.initXid(), m.xid);
    b.setOffer(m.offer);
    b.setMass(m.mass);
    b.setRound(m.round);
    b.setCredit(m.credit);
    b.setPayload(m.payload);
    b.setSlot(m.slot);
    b.setStepsUs(m.steps_us);
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
  void operator()(const Missing& m) {
    auto b = message.initMissing();
    put(b.initXid(), m.xid);
    b.setBlocks(raw(m.blocks));
  }
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
  void operator()(const Contribution& m) { put(message.initContribution(), m); }
  void operator()(const LogEntry& m) { put(message.initLogEntry(), m); }
  void operator()(const UpdateBundle& m) {
    auto b = message.initUpdateBundle();
    put_list(b.initContributions(count(m.contributions.size())), m.contributions);
    put_list(b.initEntries(count(m.entries.size())), m.entries);
    auto sizes = b.initSizes(count(m.sizes.size()));
    for (uint32_t i = 0; i < m.sizes.size(); ++i) sizes.set(i, m.sizes[i]);
  }
  void operator()(const SketchTable& m) {
    auto b = message.initSketchTable();
    b.setGroup(m.group);
    b.setRound(m.round);
    b.setSlice(m.slice);
    b.setMass(m.mass);
    b.setPart(m.part);
    b.setParts(m.parts);
  }
  void operator()(const SketchRequest& m) {
    auto b = message.initSketchRequest();
    b.setGroup(m.group);
    b.setRound(m.round);
    b.setSlice(m.slice);
    b.setPart(m.part);
    b.setParts(m.parts);
  }
  void operator()(const LogPull& m) {
    auto b = message.initLogPull();
    b.setSlice(m.slice);
    put(b.initHead(), m.head);
    put(b.initRoot(), m.root);
    b.setMissing(raw(m.missing));
    b.setGroup(m.group);
    b.setRound(m.round);
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

}  // namespace

std::string pack_record(const PeerRecord& record) {
  capnp::MallocMessageBuilder builder(kRecordBytesMax / sizeof(capnp::word));
  wire::PeerRecord::Builder root = builder.initRoot<wire::PeerRecord>();
  put(root, record);
  root.setFarewell(record.farewell);
  STARLING_CHECK(builder.getSegmentsForOutput().size() == 1);
  kj::VectorOutputStream packed;
  capnp::writePackedMessage(packed, builder);
  const auto bytes = packed.getArray();
  return {reinterpret_cast<const char*>(bytes.begin()), bytes.size()};
}

void put_id(wire::Id::Builder b, const PeerId& id) {
  uint64_t words[4];
  std::memcpy(words, id.bytes.data(), sizeof words);
  b.setA(words[0]);
  b.setB(words[1]);
  b.setC(words[2]);
  b.setD(words[3]);
}

capnp::Text::Reader text_of(const std::string& text) { return capnp::Text::Reader(text.c_str(), text.size()); }

void put_message(wire::Frame::Message::Builder builder, const Message& message) { visit_kind(Put{builder}, message); }

}  // namespace starling
