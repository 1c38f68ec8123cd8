// Inside Membership: the table with its rules (rules.cpp), probing (probe.cpp), spreading and healing
// (spread.cpp).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "gossip/membership/membership.h"
#include "gossip/membership/update_queue.h"
#include "gossip/rng.h"

namespace starling {

inline constexpr uint32_t kHealthScoreMax = 7;
inline constexpr size_t kGossipFanOut = 3;
inline constexpr size_t kToldAtOnceMax = 64;             // members that hear of a new phase directly
inline constexpr size_t kRelaysMax = 256;               // probes in progress on behalf of others
inline constexpr uint32_t kIncarnationMax = 1u << 31;   // beyond it an owner has no room to refute
inline constexpr uint32_t kIncarnationJumpMax = 1u << 20;  // six days of status changes, all of them missed
inline constexpr uint64_t kGenerationJumpMax = 1ull << 42;  // ms: no honest clock is off by 139 years

// One row of the table. The suspicion, and with it its timer, belongs to `member.record.version`: a newer
// version ends it, so no old timer can strike a new incarnation.
struct MemberEntry {
  Member member;
  std::vector<PeerId> accusers;     // of this version; the first one began it
  TimePoint suspicion_began, suspicion_ends;
  size_t suspicion_members = 0;     // size of the swarm when it began
  double round_trip_s = 0, round_trip_deviation_s = 0;
  TimePoint heard;                  // last frame of this generation
  TimePoint told;                   // when it, or whoever spoke of it, was last told what is said about it
};

// The probe in progress; one at a time.
struct Probe {
  PeerId target;
  Version version;
  uint64_t sequence = 0;
  TimePoint sent, indirect_at, ends;
  std::vector<PeerId> helpers;
  uint32_t nacks = 0;
  bool indirect_sent = false;
  bool acked = false;
  bool measured = false;
};

// A probe on behalf of another member.
struct Relay {
  uint64_t sequence = 0;            // ours
  PeerId requester;
  uint64_t requester_sequence = 0;
  PeerId target;
  TimePoint ends;
};

struct Membership::Impl {
  Impl(const MembershipOptions& options_in, PeerRecord self_in, const Clock& clock_in, Outbox& outbox_in,
       uint64_t rng_seed);

  MembershipOptions options;
  const Clock& clock;
  Outbox& outbox;
  Rng rng;
  PeerRecord self;
  std::map<PeerId, MemberEntry> table;     // without self
  std::vector<const Member*> alive;        // of the table, in its order; asked for far more often than it changes
  bool alive_changed = false;
  std::set<PeerId> suspects;
  size_t live_count = 0, dead_count = 0, left_count = 0;  // live: alive and suspect
  std::vector<MemberEvent> events;
  MembershipCounters counters;
  bool leaving = false;

  UpdateQueue queue;
  Updates answers;                         // to the sender of the message being handled
  bool answer_with_self = false;           // so is our own record
  std::vector<DigestEntry> wants;          // records to ask that sender for
  std::vector<Endpoint> seeds;
  TimePoint next_gossip, next_heal;
  Duration heal_pause;                     // grows to the interval
  std::optional<MemberMeta> pending_meta;
  TimePoint announced;

  std::vector<PeerId> probe_order;
  size_t probe_position = 0;
  std::optional<Probe> probe;
  TimePoint next_probe;
  uint64_t next_sequence = 0;
  uint32_t health_score = 0;
  std::vector<Relay> relays;

  const std::vector<const Member*>& alive_members();

  // rules.cpp
  enum class Source : uint8_t { kGossip, kSync, kJoin };
  bool verify_record(const PeerRecord& record, const MemberEntry* held);
  void on_alive(const PeerRecord& record, Source source);
  void on_suspect(const Suspicion& suspicion);
  void on_left(const PeerRecord& record, const PeerId& from);
  void on_own_record(const PeerRecord& record);
  void accuse(MemberEntry& entry, const PeerId& accuser);
  void mark_left(MemberEntry& entry);
  void refute();
  void announce_self(bool urgent);
  void expire_suspicions();
  void change_state(MemberEntry& entry, MemberState state);
  void answer_about(MemberEntry& entry);
  void reap_tombstones();
  MemberEntry* find(const PeerId& peer);
  bool is_live(const PeerId& peer) const;
  size_t member_count() const { return live_count + 1; }

  // probe.cpp
  void advance_probe();
  void start_probe();
  void finish_probe();
  void probe_acked();
  void insert_into_probe_order(const PeerId& peer);
  void probe_soon(const PeerId& peer);
  std::optional<PeerId> next_target();
  void send_ping(MemberEntry& target, uint64_t sequence);
  void expire_relays();
  void on_ping(const PeerId& from, const Ping& ping);
  void on_ping_ack(const PeerId& from, const PingAck& ack);
  void on_ping_request(const PeerId& from, const PingRequest& request);
  void on_ping_nack(const PeerId& from, const PingNack& nack);
  Duration timeout_of(const MemberEntry& entry) const;
  void measure(MemberEntry& entry, Duration round_trip);
  void change_health(int delta);
  void heard_from(const PeerId& peer, uint64_t generation);
  void forgive_stall();
  TimePoint next_verdict() const;
  TimePoint next_deadline() const;

  // spread.cpp
  void handle(const PeerId& from, const MembershipMessage& message);
  void on_updates(const PeerId& from, const Updates& updates);
  void on_sync(const PeerId& from, const Sync& sync);
  void on_digest_entry(const PeerId& from, const DigestEntry& entry, bool reply_wanted, Sync& reply);
  void flush_answers(const PeerId& to);
  void send_sync_reply(const PeerId& to, Sync reply, std::vector<PeerRecord> records, bool always);
  Updates piggyback(const PeerId& to, bool with_self);
  void gossip();
  void heal();
  void heal_soon();
  Sync full_sync() const;
  std::vector<PeerId> random_members(size_t count_max, const PeerId& except, bool with_suspects);
  void advance_meta();
};

}  // namespace starling
