#include "agent/state/known_members.h"

#include <algorithm>
#include <sstream>

#include "agent/state/private_file.h"
#include "gossip/limits.h"

namespace starling {
namespace {

constexpr size_t kBytesMax = kKnownMembersMax * (kHostBytesMax + 80) + 1024;

std::string path_of(const std::string& folder) { return folder + "/members"; }

}  // namespace

KnownMembers read_known_members(const std::string& folder) {
  KnownMembers known;
  std::istringstream lines(read_private_file(path_of(folder), kBytesMax).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, second;
    words >> first >> second;
    if (first == "together") {
      std::istringstream(second) >> known.together;
    } else if (first == "behind") {
      std::istringstream(second) >> known.behind;
    } else if (first == "finished") {
      known.finished = true;
      std::istringstream(second) >> known.finished_at;
    } else if (known.members.size() < kKnownMembersMax) {
      const std::optional<Endpoint> address = Endpoint::parse(first);
      const std::optional<PeerId> id = PeerId::parse(second);
      if (address && address->port != 0 && id) known.members.push_back({*id, *address});
    }
  }
  known.together = std::min<uint64_t>(known.together, known.members.size());
  return known;
}

void write_known_members(const std::string& folder, const KnownMembers& known, FileOps& files) {
  std::ostringstream text;
  text << "# The members that this agent has seen alive. It asks them when it starts again.\n";
  text << "together " << known.together << "\nbehind " << known.behind << '\n';
  if (known.finished) text << "finished " << known.finished_at << '\n';
  for (const KnownMember& member : known.members) text << member.address.to_string() << ' ' << member.id.hex() << '\n';
  write_private_file(path_of(folder), text.str(), files);
}

}  // namespace starling
