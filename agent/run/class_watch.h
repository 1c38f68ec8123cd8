// Members that name their classes must name them alike: a label would else mean different things, and nothing else
// shows it. Records tell a hash of the names. Of two members that differ the later one gives way.
// Where members hold different labels, Adam learns badly, which is said.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "agent/train/trainer.h"
#include "gossip/clock.h"
#include "gossip/membership/membership.h"

namespace starling {

// For a record. 0: no names.
uint64_t hash_of_classes(const std::vector<std::string>& names);

// For a record, as wire.capnp has it, of samples by label. 0: there are none.
uint64_t hash_of_labels(std::span<const uint64_t> counts);

class ClassWatch {
 public:
  // The membership outlives the object. `born`: when this agent began.
  ClassWatch(TrainerData data, const Membership& membership, TimePoint born);

  uint64_t hash() const { return hash_; }
  uint64_t labels_hash() const { return labels_hash_; }

  // `steps`: that this agent's model has taken. Before its own first step in this life (`may_refuse`) throws
  // std::runtime_error if it has to give way; else warns of each member that differs.
  void look(uint64_t steps, bool may_refuse, TimePoint now);

 private:
  void compare_names(const Member& member, uint64_t steps, bool may_refuse);
  void compare_labels(const Member& member);
  bool was_there_first(const PeerRecord& other, uint64_t steps) const;

  const TrainerData data_;
  const uint64_t hash_, labels_hash_;
  const Membership& membership_;
  const TimePoint born_;
  std::set<std::pair<PeerId, uint64_t>> warned_;  // members with their hashes, at most kMembersMax
  bool warned_of_labels_ = false;
};

}  // namespace starling
