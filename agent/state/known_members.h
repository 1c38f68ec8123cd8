// The members that an agent has seen alive, kept in its state folder: when it starts again, it asks them beside its
// bootstrap addresses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/state/file_ops.h"
#include "gossip/peer.h"

namespace starling {

inline constexpr size_t kKnownMembersMax = 64;

struct KnownMember {
  PeerId id;
  Endpoint address;
  bool operator==(const KnownMember&) const = default;
};

struct KnownMembers {
  std::vector<KnownMember> members;  // seen last first, at most kKnownMembersMax
  uint64_t together = 0;             // the first so many lived, or had died minutes before at most
  uint64_t behind = 0;               // rounds that this agent was behind the median of its swarm
  bool finished = false;             // its run came to the end: none of them has to come back
  uint64_t finished_at = 0;          // swarm.stop_after then; 0: another end, or an older program
  bool operator==(const KnownMembers&) const = default;
};

// Those in the file `members` of the folder; none if there is no such file. A line that makes no sense is passed over.
// Throws as read_private_file does.
KnownMembers read_known_members(const std::string& folder);

// Durably. Throws as write_private_file does.
void write_known_members(const std::string& folder, const KnownMembers& known, FileOps& files);

}  // namespace starling
