#include "agent/run/unreached.h"

#include <chrono>
#include <vector>

#include <fmt/format.h>

#include "bootstrap/contact.h"
#include "bootstrap/peer_troubles.h"

namespace starling {
namespace {

constexpr uint32_t kPingsMin = 3;
constexpr Duration kSilence = std::chrono::seconds(10);
constexpr Duration kDeadFor = std::chrono::minutes(1);  // a member that died lately may be cut off in one direction

}  // namespace

// Records can be invented, so only members that answered somebody count.
void Unreached::look() {
  if (!find_path_) return;
  const TimePoint now = clock_.now();
  size_t more = 0;
  std::string text;
  for (const Member& member : membership_.all()) {
    const bool dead = member.state == MemberState::kDead && now - member.since < kDeadFor;
    if (!dead && member.state > MemberState::kSuspect) continue;
    const bool silent = member.unanswered >= kPingsMin && now - member.unanswered_since >= kSilence;
    const bool ended = dead && ended_(member.record.id);  // it may die after one ping, where there are many members
    if (!(silent || ended) || !member.ever_answered) continue;
    if (!text.empty()) {
      ++more;
      continue;
    }
    text = describe(member);
  }
  if (text.empty()) return;
  notice_.say(more == 0 ? text : text + fmt::format(" (and {} more)", more));
}

std::string Unreached::describe(const Member& member) const {
  const Endpoint& own = membership_.self().endpoint;
  const Endpoint& there = member.record.endpoint;
  if (ended_(member.record.id)) {
    return fmt::format(
        "the membership of agent {} has expired, so nobody takes anything of it. Ask the holder of the swarm's key for "
        "the ticket of `starling admit {}`, and write it into the file `ticket` of that agent's state folder",
        print_name(member.record), member.record.id.hex());
  }
  const PathFound found = find_path_(there);
  if (!found.known) return "";
  if (found.accepts) return "agent " + print_name(member.record) + " at " + describe_no_way_back(there, own);
  if (member.state == MemberState::kDead) return "";  // it has ended, or its machine has
  return fmt::format(
      "agent {} cannot be reached at {} ({}) from this agent, at {}, though others reach it: open that port and the "
      "next one there, or start it with --advertise and an address that is reached from here",
      print_name(member.record), there.to_string(), found.text, own.to_string());
}

}  // namespace starling
