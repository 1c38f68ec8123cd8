// Pings members that have not answered this agent yet, since records can be invented. Only members that answered take
// part in exchanges and decisions. A new member is asked at once. A silent one is asked once a period, then ever more
// rarely, also through a member that answered. Probes alone would take as many periods as there are members. Silence
// has no consequence here; that is left to the probes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gossip/limits.h"
#include "gossip/membership/context.h"
#include "gossip/membership/member_table.h"
#include "gossip/membership/own_record.h"
#include "gossip/net/message.h"

namespace starling {

class Questions {
 public:
  // A period is a probe_interval. Where a record says that its member listens may be invented too, so a stranger can
  // have this agent send no more than this, in all, to one host and to one port.
  static constexpr size_t kAskedMax = 128, kAskedOfHostMax = 64;
  static constexpr uint32_t kAskedFree = 3, kDoublingsMax = 6;
  static constexpr uint32_t kThroughOthersMax = 6;  // of the first questions; through so many at once:
  static constexpr size_t kHelpers = 3;

  Questions(MembershipContext& context, MemberTable& table, const OwnRecord& own)
      : context_(context), table_(table), own_(own) {}

  void add(const PeerId& peer) {  // a new member, or a new process of one
    if (waiting_.size() < kMembersMax) waiting_.push_back(peer);
  }
  void tick();
  TimePoint next_deadline() const;
  bool on_ping_ack(const PeerId& from, const PingAck& ack);  // true: it answers a question

 private:
  struct Question {
    uint64_t sequence = 0;
    PeerId target;
    uint64_t generation = 0;
    std::vector<PeerId> helpers;  // members that ask it too
  };
  void begin_period();
  bool may_be_asked(const Endpoint& endpoint);  // once more
  std::vector<PeerId> some_that_answered();

  MembershipContext& context_;
  MemberTable& table_;
  const OwnRecord& own_;
  TimePoint period_ends_;
  std::deque<PeerId> waiting_;
  std::deque<Question> asked_;                          // the last ones
  size_t asked_now_ = 0;                                // in this period
  std::map<std::string, std::set<uint16_t>> asked_at_;  // likewise: the ports of each host
  uint64_t periods_ = 0;
  uint64_t asked_ever_ = 0;
};

}  // namespace starling
