#include "agent/run/lost_members.h"

#include "agent/run/swarm_clock.h"

namespace starling {

void LostMembers::look(const MemberEvent& event, bool training_ended) {
  const Member* member = membership_.find(event.peer);
  if (!training_ended || !member || !member->ever_answered || member->record.meta.role != Role::kAgent) return;
  const bool counted = holds_model(member->record.meta) && member->record.meta.pause == Pause::kNone;
  const bool died = event.kind == MemberEventKind::kDied && counted;
  if (died || event.kind == MemberEventKind::kRestarted) names_[event.peer] = print_name(member->record);
}

LostMembers::Missed LostMembers::missed(const std::function<bool(const MemberMeta&)>& agrees) const {
  Missed found;
  for (const auto& [peer, name] : names_) {
    const Member* member = membership_.find(peer);  // null: its tombstone had to make room
    const MemberState state = member ? member->state : MemberState::kDead;
    if (state == MemberState::kLeft) continue;
    if (state == MemberState::kDead) {
      if (member && has_finished(member->record.meta) && agrees(member->record.meta)) continue;
      const PathFound path = member && find_path_ ? find_path_(member->record.endpoint) : PathFound{.known = true};
      if (path.refuses) continue;
      found.unknown += !path.known;
      ++found.dead;
      found.name = name;
    } else if (!holds_model(member->record.meta)) {
      ++found.joining;
      if (found.dead == 0) found.name = name;
    }
  }
  return found;
}

}  // namespace starling
