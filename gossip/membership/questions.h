// Pings members that have not answered this agent yet, since records can be invented: who exchanges, and whose claims
// count, is decided among those that answered. A new member is asked at once, and all that are silent once a period,
// beside the probes, which take as many periods as there are members. Silence has no consequence here; that is the
// probes' business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "gossip/limits.h"
#include "gossip/membership/context.h"
#include "gossip/membership/member_table.h"
#include "gossip/membership/own_record.h"
#include "gossip/net/message.h"

namespace starling {

class Questions {
 public:
  // A period is a probe_interval. Where a record says that its member listens may be invented too, so a stranger can
  // have this agent send no more than this.
  static constexpr size_t kAskedMax = 128;

  Questions(MembershipContext& context, MemberTable& table, const OwnRecord& own)
      : context_(context), table_(table), own_(own) {}

  void add(const PeerId& peer) {     // a new member, or a new process of one
    if (waiting_.size() < kMembersMax) waiting_.push_back(peer);
  }
  void tick();
  TimePoint next_deadline() const;
  bool on_ping_ack(const PeerId& from, const PingAck& ack);    // true: it answers a question

 private:
  struct Question {
    uint64_t sequence = 0;
    PeerId target;
    uint64_t generation = 0;
  };
  void begin_period();

  MembershipContext& context_;
  MemberTable& table_;
  const OwnRecord& own_;
  TimePoint period_ends_;
  std::deque<PeerId> waiting_;
  std::deque<Question> asked_;       // the last ones
  size_t asked_now_ = 0;             // in this period
  uint64_t asked_ever_ = 0;
};

}  // namespace starling
