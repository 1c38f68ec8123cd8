// A member as this agent knows it, the events of membership, and its counters.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gossip/clock.h"
#include "gossip/peer.h"

namespace starling {

enum class MemberState : uint8_t { kAlive = 0, kSuspect = 1, kDead = 2, kLeft = 3 };  // on the wire

struct alignas(64) Member {  // as a cache line
  MemberState state = MemberState::kAlive;
  bool proven = false;  // this process answered with a random number that this agent had sent to it
  // This process or an earlier one answered this agent, or, says one that did, that one. Records can be invented.
  bool ever_answered = false;
  uint32_t unanswered = 0;     // pings in a row that it did not answer itself
  TimePoint unanswered_since;  // the first of them
  TimePoint since;             // of this state
  Duration round_trip{};       // smoothed; zero: not measured
  PeerRecord record;
};

// The first bytes of a Member, up to and with record.meta.steps_per_s: what walks over all members read.
inline constexpr size_t kHotBytes = 192;
static_assert(offsetof(Member, record) + offsetof(PeerRecord, meta) + offsetof(MemberMeta, steps_per_s) +
                  sizeof(MemberMeta::steps_per_s) <=
              kHotBytes);

// kReaped: the tombstone of a dead member, or of one that left, expired or had to make room.
enum class MemberEventKind : uint8_t { kJoined, kSuspected, kAliveAgain, kDied, kLeft, kRestarted, kReaped };
struct MemberEvent {
  MemberEventKind kind;
  PeerId peer;
};

// A record or farewell that was not taken, since its owner did not sign it for this swarm.
struct ForgedRecord {
  PeerId from;  // the member that passed it on
  PeerRecord record;
};

struct MembershipCounters {
  uint64_t probes = 0, probes_failed = 0, refutations = 0, false_suspicions = 0, updates_refused = 0;
  uint64_t records_forged = 0;    // refused: not signed by their owners for this swarm, or behind one in its message
  uint64_t identity_clashes = 0;  // records with this agent's id of another process: a later one, or at another address
  uint64_t table_full = 0;        // members turned away at kMembersMax, tombstones dropped at kTombstonesMax
  uint64_t stalls = 0;            // this agent was not run in time, so its expired timers were postponed

  void add(const MembershipCounters& other) {
    probes += other.probes;
    probes_failed += other.probes_failed;
    refutations += other.refutations;
    false_suspicions += other.false_suspicions;
    updates_refused += other.updates_refused;
    records_forged += other.records_forged;
    identity_clashes += other.identity_clashes;
    table_full += other.table_full;
    stalls += other.stalls;
  }
};

}  // namespace starling
