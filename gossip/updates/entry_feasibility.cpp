#include "gossip/updates/entry_feasibility.h"

#include <set>

namespace starling {

template <class Here>
bool EntryFeasibility::all(bool sick, const Here& here) const {
  const GroupMembers& members = round_.members();
  for (size_t rank = 0; rank < members.count(); ++rank) {
    if (!round_.waits_for(rank) || (rank == members.self && sick)) continue;
    if (!here(members.ids[rank])) return false;
  }
  return true;
}

bool EntryFeasibility::all_tables(uint32_t slice, bool sick) const {
  return all(sick, [&](const PeerId& peer) {
    return tables_.has_table(slice, peer) || slices_[slice]->inbox().handed_in(peer, round_.number());
  });
}

bool EntryFeasibility::all_handed_in(uint32_t slice, bool sick) const {
  return all(sick, [&](const PeerId& peer) { return slices_[slice]->inbox().handed_in(peer, round_.number()); });
}

// Most of the roster have gone on, so this owner will make no entry. It catches up with them.
bool EntryFeasibility::too_few_are_left(uint32_t slice) const {
  const GroupMembers& members = round_.members();
  std::set<PeerId> left;
  for (size_t rank = 0; rank < members.count(); ++rank) {
    if (!round_.has_gone_on(rank)) left.insert(members.ids[rank]);
  }
  if (left.size() == members.count()) return false;
  for (const HandedIn& item : slices_[slice]->inbox().countable(members, slices_[slice]->log())) left.insert(item.from);
  return 2 * left.size() <= members.count();
}

// Whether more may come that makes an own slice's entry possible. Who joined hands in what it made from the genesis,
// which is void in a long log. As owner it cannot count itself, which an entry must; to the other of two members it is
// one too few. Nor can a sick owner. All go on to the next round, which begins from that log.
bool EntryFeasibility::can_make_entry(uint32_t slice, bool sick) const {
  if (sick) return false;
  if (round_.contribution(slice).round != round_.number()) return true;  // its table comes first
  const UpdateInbox& inbox = slices_[slice]->inbox();
  const UpdateLog& log = slices_[slice]->log();
  if (!inbox.can_count(self_, log)) return false;
  const GroupMembers& members = round_.members();
  return !all_handed_in(slice, sick) || 2 * inbox.countable(members, log).size() > members.count();
}

bool EntryFeasibility::resolved(uint32_t slice, bool sick) const {
  const GroupMembers& members = round_.members();
  if (slices_[slice]->has_entry_of(members.group, round_.number())) return true;
  if (owner_.owns(slice)) return too_few_are_left(slice) || !can_make_entry(slice, sick);
  return !round_.waits_for(members.owner(slice, round_.number())) && !slices_[slice]->checking();
}

}  // namespace starling
