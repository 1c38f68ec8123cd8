// Anti-entropy: compares whole views with random members, dead members and seeds, again and again. It reunites a swarm
// that was cut in two.
#pragma once

#include <vector>

#include "gossip/membership/context.h"
#include "gossip/membership/heal_schedule.h"
#include "gossip/membership/member_rules.h"
#include "gossip/membership/member_table.h"
#include "gossip/membership/own_news.h"
#include "gossip/membership/own_record.h"
#include "gossip/net/message.h"

namespace starling {

class AntiEntropy {
 public:
  AntiEntropy(MembershipContext& context, MemberTable& table, const OwnRecord& own, OwnNews& own_news,
              MemberRules& rules, HealSchedule& schedule);

  void set_seeds(std::vector<Endpoint> seeds);  // contacted again and again, members or not
  void tick();
  TimePoint next_deadline() const { return schedule_.next(); }
  void on_sync(const PeerId& from, const Sync& sync);
  std::vector<Sync> pages(uint64_t nonce) const;  // as in Membership

 private:
  Sync full_sync() const;
  void on_digest_entry(const PeerId& from, const DigestEntry& entry, bool reply_wanted, Sync& reply);
  std::vector<PeerRecord> newer_records(const PeerId& from, const Sync& sync, Sync& reply);
  void send_reply(const PeerId& to, Sync reply, std::vector<PeerRecord> records, bool always);

  MembershipContext& context_;
  MemberTable& table_;
  const OwnRecord& own_;
  OwnNews& own_news_;
  MemberRules& rules_;
  HealSchedule& schedule_;
  std::vector<Endpoint> seeds_;
};

}  // namespace starling
