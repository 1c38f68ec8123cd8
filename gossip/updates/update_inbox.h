// What members handed in for one slice, and no entry counted yet. A payload stays here until it counts, is void, or its
// sender handed in two newer ones: that it came late costs nothing.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "gossip/exchange/group_members.h"
#include "gossip/net/message.h"
#include "gossip/updates/update_log.h"
#include "gossip/updates/update_memory.h"
#include "gossip/updates/update_parts.h"

namespace starling {

struct HandedIn {
  PeerId from;
  uint64_t generation = 0;
  Contribution message;  // without its part
  SharedBytes payload;
};

class UpdateInbox {
 public:
  static constexpr size_t kPerSender = 2;

  // True: the payload is complete now, and was not before, or not handed in again in this round. REQUIRES: the part
  // fits (PartBuffer::fits).
  [[nodiscard]] bool add(const PeerId& from, uint64_t generation, const Contribution& message, const SharedBytes& part);

  // Whether this member has handed in a whole payload in `round` or later.
  bool handed_in(const PeerId& from, uint64_t round) const;

  // The head of the replica that it trained from, as its last payload says, though that may have been dropped. nullptr:
  // it was of an earlier round.
  const LogHead* head_of(const PeerId& from, uint64_t round) const;

  // Whether the log can count a payload of this member.
  bool can_count(const PeerId& from, const UpdateLog& log) const;

  // The newest payload of each of these members that the log can count.
  std::vector<HandedIn> countable(const GroupMembers& members, const UpdateLog& log) const;

  size_t bytes(HeldBytes& held) const;  // that it holds, and `held` has not seen

  void drop_void(const UpdateLog& log);
  // Drops what is of no member in the roster. A payload says itself how old it is, so a liar's would never be void.
  void keep_only(const GroupMembers& members);

 private:
  struct Item {
    uint64_t generation = 0;
    Contribution message;  // as it was last sent
    PartBuffer parts;
  };
  struct Said {
    uint64_t round = 0;
    LogHead head;
  };
  std::map<PeerId, std::vector<Item>> slots_;  // ascending by (generation, seq)
  std::map<PeerId, Said> said_;                // by the last payload of each
};

}  // namespace starling
