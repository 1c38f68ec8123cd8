// Asks for what this member lacks: one pull a slice at a time, not more often than the interval, until it is there.
//
// What is lost and what is late look alike. Where most of what was asked for comes twice, the first one was only late,
// and the answers fill the links: there this member waits longer before it asks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "gossip/clock.h"
#include "gossip/exchange/group_members.h"
#include "gossip/net/outbox.h"
#include "gossip/rng.h"
#include "gossip/updates/update_slice.h"

namespace starling {

class UpdatePulls {
 public:
  // References must outlive the object.
  UpdatePulls(size_t slice_count, const Clock& clock, Outbox& outbox, uint64_t rng_seed)
      : clock_(clock), outbox_(outbox), rng_(rng_seed), slices_(slice_count) {}

  // `interval`: between two pulls for one slice.
  void begin_round(const GroupMembers& members, uint64_t round, Duration interval) {
    members_ = members;
    round_ = round;
    interval_ = interval;
  }

  // Asks `from`; if a pull for this slice was sent within the interval, after it.
  void ask(UpdateSlice& slice, const PeerId& from);
  // Says to all members, once a round, which log this one holds. Holders of a lighter one ask for it.
  void tell_all(const UpdateSlice& slice);
  // Answers one that asked for more than this log has: here it ends.
  void tell(const UpdateSlice& slice, const PeerId& to);
  // Asks for the whole state, whatever the log has.
  void ask_for_state(UpdateSlice& slice, const PeerId& from) { send(slice, from, {}); }
  // Asks one of the members, chosen at random, whatever was sent before. Nobody, if there are no others.
  void ask_anyone(UpdateSlice& slice);

  // Asks some of the members that have not shown the state that is complete.
  void ask_for_witnesses(UpdateSlice& slice);

  // A part of the entry that makes the log so long came. `here`: the log has it already.
  void came(uint32_t slice, const PeerId& from, uint64_t length, bool here);

  // How many times longer than usual to wait before asking for what may only be late; 1 where most is lost.
  double patience() const { return std::max(1.0, doubt_ / kDoubtAllowed); }

  // Goes on asking for states that are under way, and for others that show them; gives up what nobody completes.
  void tick(UpdateSlices& slices);
  TimePoint next_deadline(const UpdateSlices& slices) const;

  uint64_t sent() const { return sent_; }

 private:
  static constexpr int kIdleMax = 4;            // pulls for a state without a new block
  static constexpr size_t kWitnessesAsked = 3;  // at a time: each answers with a block
  // Factors on the doubt: an answer helped; what was asked for came twice. Where messages are lost, several members are
  // asked for one entry, so for each answer that helps up to four may come twice, and a little doubt changes nothing.
  static constexpr double kHelped = 0.7, kCameTwice = 1.1, kDoubtAllowed = 2, kDoubtMax = 128;
  struct Asked {
    TimePoint next_at = TimePoint::min();
    std::optional<PeerId> waiting;  // to be asked then
    size_t missing = 0;             // blocks, at the last pull
    int idle = 0;
    std::optional<PeerId> whom;  // asked last, until what was asked for came twice
    uint64_t length = 0;         // of the log with the entry that was asked for
    bool came = false;           // that entry, once
    uint64_t told_in = 0;        // the round of the last tell_all()
  };
  void send(UpdateSlice& slice, const PeerId& to, const LogHead& head);
  void go_on(UpdateSlice& slice, Asked& asked, const std::optional<PeerId>& waiting);

  const Clock& clock_;
  Outbox& outbox_;
  Rng rng_;
  GroupMembers members_;
  uint64_t round_ = 0;
  Duration interval_ = std::chrono::milliseconds(100);
  std::vector<Asked> slices_;
  double doubt_ = 1;  // that asking helps, at least 1
  uint64_t sent_ = 0;
};

}  // namespace starling
