// This agent's own record. Nobody else makes a version of it; a new one carries a changed status, or contradicts what
// was said of the version before.
#pragma once

#include <cstdint>
#include <optional>

#include "gossip/membership/context.h"
#include "gossip/membership/health_score.h"
#include "gossip/membership/update_queue.h"
#include "gossip/peer.h"

namespace starling {

class OwnRecord {
 public:
  // News of it goes into `queue`; a refutation costs health.
  OwnRecord(MembershipContext& context, UpdateQueue& queue, HealthScore& health, PeerRecord record);
  OwnRecord(const OwnRecord&) = delete;
  OwnRecord& operator=(const OwnRecord&) = delete;

  const PeerRecord& record() const { return record_; }
  const PeerId& id() const { return record_.id; }
  const Version& version() const { return record_.version; }
  bool leaving() const { return leaving_; }

  void set_meta(const MemberMeta& meta);   // announced by announce_meta()
  // Announces a status that waits and is due. True: its phase is new, which should not wait for a probe to ride on.
  bool announce_meta();
  bool refute();                           // false: we leave, or have no room for another version
  // As refute(), with a version above `incarnation`, which somebody forged.
  bool overtake(uint32_t incarnation);
  bool leave();                            // no new version from now on. False: left already
  TimePoint next_deadline() const;

 private:
  void announce(bool urgent);

  MembershipContext& context_;
  UpdateQueue& queue_;
  HealthScore& health_;
  PeerRecord record_;
  std::optional<MemberMeta> pending_meta_;
  TimePoint announced_;
  bool leaving_ = false;
};

}  // namespace starling
