// This agent's own record. Only this agent makes new versions of it: with a changed status, or to refute an accusation
// of the previous version.
#pragma once

#include <cstdint>
#include <optional>

#include "gossip/membership/context.h"
#include "gossip/membership/health_score.h"
#include "gossip/membership/member_table.h"
#include "gossip/membership/update_queue.h"
#include "gossip/peer.h"

namespace starling {

class OwnRecord {
 public:
  // New versions go into `queue`; a refutation worsens `health`. With the members of `table` that answer statuses
  // become rarer.
  OwnRecord(MembershipContext& context, MemberTable& table, UpdateQueue& queue, HealthScore& health, PeerRecord record);
  OwnRecord(const OwnRecord&) = delete;
  OwnRecord& operator=(const OwnRecord&) = delete;

  const PeerRecord& record() const { return record_; }
  PeerRecord farewell() const;  // the same, as one that leaves
  const PeerId& id() const { return record_.id; }
  const Version& version() const { return record_.version; }
  bool leaving() const { return leaving_; }

  void set_meta(const MemberMeta& meta, uint64_t last_step);  // announced later, by announce_meta()
  // Announces a pending status if it is due. True: it should be sent at once, not with a probe.
  bool announce_meta();
  bool refute();  // false: this agent is leaving, or its incarnation has reached the limit
  // As refute(), with an incarnation above `incarnation`, which was forged.
  bool overtake(uint32_t incarnation);
  bool move_to(const Endpoint& endpoint);  // announced at once. False, as refute()
  bool leave();                            // no new versions from now on. False: it has left already
  TimePoint next_deadline() const;

 private:
  TimePoint next_status() const;
  void announce(bool urgent);
  void seal();  // after each change

  MembershipContext& context_;
  MemberTable& table_;
  UpdateQueue& queue_;
  HealthScore& health_;
  PeerRecord record_;
  std::optional<MemberMeta> pending_meta_;
  uint64_t last_step_ = 0;
  TimePoint announced_;
  bool leaving_ = false;
};

}  // namespace starling
