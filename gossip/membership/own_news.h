// What others say about this agent itself: old records of it, suspicions, or that it has left. It answers with its
// record, or makes the next version of it, which refutes them.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "gossip/membership/context.h"
#include "gossip/membership/dissemination.h"
#include "gossip/membership/own_record.h"
#include "gossip/net/message.h"

namespace starling {

class OwnNews {
 public:
  // All references must outlive the object.
  OwnNews(MembershipContext& context, OwnRecord& own, Dissemination& dissemination)
      : context_(context), own_(own), dissemination_(dissemination) {}

  // REQUIRES of all: the news is about this agent.
  void on_record(const PeerRecord& record);
  void on_suspicion(const Suspicion& suspicion);
  void on_left(const PeerRecord& record);
  void refute();
  std::optional<PeerRecord> take_other_self() { return std::exchange(other_self_, std::nullopt); }  // as Membership's

 private:
  void overtake(uint32_t incarnation);

  MembershipContext& context_;
  OwnRecord& own_;
  Dissemination& dissemination_;
  std::optional<PeerRecord> other_self_;
  std::optional<TimePoint> overtakes_since_;  // kOvertakeWindow
  uint32_t overtakes_from_ = 0;               // the own incarnation then
};

}  // namespace starling
