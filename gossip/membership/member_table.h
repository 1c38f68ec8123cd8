// The table: what is believed of every other member. It keeps the lists and counts that follow from the states; which
// news changes a state is decided in member_rules.h.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <vector>

#include "gossip/clock.h"
#include "gossip/membership/member.h"
#include "gossip/rng.h"

namespace starling {

// Smoothed round trips to one member (the estimator of TCP).
class RoundTrip {
 public:
  void add(Duration sample);
  Duration mean() const;               // zero: not measured
  // How long an answer may take: at most `timeout`, less for a near member.
  Duration patience(Duration timeout) const;

 private:
  double mean_s_ = 0, deviation_s_ = 0;
};

// One row of the table. The suspicion, and with it its timer, belongs to `member.record.version`: a newer version ends
// it, so no old timer can strike a new incarnation.
struct MemberEntry {
  Member member;
  std::vector<PeerId> accusers;     // of this version; the first one began the suspicion
  TimePoint suspicion_began, suspicion_ends;
  size_t suspicion_members = 0;     // size of the swarm when it began
  RoundTrip round_trip;
  TimePoint heard;                  // last frame of this generation
  TimePoint told;                   // when the member, or whoever spoke of it, was last told what is said about it
};

class MemberTable {
 public:
  explicit MemberTable(const Clock& clock) : clock_(clock) {}
  MemberTable(const MemberTable&) = delete;
  MemberTable& operator=(const MemberTable&) = delete;

  MemberEntry* find(const PeerId& peer);   // nullptr: unknown
  bool is_live(const PeerId& peer) const;  // alive or suspect
  const std::map<PeerId, MemberEntry>& rows() const { return rows_; }
  const std::vector<const Member*>& alive();   // ordered by id; valid until the next change
  const std::set<PeerId>& suspects() const { return suspects_; }
  size_t live_count() const { return live_count_; }
  size_t dead_count() const { return dead_count_; }
  size_t member_count() const { return live_count_ + 1; }   // live, and this agent
  // Up to `count_max` live members but `except`, in random order.
  std::vector<PeerId> random_members(Rng& rng, size_t count_max, const PeerId& except, bool with_suspects);

  MemberEntry& add(const PeerRecord& record);   // alive. REQUIRES: unknown
  void change_state(MemberEntry& entry, MemberState state);
  TimePoint next_suspicion_end() const;         // max: nobody is suspected
  void postpone_suspicions(Duration by);
  // Forgets who has been dead or gone for longer than `life`, and the oldest of them beyond kTombstonesMax.
  struct Reaped {
    std::vector<PeerId> peers;
    size_t excess = 0;             // of them, those beyond the limit
  };
  Reaped reap_tombstones(Duration life);

 private:
  size_t& count_of(MemberState state);

  const Clock& clock_;
  std::map<PeerId, MemberEntry> rows_;     // without this agent
  std::vector<const Member*> alive_;       // of the rows, in their order; asked for far more often than it changes
  bool alive_changed_ = false;
  std::set<PeerId> suspects_;
  size_t live_count_ = 0, dead_count_ = 0, left_count_ = 0;
};

}  // namespace starling
