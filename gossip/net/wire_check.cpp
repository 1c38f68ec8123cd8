#include "gossip/net/wire_check.h"

#include <algorithm>
#include <cmath>

#include "compression/update_codec.h"
#include "gossip/limits.h"
#include "gossip/net/revocations.h"
#include "gossip/net/text.h"
#include "kernels/projection.h"

namespace starling {
namespace {

constexpr uint8_t kMemberStateMax = 3;  // MemberState::kLeft; that header lies above this room

bool good(const Endpoint& endpoint) { return endpoint.port != 0 && Endpoint::is_valid_host(endpoint.host); }

bool good_mass(double mass) { return mass >= kMassMin && mass <= kMassMax; }  // false for NaN
bool good_offer(double offer) { return offer == 1 || offer == 0.5 || offer == 0.25; }
bool good_scale(double scale) { return scale >= 0 && scale <= 1; }

bool good(const MemberMeta& meta) {
  if (meta.role > Role::kBootstrap || meta.phase > Phase::kSick) return false;
  if (!good_mass(meta.mass)) return false;
  if (!std::isfinite(meta.steps_per_s) || meta.steps_per_s < 0 || !std::isfinite(meta.loss)) return false;
  if (!std::isfinite(meta.accuracy) || meta.accuracy > 1 || !std::isfinite(meta.distance)) return false;
  if (!std::isfinite(meta.test_loss)) return false;
  if (!meta.projection.empty() && meta.projection.size() != kProjectionBuckets) return false;
  for (const float value : meta.projection) {
    if (!std::isfinite(value)) return false;
  }
  return meta.name.size() <= kNameBytesMax && is_one_line(meta.name);
}

bool good(const PeerRecord& record) { return !record.id.is_zero() && good(record.endpoint) && good(record.meta); }

bool good(const std::vector<PeerRecord>& records) {
  for (const PeerRecord& record : records) {
    if (!good(record)) return false;
  }
  return true;
}

bool good(const Updates& updates) {
  const size_t count = updates.alive.size() + updates.suspect.size() + updates.left.size();
  if (count > kGossipUpdatesPerFrameMax) return false;
  for (const Suspicion& suspicion : updates.suspect) {
    if (suspicion.subject.is_zero() || suspicion.accuser.is_zero()) return false;
  }
  return good(updates.alive) && good(updates.left);
}

bool good_reason(const std::string& reason) { return reason.size() <= kReasonBytesMax && is_plain_text(reason); }

bool good_settings(const std::string& settings) {
  return settings.size() <= kSettingsBytesMax && is_plain_text(settings);
}

bool good_signature(const std::string& signature) { return signature.empty() || signature.size() == kProofBytes; }

bool good(const ExchangeId& xid) { return !xid.proposer.is_zero(); }

bool good(const Bitmap& bitmap) { return bitmap.size() <= kBlocksMax / 8; }

// ---- the log of updates ----

bool is_zero(const Digest16& digest) {
  return std::all_of(digest.begin(), digest.end(), [](uint8_t byte) { return byte == 0; });
}

bool good(const LogHead& head) {
  return head.length < kLogLengthEnd && head.weight >= head.length && head.weight <= kUpdateMembersMax * head.length &&
         is_zero(head.hash) == (head.length == 0);
}

bool good_norm(float norm) { return std::isfinite(norm) && norm >= 0; }
bool good_part(uint32_t part, uint32_t parts) { return part < parts && parts <= kUpdatePartsMax; }
bool good_codec(uint8_t codec) { return update_kind(codec).has_value(); }

template <typename Row>
bool good_peers(const std::vector<Row>& rows, size_t count_max) {
  if (rows.empty() || rows.size() > count_max || rows[0].peer.is_zero()) return false;
  return std::adjacent_find(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return b.peer <= a.peer; }) ==
         rows.end();
}

bool good(const CountedPayload& counted) {
  return counted.seq > 0 && counted.scale > 0 && counted.scale <= 1 && good_norm(counted.norm);
}

// The window's bits stand for seqs from 1 on.
bool good_window(uint64_t newest, uint64_t window) {
  return newest > 64 || (newest == 0 ? window == 0 : window >> (newest - 1) == 0);
}

bool good(const CountedRow& row, const LogHead& head) {
  const bool far = row.far == 0 ? row.before_far == 0 : row.before_far < row.far && row.far <= row.newest;
  return row.newest > 0 && good_window(row.newest, row.window) && far &&
         good_window(row.before_far, row.before_window) && row.length > 0 && row.length <= head.length;
}

bool good(const RecentEntry& entry) {
  return !is_zero(entry.hash) && good_norm(entry.norm) && good_norm(entry.payload_norm);
}

struct Check {
  const PeerId& sender;

