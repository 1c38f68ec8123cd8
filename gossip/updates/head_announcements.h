// Heads of one slice that other members say they hold. Those that are greater than the own one: what this member lacks.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "gossip/exchange/group_members.h"
#include "gossip/net/message.h"
#include "gossip/updates/update_log.h"

namespace starling {

class HeadAnnouncements {
 public:
  // An owner makes no entry while it lacks one that others hold. One claim that nobody else shares and that brings
  // nothing counts for so many rounds only: a liar could stop the slice for ever.
  static constexpr uint64_t kClaimRounds = 2;
  // So long after a claim that the own log outgrew without it, its sender's next ones count no longer than that one. A
  // liar would claim a little more again each time.
  static constexpr uint64_t kVainRounds = 32;

  // True: the head is greater than `own`, so its holder should be asked. `round`: the own one.
  bool hear(const PeerId& from, const LogHead& head, const LogHead& own, uint64_t round);

  // This member sent what only a holder of the log with this head has.
  void note_holder(const PeerId& from, const LogHead& head, uint64_t round) { said_[from] = {head, round}; }

  // The log with this head is here and is a split that too few members show. A single member that claims it stops no
  // owner: the own log outgrows it, and its holder moves.
  void doubt(const LogHead& head);

  // Whether a head greater than `own` is known, and believed: two weak claims are.
  bool lacks(const LogHead& own, uint64_t round) const;

  bool lacks_of(const PeerId& peer, const LogHead& own) const;  // whether this member claims a greater head

  // How many entries the own log is shorter than the longest greater one.
  uint64_t behind(const LogHead& own) const;
  // the members that said last that they hold this one
  void add_holders(const LogHead& head, std::set<PeerId>* members) const;
  // Whether all others said, since the own log last moved, that they hold another one, which is lighter. With a roster
  // of which two must show a split, nobody will move to the own log then.
  bool nobody_shares(const GroupMembers& members, const UpdateLog& log) const;
  // Whether another member said, in this round or the one before, that it holds the own log.
  bool somebody_shares(const LogHead& own, uint64_t round) const;
  // Whether, in this round or the one before, another member said that it holds the own log, and one that it holds a
  // lighter one, which parted from it.
  bool sees_split(const UpdateLog& log, uint64_t round) const;
  void settle(const LogHead& own);  // the own log moved: forgets the claims that it has reached
  void forget(const PeerId& peer) {
    claims_.erase(peer);
    vain_.erase(peer);
    said_.erase(peer);
  }

 private:
  struct Claim {
    LogHead head;         // the last one
    uint64_t weight = 0;  // the greatest one
    uint64_t since = 0;   // the round of the first claim, of those that the own log has not reached
    bool doubted = false;
  };
  struct Said {
    LogHead head;
    uint64_t round = 0;  // the own one when it was heard
  };
  std::map<PeerId, Claim> claims_;
  std::map<PeerId, uint64_t> vain_;  // the first round of the last claim that the own log outgrew
  // The last one of each other member, since the own log last moved. From before that: of what is the own log now.
  std::map<PeerId, Said> said_;
};

}  // namespace starling
