// Spreads news: piggybacked on every membership message, in gossip messages while there is news, and in answers to
// members that were found to hold older news.
#pragma once

#include <vector>

#include "gossip/membership/context.h"
#include "gossip/membership/member_table.h"
#include "gossip/membership/own_record.h"
#include "gossip/membership/update_queue.h"
#include "gossip/net/message.h"

namespace starling {

class Dissemination {
 public:
  Dissemination(MembershipContext& context, MemberTable& table, const OwnRecord& own, UpdateQueue& queue);

  void tick();                      // sends gossip when it is due
  TimePoint next_deadline() const;  // max: there is no news
  Updates piggyback(const PeerId& to, bool with_self);
  void tell_own_record();  // at once, to random members

  // Answers are collected while one message is handled, and then sent to its sender. An answer about the same member is
  // limited in rate, however many members pass on the same old news.
  void clear_answers();
  void answer_about(MemberEntry& entry);
  void answer_with_own_record() { answer_with_self_ = true; }
  void ask_for(const DigestEntry& what_we_hold) { wants_.push_back(what_we_hold); }
  void flush_answers(const PeerId& to);

 private:
  MembershipContext& context_;
  MemberTable& table_;
  const OwnRecord& own_;
  UpdateQueue& queue_;
  TimePoint next_gossip_;
  Updates answers_;
  bool answer_with_self_ = false;
  std::vector<DigestEntry> wants_;  // records to ask the sender for
};

}  // namespace starling