  bool operator()(const Ping& m) const { return good(m.updates); }
  bool operator()(const PingAck& m) const {
    return good(m.updates) && (m.proof.empty() || m.proof.size() == kProofBytes);
  }
  bool operator()(const PingRequest& m) const { return !m.target.is_zero() && good(m.updates); }
  bool operator()(const PingNack&) const { return true; }
  bool operator()(const Gossip& m) const { return good(m.updates); }
  bool operator()(const Sync& m) const {
    if (m.digest.size() > kMembersMax || m.records.size() > kSyncRecordsMax) return false;
    for (const DigestEntry& entry : m.digest) {
      if (entry.id.is_zero() || entry.state > kMemberStateMax) return false;
    }
    if (m.nonce == 0 ? m.page != 0 || m.pages != 0 : m.page >= m.pages || m.pages > kViewPagesMax) return false;
    return good(m.records);
  }
  bool operator()(const Revoked& m) const {
    const size_t size = m.entries.size();
    return size > 0 && size % kRevocationBytes == 0 && size <= kRevocationsMax * kRevocationBytes;
  }

  bool operator()(const Join& m) const {
    return good(m.record) && m.record.id == sender && good_settings(m.settings) && (m.reads == 0 || m.nonce != 0) &&
           good_signature(m.signature);
  }
  bool operator()(const JoinCookie& m) const { return m.cookie != 0; }
  bool operator()(const JoinReply& m) const {
    return good_settings(m.settings) && m.members.size() <= kSyncRecordsMax && good(m.members) && good_reason(m.note) &&
           good_signature(m.signature);
  }
  bool operator()(const JoinRefused& m) const {
    return good_reason(m.reason) && good_settings(m.settings) && (!m.held || good(*m.held));
  }
  bool operator()(const ModelRequest& m) const { return m.first_hash < kTransferBlocksMax; }
  bool operator()(const ModelOffer& m) const {
    if (m.hashes.size() > kTransferHashesPerFrame) return false;
    if (m.total_bytes == 0) return m.hashes.empty();
    if (m.block_bytes == 0 || m.block_bytes > kPayloadBytesMax) return false;
    const uint64_t blocks = m.total_bytes / m.block_bytes + (m.total_bytes % m.block_bytes != 0);
    return blocks <= kTransferBlocksMax && m.first_hash + uint64_t{m.hashes.size()} <= blocks;
  }
  bool operator()(const ModelBlockRequest& m) const { return m.index < kTransferBlocksMax; }
  bool operator()(const ModelBlock& m) const { return m.index < kTransferBlocksMax; }
  bool operator()(const ModelGone&) const { return true; }

