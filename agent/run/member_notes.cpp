#include "agent/run/member_notes.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

#include "agent/run/swarm_clock.h"

namespace starling {
namespace {

constexpr Duration kLookEvery = std::chrono::seconds(1);
constexpr Duration kEvery = std::chrono::seconds(3);
constexpr Duration kJustDied = std::chrono::minutes(10);  // in a power cut not all machines die at once
constexpr uint64_t kFewRounds = 20;                       // less is no news

bool same_members(const std::vector<KnownMember>& a, const std::vector<KnownMember>& b) {
  return std::is_permutation(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace

MemberNotes::MemberNotes(KnownMembers before, Write write, const Membership& membership, Worker& worker,
                         const Clock& clock)
    : write_(std::move(write)),
      membership_(membership),
      worker_(worker),
      clock_(clock),
      known_(std::move(before)),
      written_(known_) {
  known_.finished = false;
  known_.finished_at = 0;
}

// Only members that answered: the list is short, and records can be invented.
void MemberNotes::look(uint64_t round) {
  std::vector<KnownMember> members;
  std::vector<uint64_t> rounds;
  const auto note = [&](const Member& member) { members.push_back({member.record.id, member.record.endpoint}); };
  const std::vector<Member> all = membership_.all();
  for (const Member& member : all) {
    const bool alive = member.state == MemberState::kAlive || member.state == MemberState::kSuspect;
    if (!alive || member.record.meta.role != Role::kAgent || !answered(member)) continue;
    note(member);
    if (takes_part(member.record.meta)) rounds.push_back(member.record.meta.round);
  }
  for (const Member& member : all) {
    const bool just_died = member.state == MemberState::kDead && clock_.now() - member.since < kJustDied;
    if (just_died && member.record.meta.role == Role::kAgent && answered(member)) note(member);
  }
  known_.together = std::min(members.size(), kKnownMembersMax);
  for (const KnownMember& old : known_.members) {
    const auto same = [&](const KnownMember& member) { return member.id == old.id || member.address == old.address; };
    if (std::none_of(members.begin(), members.end(), same)) members.push_back(old);
  }
  members.resize(std::min(members.size(), kKnownMembersMax));
  known_.members = std::move(members);
  if (rounds.empty()) return;
  const auto middle = rounds.begin() + static_cast<std::ptrdiff_t>((rounds.size() - 1) / 2);
  std::nth_element(rounds.begin(), middle, rounds.end());
  known_.behind = *middle > round ? *middle - round : 0;
}

void MemberNotes::tick(uint64_t round) {
  const TimePoint now = clock_.now();
  if (now < std::max(next_look_, next_)) return;
  next_look_ = now + kLookEvery;
  look(round);
  const uint64_t moved = std::max(known_.behind, written_.behind) - std::min(known_.behind, written_.behind);
  const bool news = moved > kFewRounds || known_.finished != written_.finished ||
                    known_.together != written_.together || !same_members(known_.members, written_.members);
  if (!known_.members.empty() && news) write();
}

void MemberNotes::finished(uint64_t stop_after) {
  known_.finished = true;
  known_.finished_at = stop_after;
  if (!known_.members.empty()) write();
}

void MemberNotes::write() {
  next_ = clock_.now() + kEvery;
  written_ = known_;
  worker_.submit(
      [write = write_, known = known_] {
        try {
          write(known);
        } catch (const std::exception& error) {
          spdlog::warn("a restart of this agent would not find its peers ({}); start with --bootstrap HOST:PORT then",
                       error.what());
        }
      },
      [] {});
}

}  // namespace starling
