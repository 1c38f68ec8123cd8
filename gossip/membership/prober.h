// Failure detection: probes one member at a time, first directly, then through helpers, and accuses it if neither is
// answered. Also answers probes, and probes members on behalf of others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "gossip/membership/context.h"
#include "gossip/membership/dissemination.h"
#include "gossip/membership/health_score.h"
#include "gossip/membership/member_rules.h"
#include "gossip/membership/member_table.h"
#include "gossip/membership/own_record.h"
#include "gossip/membership/probe_order.h"
#include "gossip/net/message.h"

namespace starling {

class Prober {
 public:
  Prober(MembershipContext& context, MemberTable& table, const OwnRecord& own, Dissemination& dissemination,
         ProbeOrder& order, HealthScore& health, MemberRules& rules);

  void tick();
  void stop();                     // this agent is leaving; it accuses nobody from now on
  TimePoint next_verdict() const;  // when the next timer that judges another member ends
  void postpone(Duration by);

  void on_ping(const PeerId& from, const Ping& ping);
  void on_ping_ack(const PeerId& from, const PingAck& ack);
  // The number came back from another process of that id: the one that is meant is no longer there.
  void on_ack_of_another_process(const PeerId& from, const PingAck& ack);
  void on_ping_request(const PeerId& from, const PingRequest& request);
  void on_ping_nack(const PeerId& from, const PingNack& nack);
  void heard_from(const PeerId& peer);  // a frame has just arrived from it: counts as an ack
  // As Membership::nobody_answers().
  bool nobody_answers(Duration for_long) const;

 private:
  // The probe in progress.
  struct Probe {
    PeerId target;
    Version version;
    uint64_t sequence = 0;
    TimePoint sent, indirect_at;
    std::vector<PeerId> helpers;
    uint32_t nacks = 0;
    bool indirect_sent = false;
    bool acked = false;
    bool measured = false;
    bool replaced = false;  // another process of its id answers there
  };
  // The ping of a probe, the one in progress or an earlier one.
  struct Pinged {
    uint64_t sequence = 0;
    PeerId target;
    uint64_t generation = 0;  // of the target
  };
  // A probe on behalf of another member.
  struct Relay {
    uint64_t sequence = 0;  // of this agent's own ping
    PeerId requester;
    uint64_t requester_sequence = 0;
    PeerId target;
    uint64_t generation = 0;  // of the target
    TimePoint ends;
  };

  void start_probe();
  uint64_t ping_number();  // for the next ping, another each time
  void probe_through_helpers();
  void finish_probe();
  void probe_acked();
  void note_answer();
  void note_late_ack(const PeerId& from, uint64_t sequence);
  void expire_relays();
  void send_ping(MemberEntry& target, uint64_t sequence);
  PingAck ack_of(uint64_t sequence, const PeerId& asker);

  MembershipContext& context_;
  MemberTable& table_;
  const OwnRecord& own_;
  Dissemination& dissemination_;
  ProbeOrder& order_;
  HealthScore& health_;
  MemberRules& rules_;
  std::optional<Probe> probe_;
  TimePoint next_probe_;
  uint32_t unanswered_ = 0;  // probes in a row that neither the target nor a helper answered
  TimePoint answered_;       // the last one that was
  // On a slow path an ack comes after the next probe began.
  std::array<Pinged, 8> pinged_;  // the last ones, in a ring
  size_t pinged_next_ = 0;
  std::vector<Relay> relays_;
};

}  // namespace starling
