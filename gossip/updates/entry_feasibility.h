// Whether the entry of a slice may still come in this round: what its owner waits for, and what all others wait for.
#pragma once

#include <cstdint>

#include "gossip/updates/update_owner.h"
#include "gossip/updates/update_round.h"
#include "gossip/updates/update_slice.h"
#include "gossip/updates/update_tables.h"

namespace starling {

class EntryFeasibility {
 public:
  // All references must outlive the object.
  EntryFeasibility(const PeerId& self, const UpdateRound& round, const UpdateSlices& slices, const UpdateOwner& owner,
                   const UpdateTables& tables)
      : self_(self), round_(round), slices_(slices), owner_(owner), tables_(tables) {}

  // `sick`: this member hands in nothing.
  // of those that are waited for; a member that has handed in sends none
  bool all_tables(uint32_t slice, bool sick) const;
  bool all_handed_in(uint32_t slice, bool sick) const;
  // The entry is here, or nobody waits for it any more.
  bool resolved(uint32_t slice, bool sick) const;

 private:
  template <class Here>
  bool all(bool sick, const Here& here) const;
  bool too_few_are_left(uint32_t slice) const;
  bool can_make_entry(uint32_t slice, bool sick) const;

  const PeerId self_;
  const UpdateRound& round_;
  const UpdateSlices& slices_;
  const UpdateOwner& owner_;
  const UpdateTables& tables_;
};

}  // namespace starling