  bool operator()(const Propose& m) const {
    return good(m.xid) && m.xid.proposer == sender && good_offer(m.offer) && good_mass(m.mass) && m.deadline_ms >= 1 &&
           m.deadline_ms <= kExchangeDeadlineMsMax && m.credit <= kBlocksMax && m.fragment < kBlocksMax;
  }
  bool operator()(const Accept& m) const {
    return good(m.xid) && good_offer(m.offer) && good_mass(m.mass) && m.credit <= kBlocksMax;
  }
  bool operator()(const Busy& m) const { return good(m.xid); }
  bool operator()(const BlockPayload& m) const { return good(m.xid) && m.index < kBlocksMax && m.stage <= kStageMax; }
  bool operator()(const Credit& m) const { return good(m.xid) && m.credit <= kBlocksMax; }
  bool operator()(const Have& m) const { return good(m.xid) && good(m.blocks) && good_scale(m.scale); }
  bool operator()(const Commit& m) const {
    return good(m.xid) && m.xid.proposer == sender && good(m.blocks) && good_scale(m.scale);
  }
  bool operator()(const Abort& m) const { return good(m.xid); }
  bool operator()(const CommitAck& m) const { return good(m.xid); }
  bool operator()(const Query& m) const { return good(m.xid); }
  bool operator()(const Missing& m) const { return good(m.xid) && good(m.blocks); }
  bool operator()(const RoundBlock& m) const {
    const bool average = m.phase == 1 && m.group != 0 && m.counted != 0;
    return (average || (m.phase == 0 && m.counted == 0)) && m.index < kBlocksMax && good_mass(m.mass);
  }
  bool operator()(const RoundCredit& m) const {
    return (m.phase == 0 || (m.phase == 1 && m.group != 0)) && m.credit <= kBlocksMax;
  }

  bool operator()(const Contribution& m) const {
    return m.group != 0 && m.slice < kUpdateSlicesMax && m.seq > 0 && good(m.head) && m.length < kLogLengthEnd &&
           good_mass(m.mass) && good_codec(m.codec) && good_part(m.part, m.parts);
  }
  bool operator()(const LogEntry& m) const {
    return m.group != 0 && m.slice < kUpdateSlicesMax && good(m.head) && m.head.length > 0 &&
           is_zero(m.previous) == (m.head.length == 1) && good_mass(m.divisor) &&
           good_peers(m.counted, kUpdateMembersMax) && m.head.weight >= m.counted.size() &&
           std::all_of(m.counted.begin(), m.counted.end(), [](const CountedPayload& c) { return good(c); }) &&
           good_codec(m.codec) && good_part(m.part, m.parts) && m.plan.size() <= kUpdatePlanBytesMax &&
           (m.slice == 0 || m.plan.empty());
  }
  bool operator()(const UpdateBundle& m) const {
    const size_t count = m.contributions.size() + m.entries.size();
    const auto good_item = [this](const auto& item) { return (*this)(item) && item.parts == 1; };
    return count >= 2 && count <= kUpdateSlicesMax && m.sizes.size() == count &&
           std::all_of(m.contributions.begin(), m.contributions.end(), good_item) &&
           std::all_of(m.entries.begin(), m.entries.end(), good_item) &&
           std::all_of(m.sizes.begin(), m.sizes.end(), [](uint32_t size) { return size <= kUpdatePartBytes; });
  }
  bool operator()(const SketchTable& m) const {
    return m.group != 0 && m.slice < kUpdateSlicesMax && good_mass(m.mass) && good_part(m.part, m.parts);
  }
  bool operator()(const SketchRequest& m) const {
    return m.group != 0 && m.slice < kUpdateSlicesMax && good_part(m.part, m.parts);
  }
  bool operator()(const LogPull& m) const {
    return m.slice < kUpdateSlicesMax && good(m.head) && m.missing.size() <= kUpdatePartsMax / 8 &&
           is_zero(m.root) == m.missing.empty();
  }
  bool operator()(const SliceState& m) const {
    return m.slice < kUpdateSlicesMax && good(m.head) && good_peers(m.table, kCountedRowsMax) &&
           std::all_of(
               m.table.begin(), m.table.end(), [&](const CountedRow& row) { return good(row, m.head); }) &&
           !m.recent.empty() && m.recent.size() <= std::min<uint64_t>(kRecentEntries, m.head.length) &&
           std::all_of(
               m.recent.begin(), m.recent.end(), [](const RecentEntry& entry) { return good(entry); }) &&
           m.recent.back().hash == m.head.hash && good_part(m.block, static_cast<uint32_t>(m.hashes.size()));
  }
};

}  // namespace

bool in_range(const FrameHeader& header) { return !header.sender.is_zero() && good(header.reply_to); }

bool in_range(const PeerId& sender, const Message& message) { return visit_kind(Check{sender}, message); }

}  // namespace starling
