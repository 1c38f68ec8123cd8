// The interface of all exchanges (pairwise, neighborhood, group) to the agent's round loop.
//
//   boundary: next() says what is due: take_decided(), apply and encode, publish(snapshot); or to wait; or the steps
//
// State machines: no sockets, no threads; arithmetic goes through a Worker. All calls on the control thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "compression/codec.h"
#include "gossip/clock.h"
#include "gossip/exchange/boundary.h"
#include "gossip/exchange/snapshot.h"
#include "gossip/net/message.h"

namespace starling {

struct Participant {
  PeerId peer;
  double weight = 0;  // neighborhood: its entry in this agent's row of the mixing matrix; group: its mass
  double mass = 1;    // neighborhood: by which its weight was computed
};

// The peers to exchange with, as far as this agent knows. Every exchange asks a PeerSampler.
class PeerSampler {
 public:
  virtual ~PeerSampler() = default;
  virtual std::optional<PeerId> choose(const std::vector<PeerId>& except) = 0;  // pairs: a partner, none of these
  // Pairs by turns: an exchange with the peer counts from now on, or an attempt at one came to nothing.
  virtual void met(const PeerId& peer) = 0;
  virtual uint64_t last_met(const PeerId& peer) = 0;  // grows with every meeting. A newcomer: a random late one
  virtual std::vector<PeerId> candidates() = 0;       // choose() would choose from these, were all free
  virtual bool anyone() const { return false; }       // those all have each other and this agent as candidates
  virtual std::vector<Participant> neighbors(uint64_t round) = 0;  // neighborhood: weights sum to at most 1
  virtual std::vector<Participant> group() = 0;                    // this agent among them, sorted by id
  virtual bool pauses(const PeerId&) const { return false; }       // group: a member that pauses
};

// What became of the blocks due from other agents since this agent began; each block is counted once, under one cause.
// A block becomes due when its outcome is final. Group: when the next round begins. Neighborhood: when the round is
// mixed. AsyncPairs: when the exchange is decided; failed and busy exchanges make no block due.
struct BlockTally {
  uint64_t due = 0;               // the sum of counted, old, late, missing, dead, refused and injected
  uint64_t counted = 0;           // mixed, or averaged
  uint64_t old = 0;               // replaced by its sender's previous payload
  uint64_t late = 0;              // arrived after the deadline
  uint64_t missing = 0;           // did not arrive before the count was final; pairwise: not in time at both ends
  uint64_t dead = 0;              // did not arrive, and its sender left the swarm
  uint64_t refused = 0;           // of the wrong size, not finite, or left out by the codec
  uint64_t injected = 0;          // dropped on purpose (inject_loss)
  uint64_t averages_due = 0;      // group: how many of `due` are averages that owners send back; the others are
  uint64_t averages_counted = 0;  //   contributions to this agent's own blocks. Likewise of `counted`
  uint64_t ignored_messages = 0;  // from strangers, of other rounds or exchanges, duplicated, or malformed

  // The counts by cause, with their names; they add up to `due`.
  std::array<std::pair<const char*, uint64_t>, 7> outcomes() const {
    return {{{"counted", counted},
             {"old", old},
             {"late", late},
             {"missing", missing},
             {"dead", dead},
             {"refused", refused},
             {"injected", injected}}};
  }
  // The part of the due blocks for which neither the block nor an older payload was mixed, in [0, 1].
  double missed_part() const {
    return due == 0 ? 0 : static_cast<double>(due - counted - old) / static_cast<double>(due);
  }
  BlockTally& operator+=(const BlockTally& other);
};

inline constexpr uint64_t kEveryLife = UINT64_MAX;

// The state of any exchange, and the properties that its caller needs. Each room has a status of its own beside it.
struct ExchangeStatus {
  bool under_way = false;     // the exchange that this agent began is neither decided nor given up
  bool idle = true;           // no other agent waits for this one, so this agent may leave
  bool in_rounds = false;     // blocks are due from several peers in each round, so some may miss it
  int latencies = 1;          // one exchange takes at least this many one-way latencies
  Duration usual_duration{};  // median of the exchanges this agent began, late ones included; 0: not known yet
  // When an exchange that another agent began, and that uses the snapshot, is expected to end. Publishing earlier keeps
  // two large snapshots in memory. Of updates: until when others may take what this agent still has for them; the next
  // round drops it. nullopt: publish, or begin, at any time.
  std::optional<TimePoint> serving_until;
  BlockTally block_tally;
};

// What the agent drives by messages and time, whatever it exchanges: params (Exchange) or updates (UpdateGroup).
class ExchangeMachine {
 public:
  virtual ~ExchangeMachine() = default;

  // Messages of other exchanges are ignored. `from` and `generation` are the frame's sender.
  virtual void handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message,
                      const SharedBytes& payload) = 0;
  virtual void tick() = 0;
  virtual TimePoint next_deadline() const = 0;  // when tick() is next needed

  // Drops everything that waits for the peer's processes before `generation`. They have ended for good: the peer
  // restarted with this generation, or its tombstone expired (kEveryLife). Not for a peer that is only believed dead:
  // it may be cut off and may have applied its half of an exchange.
  virtual void forget(const PeerId& peer, uint64_t generation) = 0;

  // The peer is believed dead, or has left: nothing that can be given up waits for it. It may come back.
  virtual void lost(const PeerId& peer) = 0;

  virtual std::vector<ExchangeReport> take_reports() = 0;  // since the last call
  virtual ExchangeStatus status() const = 0;
};

class Exchange : public ExchangeMachine {
 public:
  // Called at each boundary: new exchanges use this snapshot from now on. Null: share nothing until the next call.
  virtual void publish(std::shared_ptr<const Snapshot> snapshot) = 0;

  // What is due at a boundary. Called when it begins and when what was due is done, until Due::kSteps; a caller may
  // leave a boundary that it cannot go on with. It begins exchanges. Due::kPublish releases the snapshot, so that its
  // memory can be reused.
  virtual Due next(const Boundary& boundary) = 0;

  // The results since the last call. The caller applies all deltas at its boundary, in this order, and hands the
  // lessons to its encoder. Failed exchanges give lessons too. Neighborhood and group give none: they take only
  // linear codecs, which have nothing to learn from a peer's payload (Codec::linear).
  virtual Decided take_decided() = 0;
};

inline BlockTally& BlockTally::operator+=(const BlockTally& other) {
  due += other.due;
  counted += other.counted;
  old += other.old;
  late += other.late;
  missing += other.missing;
  dead += other.dead;
  refused += other.refused;
  injected += other.injected;
  averages_due += other.averages_due;
  averages_counted += other.averages_counted;
  ignored_messages += other.ignored_messages;
  return *this;
}

}  // namespace starling
