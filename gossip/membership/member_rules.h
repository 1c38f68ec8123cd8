// The rules by which news changes the table. At one version a member's state only gets worse (alive, suspect, dead,
// left). Only a newer version, made by the member itself, makes it alive again. So the order of arrival is irrelevant.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "gossip/membership/context.h"
#include "gossip/membership/dissemination.h"
#include "gossip/membership/heal_schedule.h"
#include "gossip/membership/member_table.h"
#include "gossip/membership/own_news.h"
#include "gossip/membership/own_record.h"
#include "gossip/membership/probe_order.h"
#include "gossip/membership/questions.h"
#include "gossip/membership/update_queue.h"
#include "gossip/net/message.h"

namespace starling {

class MemberRules {
 public:
  enum class Source : uint8_t { kGossip, kSync, kJoin };

  // All references must outlive the object.
  MemberRules(MembershipContext& context, MemberTable& table, const OwnRecord& own, OwnNews& own_news,
              UpdateQueue& queue, Dissemination& dissemination, ProbeOrder& probe_order, Questions& questions,
              HealSchedule& heal_schedule);

  // Whether `from` is in the table, now or after it introduced itself: a stranger's message may hold its own record.
  bool introduced(const PeerId& from, const MembershipMessage& message);
  void on_updates(const PeerId& from, const MembershipMessage& message);  // all news that the message carries
  void on_alive(const PeerRecord& record, Source source);
  void accuse(MemberEntry& entry, const PeerId& accuser);  // REQUIRES: the entry is alive or suspect
  void mark_left(MemberEntry& entry);
  void answer_about(MemberEntry& entry) { dissemination_.answer_about(entry); }  // to the sender of the message in hand
  void drop_revoked();                                                           // members that are revoked leave
  void expire_suspicions();
  void reap_tombstones();
  std::vector<MemberEvent> take_events();
  std::optional<PeerRecord> take_record_ahead() { return std::exchange(record_ahead_, std::nullopt); }

 private:
  void on_updates(const PeerId& from, const Updates& updates);
  bool can_be(const PeerRecord& record, const MemberEntry* held) const;  // by any maker
  bool believable(const PeerRecord& record, MemberEntry* held);
  bool grows_within_reach(const PeerRecord& record, MemberEntry& held);
  uint64_t newest_generation() const;
  void on_newer(MemberEntry& entry, const PeerRecord& record);
  void mark_dead(MemberEntry& entry);
  void on_suspect(const Suspicion& suspicion);
  void on_left(const PeerRecord& record, const PeerId& from);

  MembershipContext& context_;
  MemberTable& table_;
  const OwnRecord& own_;
  OwnNews& own_news_;
  UpdateQueue& queue_;
  Dissemination& dissemination_;
  ProbeOrder& probe_order_;
  Questions& questions_;
  HealSchedule& heal_schedule_;
  const TimePoint began_;
  std::vector<MemberEvent> events_;
  std::optional<PeerRecord> record_ahead_;  // as Membership::take_record_ahead()
};

}  // namespace starling
