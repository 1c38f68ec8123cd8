// Decoded messages: plain structs, all that the rest of the program ever sees of the wire. wire.capnp specifies the
// bytes, and the sender and time of each message; wire.h converts. Every field here has passed the wire's range checks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "gossip/limits.h"
#include "gossip/peer.h"

namespace starling {

// ---- membership (control port) ----

struct Suspicion {
  PeerId subject;
  Version version;  // the version suspected, never above one the subject itself announced
  PeerId accuser;
};

// Rides on every membership message; at most kGossipUpdatesPerFrameMax entries in all.
struct Updates {
  std::vector<PeerRecord> alive;
  std::vector<Suspicion> suspect;
  std::vector<PeerRecord> left;
};

struct Ping {
  uint64_t sequence = 0;
  PeerId target;
  Updates updates;
};
struct PingAck {
  uint64_t sequence = 0;
  Updates updates;
  std::vector<uint8_t> proof{};  // to a process of the same id: its signature (bootstrap/twin_watch.h); else empty
  uint64_t unix_s = 0;           // the sender's wall clock, where the swarm is certified; 0: it does not tell
};
struct PingRequest {  // probe the target for me
  uint64_t sequence = 0;
  PeerId target;
  Updates updates;
};
struct PingNack { uint64_t sequence = 0; };  // the helper is alive, but could not reach the target
struct Gossip { Updates updates; };
struct DigestEntry {
  PeerId id;
  Version version;
  uint8_t state = 0;
};  // state: MemberState
struct Sync {
  std::vector<DigestEntry> digest;
  std::vector<PeerRecord> records;
  bool reply_wanted = false;
  uint64_t nonce = 0;  // of the reader's Join that this page answers; 0: between members, without pages
  uint16_t page = 0, pages = 0;
  uint64_t revoked = 0;  // sum of the ids that the sender knows to be revoked (net/revocations.h); 0: none
};
struct Revoked { std::string entries; };  // as Revocations::take() reads them

// ---- bootstrap (control port; the blocks on the bulk port) ----

// The newcomer's record, and the settings it was started with (empty: it adopts the swarm's).
struct Join {
  PeerRecord record;
  std::string settings;
  uint64_t nonce = 0;                     // the answer repeats it
  uint64_t cookie = 0;                    // of the last JoinCookie; 0: none yet
  uint32_t revision = kProtocolRevision;  // of the newcomer's program; 0: from before there were any
  uint64_t reads = 0;                     // the swarm that a reader asks for, or kOnlySwarm; 0: no reader
  std::string signature{};                // of the settings, as in JoinReply
};
// Not yet: join again, or ask for the model again, with the cookie.
struct JoinCookie {
  uint64_t cookie = 0;
  uint64_t nonce = 0;
};
struct JoinReply {
  std::string settings;             // empty: a bootstrap that has met no swarm yet
  std::vector<PeerRecord> members;  // <= kSyncRecordsMax, the replier among them
  std::string note;                 // for people: what else the registry serves; may be empty
  uint64_t nonce = 0;
  std::string signature{};  // of the settings by the swarm's key (net/member_keys.h); empty: the swarm is open
};
struct JoinRefused {
  std::string reason;
  std::string settings;
  uint64_t nonce = 0;
  std::optional<PeerRecord> held{};  // of the newcomer, for which its own is not taken
};  // the reason is for people

// What do you have? Hashes from this block on. `cookie`: of the donor's JoinCookie; 0: none yet. `nonce`: random, one
// for each donor; only answers that repeat it count. 0: of an older program.
struct ModelRequest {
  uint32_t first_hash = 0;
  uint64_t cookie = 0;
  uint64_t nonce = 0;
};
struct ModelOffer {
  uint64_t snapshot = 0;  // changes whenever the donor's file changes
  uint64_t round = 0;
  uint64_t steps = 0;
  uint64_t total_bytes = 0;  // 0: nothing to give
  uint32_t block_bytes = 0;
  std::array<uint8_t, 32> root{};  // BLAKE2b-256 of the block hashes in order
  uint32_t first_hash = 0;
  std::vector<std::array<uint8_t, 16>> hashes;  // XXH3-128 of each block, <= kTransferHashesPerFrame
  uint64_t nonce = 0;
};
// Cookie and nonce: likewise.
struct ModelBlockRequest {
  uint64_t snapshot = 0;
  uint32_t index = 0;
  uint64_t cookie = 0;
  uint64_t nonce = 0;
};
struct ModelBlock {
  uint64_t snapshot = 0;
  uint32_t index = 0;
  uint64_t nonce = 0;
};  // + payload
struct ModelGone {
  uint64_t snapshot = 0;
  uint64_t nonce = 0;
};  // the donor moved on: ask again

// ---- pairwise exchange (blocks on the bulk port, all else on the control port) ----

using Bitmap = std::vector<uint8_t>;  // bit i of byte i/8, little end first; bits past the last block are zero

// An exchange is named by its proposer (the frame's sender for its own messages) and a counter that only grows within
// one generation of that proposer.
struct ExchangeId {
  PeerId proposer;
  uint64_t generation = 0;
  uint64_t counter = 0;
  auto operator<=>(const ExchangeId&) const = default;
};

struct Propose {
  ExchangeId xid;
  double offer = 1;  // this snapshot's remaining share: 1, 1/2 or 1/4
  double mass = 1;
  uint64_t round = 0;
  uint32_t deadline_ms = 0;   // the proposer aborts this long after sending
  uint32_t credit = 0;        // the acceptor may send blocks below this index
  uint64_t payload = 0;       // number of the snapshot that the proposer's blocks are from
  uint32_t fragment = 0;      // the part of the model that this exchange carries
  uint64_t slot = 0;          // by turns: of the proposer's schedule
  uint32_t steps_us = 0;      // by turns: how long the proposer's steps between two boundaries take; 0: not said
  bool blocks_first = false;  // by turns: all its blocks are on their way, and take long
};
struct Accept {
  ExchangeId xid;
  double offer = 1, mass = 1;
  uint64_t round = 0;
  uint32_t credit = 0;
  uint64_t payload = 0;   // of the acceptor's blocks
  uint64_t slot = 0;      // by turns: of the acceptor's schedule
  uint32_t steps_us = 0;  // by turns: of the acceptor's steps
};
struct Busy {
  ExchangeId xid;
  uint32_t free_in_ms = 0;
};  // a refusal before any vote; costs nothing
struct BlockPayload {
  ExchangeId xid;
  uint32_t index = 0;
  uint8_t stage = 0;
};  // + payload; stage 0 = open
struct Credit {
  ExchangeId xid;
  uint32_t credit = 0;
};
struct Have {
  ExchangeId xid;
  Bitmap blocks;
  double scale = 1;
};  // the vote; the voter can no longer refuse
struct Commit {
  ExchangeId xid;
  Bitmap blocks;
  double scale = 1;
};  // the decision: K and s
struct Abort { ExchangeId xid; };
struct CommitAck { ExchangeId xid; };
struct Query { ExchangeId xid; };  // in doubt for long: what became of it?
struct Missing {
  ExchangeId xid;
  Bitmap blocks;
};  // of the receiver's: send them again

// ---- exchanges in rounds: neighborhood and group (blocks on the bulk port, credits on the control port) ----

struct RoundBlock {    // + payload
  uint64_t group = 0;  // hash of the sorted members; 0: neighborhood
  uint64_t round = 0;
  uint8_t phase = 0;  // 0: the sender's own; 1: an owner's average
  uint32_t index = 0;
  double mass = 1;       // of the sender
  uint32_t counted = 0;  // phase 1: the ranks that are in the average
};
struct RoundCredit {
  uint64_t group = 0;
  uint64_t round = 0;
  uint8_t phase = 0;
  uint32_t credit = 0;
};

// ---- the log of updates of each slice (payloads on the bulk port, pulls on the control port) ----

using Digest16 = std::array<uint8_t, 16>;

// The last entry of a log. All zero: the log is empty.
struct LogHead {
  uint64_t length = 0;  // entries
  uint64_t weight = 0;  // contributions counted in them
  Digest16 hash{};
  bool operator==(const LogHead&) const = default;
};

struct Contribution {  // + payload, or a part of it
  uint64_t group = 0;  // hash of the sorted members, as in RoundBlock
  uint64_t round = 0;
  uint32_t slice = 0;
  uint64_t seq = 0;     // of the sender's payloads for this slice; from 1
  uint64_t length = 0;  // of the sender's log when it encoded the payload
  LogHead head;         // of the replica that the sender trained from
  double mass = 1;
  uint8_t codec = 0;  // UpdateKind
  uint32_t part = 0, parts = 1;
  Digest16 audit{};  // of the slice's params and momentum at `head`; zero: not in this round
};
struct CountedPayload {
  PeerId peer;
  uint64_t generation = 0;
  uint64_t seq = 0;
  float scale = 1;  // at which the owner took it
  float norm = 0;   // of the payload, before the scale
  bool operator==(const CountedPayload&) const = default;
};
struct LogEntry {  // + payload, or a part of it
  uint64_t group = 0;
  uint64_t round = 0;
  uint32_t slice = 0;
  LogHead head;                         // of the log that ends with this entry
  Digest16 previous{};                  // the hash of the entry before
  double divisor = 1;                   // mass of the whole roster
  std::vector<CountedPayload> counted;  // ascending by peer
  uint8_t codec = 0;
  uint32_t part = 0, parts = 1;
  std::vector<uint8_t> plan{};  // of slice 0: an encoded UpdatePlan, or empty
};
struct UpdateBundle {  // + their payloads, one after the other
  std::vector<Contribution> contributions;
  std::vector<LogEntry> entries;
  std::vector<uint32_t> sizes;  // of the payloads: of the contributions, then of the entries
};
// Send me what follows my head. `root` and `missing`: of the state that I am collecting; zero and empty: none.
struct LogPull {
  uint32_t slice = 0;
  LogHead head;
  Digest16 root{};
  Bitmap missing;
  uint64_t group = 0, round = 0;  // in which the sender is
};

struct CountedRow {  // which payloads of one process a log counts
  PeerId peer;
  uint64_t generation = 0;
  uint64_t newest = 0;  // seq
  uint64_t window = 0;  // bit i: newest - 1 - i is counted too
  uint64_t length = 0;  // of the log that ends with the entry that counted `newest`
  // The last seq counted that lay far beyond the one before it, as a lying owner's may; that one; its window. 0: none.
  uint64_t far = 0, before_far = 0, before_window = 0;
  bool operator==(const CountedRow&) const = default;
};
struct RecentEntry {
  Digest16 hash{};
  float norm = 0;          // before any limit; of an entry of zeros that of the one before it
  float payload_norm = 0;  // the median of the payloads that it counts and that are not zero; likewise
  bool operator==(const RecentEntry&) const = default;
};
struct SliceState {  // + payload: one block of the slice's params, then its momentum
  uint32_t slice = 0;
  LogHead head;
  std::vector<CountedRow> table;    // ascending by peer
  std::vector<RecentEntry> recent;  // the newest last
  std::vector<Digest16> hashes;     // XXH3-128 of each block
  uint32_t block = 0;
};

struct SketchTable {  // + payload, or a part of it; to the slice's owner
  uint64_t group = 0;
  uint64_t round = 0;
  uint32_t slice = 0;
  double mass = 1;  // of the sender
  uint32_t part = 0, parts = 1;
};
struct SketchRequest {  // + payload, or a part of it: elements that the owner asks for
  uint64_t group = 0;
  uint64_t round = 0;
  uint32_t slice = 0;
  uint32_t part = 0, parts = 1;
};

// ---- families: one for each part of an agent that handles messages ----

using MembershipMessage = std::variant<Ping, PingAck, PingRequest, PingNack, Gossip, Sync, Revoked>;
using BootstrapMessage = std::variant<Join, JoinReply, JoinRefused, ModelRequest, ModelOffer, ModelBlockRequest,
                                      ModelBlock, ModelGone, JoinCookie>;
using ExchangeMessage = std::variant<Propose, Accept, Busy, BlockPayload, Credit, Have, Commit, Abort, CommitAck, Query,
                                     Missing, RoundBlock, RoundCredit, Contribution, LogEntry, LogPull, SliceState,
                                     SketchTable, SketchRequest, UpdateBundle>;

// Any message; each kind above and each family converts to it.
using Message = std::variant<MembershipMessage, BootstrapMessage, ExchangeMessage>;

template <typename Kind, typename Family>
inline constexpr bool kHasKind = false;
template <typename Kind, typename... Kinds>
inline constexpr bool kHasKind<Kind, std::variant<Kinds...>> = (std::is_same_v<Kind, Kinds> || ...);

template <typename Kind>
using FamilyOf =
    std::conditional_t<kHasKind<Kind, MembershipMessage>, MembershipMessage,
                       std::conditional_t<kHasKind<Kind, BootstrapMessage>, BootstrapMessage, ExchangeMessage>>;

// The message, if it is of this kind; else null.
template <typename Kind>
const Kind* message_as(const Message& message) {
  return std::get_if<Kind>(std::get_if<FamilyOf<Kind>>(&message));
}
template <typename Kind>
Kind* message_as(Message& message) {
  return std::get_if<Kind>(std::get_if<FamilyOf<Kind>>(&message));
}
template <typename... Kinds>
bool message_is(const Message& message) {
  return (message_as<Kinds>(message) || ...);
}

// Calls the visitor with the message itself, whatever its family and kind.
template <typename Visitor>
decltype(auto) visit_kind(Visitor&& visitor, const Message& message) {
  return std::visit([&](const auto& family) { return std::visit(visitor, family); }, message);
}

// What every frame says before its message.
struct FrameHeader {
  uint64_t swarm = 0;  // first 8 bytes of the settings hash, or 0; in a Join: the swarm that it names, or 0
  PeerId sender;
  uint64_t generation = 0;
  Endpoint reply_to;  // the sender's advertised control port
};

}  // namespace starling
