// The table of all other members with their believed states, and the lists and counts derived from the states.
// member_rules.h decides which news changes a state.
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
  Duration mean() const;  // zero: not measured
  // How long to wait for an answer: at most `timeout`, less for a member with short round trips.
  Duration patience(Duration timeout) const;

 private:
  double mean_s_ = 0, deviation_s_ = 0;
};

// One row of the table. A suspicion and its timer belong to `member.record.version`. A newer version ends them, so an
// old timer cannot declare a new incarnation dead.
struct MemberEntry {
  Member member;
  std::vector<PeerId> accusers;  // of this version; the first one began the suspicion
  TimePoint suspicion_began, suspicion_ends;
  size_t suspicion_members = 0;  // size of the swarm when it began
  RoundTrip round_trip;
  TimePoint heard;          // last frame of this generation
  TimePoint grows_since;    // the window in which its incarnation grows (record_check.h)
  uint32_t grows_from = 0;  // the incarnation then
  TimePoint told;           // when this agent last answered about this member
  uint32_t asked = 0;       // whether it is there, in vain, by questions.h
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
  const std::vector<const Member*>& proven();  // of those, likewise; and the others
  const std::vector<const Member*>& unproven();
  const std::set<PeerId>& suspects() const { return suspects_; }
  size_t live_count() const { return live_count_; }
  MemberEntry* unheard();  // a live member from which no frame came, which never answered; nullptr: none
  size_t dead_count() const { return dead_count_; }
  size_t member_count() const { return live_count_ + 1; }                // live, and this agent
  void prove(MemberEntry& entry);                                        // Member::proven
  void miss(MemberEntry& entry);                                         // a ping that it did not answer itself
  void vouch(MemberEntry& entry) { entry.member.ever_answered = true; }  // one that is proven says so
  void doubt(MemberEntry& entry);                                        // it has a new process, which is not proven

  // Up to `count_max` live members without `except`, in random order: of those that answered this agent, as long as
  // there are any. What is sent to ids that somebody invented is lost.
  std::vector<PeerId> random_members(Rng& rng, size_t count_max, const PeerId& except, bool with_suspects);

  MemberEntry& add(const PeerRecord& record);  // alive. REQUIRES: unknown
  void change_state(MemberEntry& entry, MemberState state);
  TimePoint next_suspicion_end() const;  // max: nobody is suspected
  void postpone_suspicions(Duration by);
  // Drops the members that have been dead or gone for longer than `life`, and the oldest of them beyond kTombstonesMax.
  struct Reaped {
    std::vector<PeerId> peers;
    size_t excess = 0;  // how many of them were beyond kTombstonesMax
  };
  Reaped reap_tombstones(Duration life);

 private:
  size_t& count_of(MemberState state);

  const Clock& clock_;
  std::map<PeerId, MemberEntry> rows_;  // without this agent
  MemberEntry* last_found_ = nullptr;   // a frame's sender is looked up several times
  // Of the rows, in their order; asked for far more often than they change. Members that come and that are proven are
  // put in their places, since at the start of a large swarm these are many; after other changes all is listed anew.
  std::vector<const Member*> alive_, proven_, unproven_;
  bool alive_changed_ = false;
  std::set<PeerId> suspects_;
  size_t live_count_ = 0, dead_count_ = 0, left_count_ = 0;
};

}  // namespace starling
