#include "gossip/net/wire_check.h"

#include <cmath>

#include "gossip/limits.h"
#include "gossip/net/text.h"

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
  return meta.name.size() <= kNameBytesMax && is_one_line(meta.name);
}

bool good(const PeerRecord& record) {
  return !record.id.is_zero() && good(record.endpoint) && good(record.meta);
}

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

bool good_settings(const std::string& settings) {
  return settings.size() <= kSettingsBytesMax && is_plain_text(settings);
}

bool good(const ExchangeId& xid) { return !xid.proposer.is_zero(); }

bool good(const Bitmap& bitmap) { return bitmap.size() <= kBlocksMax / 8; }

struct Check {
  const PeerId& sender;

  bool operator()(const Ping& m) const { return good(m.updates); }
  bool operator()(const PingAck& m) const { return good(m.updates); }
  bool operator()(const PingRequest& m) const { return !m.target.is_zero() && good(m.updates); }
  bool operator()(const PingNack&) const { return true; }
  bool operator()(const Gossip& m) const { return good(m.updates); }
  bool operator()(const Sync& m) const {
    if (m.digest.size() > kMembersMax || m.records.size() > kSyncRecordsMax) return false;
    for (const DigestEntry& entry : m.digest) {
      if (entry.id.is_zero() || entry.state > kMemberStateMax) return false;
    }
    return good(m.records);
  }

  bool operator()(const Join& m) const {
    return good(m.record) && m.record.id == sender && good_settings(m.settings);
  }
  bool operator()(const JoinReply& m) const {
    return good_settings(m.settings) && m.members.size() <= kSyncRecordsMax && good(m.members);
  }
  bool operator()(const JoinRefused& m) const {
    return m.reason.size() <= kReasonBytesMax && is_plain_text(m.reason) && good_settings(m.settings);
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
    return good(m.xid) && m.xid.proposer == sender && good_offer(m.offer) && good_mass(m.mass) &&
           m.deadline_ms >= 1 && m.deadline_ms <= kExchangeDeadlineMsMax && m.credit <= kBlocksMax;
  }
  bool operator()(const Accept& m) const {
    return good(m.xid) && good_offer(m.offer) && good_mass(m.mass) && m.credit <= kBlocksMax;
  }
  bool operator()(const Busy& m) const { return good(m.xid); }
  bool operator()(const BlockPayload& m) const {
    return good(m.xid) && m.index < kBlocksMax && m.stage <= kStageMax;
  }
  bool operator()(const Credit& m) const { return good(m.xid) && m.credit <= kBlocksMax; }
  bool operator()(const Have& m) const { return good(m.xid) && good(m.blocks) && good_scale(m.scale); }
  bool operator()(const Commit& m) const {
    return good(m.xid) && m.xid.proposer == sender && good(m.blocks) && good_scale(m.scale);
  }
  bool operator()(const Abort& m) const { return good(m.xid); }
  bool operator()(const CommitAck& m) const { return good(m.xid); }
  bool operator()(const Query& m) const { return good(m.xid); }
  bool operator()(const RoundBlock& m) const {
    const bool average = m.phase == 1 && m.group != 0 && m.counted != 0;
    return (average || (m.phase == 0 && m.counted == 0)) && m.index < kBlocksMax && good_mass(m.mass);
  }
  bool operator()(const RoundCredit& m) const {
    return (m.phase == 0 || (m.phase == 1 && m.group != 0)) && m.credit <= kBlocksMax;
  }
};

}  // namespace

bool in_range(const FrameHeader& header) { return !header.sender.is_zero() && good(header.reply_to); }

bool in_range(const PeerId& sender, const Message& message) { return visit_kind(Check{sender}, message); }

}  // namespace starling
